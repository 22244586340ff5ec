// Keeps the page fresh while somebody looks at it, and takes over the theme of Airflow's UI around it. The page works
// without it. Whatever it puts into the page was made, and escaped, by the server.
(() => {
  "use strict";

  const root = document.documentElement;
  const outer = (() => {
    try {
      return window.parent === window ? null : window.parent.document.documentElement;
    } catch {
      return null; // another site, which the content security policy does not allow anyway
    }
  })();

  const takeTheme = () => {
    const named = outer.dataset.theme || (outer.classList.contains("dark") ? "dark" : "light");
    root.dataset.theme = named === "dark" ? "dark" : "light";
  };
  if (outer) {
    takeTheme();
    new MutationObserver(takeTheme).observe(outer, { attributes: true, attributeFilter: ["class", "data-theme"] });
  }

  // Airflow's frame lets no link open a window. The page around the frame may, for somebody who has clicked.
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a.out");
    if (!link || !outer) return;
    event.preventDefault();
    const copy = outer.ownerDocument.createElement("a");
    copy.href = link.href;
    copy.target = "_blank";
    copy.rel = "noopener noreferrer";
    copy.click();
  });

  const seconds = Number(document.body.dataset.poll);
  const content = document.getElementById("content");
  let timer = 0;
  let asking = false;

  const isBusy = () =>
    content.querySelector("details[open]") !== null || content.querySelector("form")?.contains(document.activeElement);

  const same = (one, two) => one.join("\n") === two.join("\n");
  const cardsOf = (where) => [...where.querySelectorAll(".card")].map((card) => card.id);

  const focused = () => {
    const link = document.activeElement?.closest?.("a[href]");
    return link && content.contains(link) ? link.getAttribute("href") : null;
  };

  const focusAgain = (href) => {
    if (href === null) return;
    const link = [...content.querySelectorAll("a[href]")].find((each) => each.getAttribute("href") === href);
    link?.focus({ preventScroll: true });
  };

  const replaceText = (next, selector) => {
    const [now, then] = [content.querySelector(selector), next.querySelector(selector)];
    if (now && then && now.innerHTML !== then.innerHTML) now.innerHTML = then.innerHTML;
  };

  const freshen = (next) => {
    const href = focused();
    replaceText(next, "#summary");
    if (!same(cardsOf(content), cardsOf(next)) || cardsOf(next).length === 0) {
      if (isBusy()) return;
      const [head, body] = [content.querySelector("#done"), next];
      if (head && !body.querySelector("#done")) body.querySelector("header")?.after(head);
      if (content.innerHTML !== body.innerHTML) content.replaceChildren(...body.childNodes);
    } else {
      for (const card of next.querySelectorAll(".card")) {
        const present = document.getElementById(card.id);
        const [now, then] = [present.querySelector(".live"), card.querySelector(".live")];
        if (now.innerHTML !== then.innerHTML) now.replaceWith(then);
        const [forms, newForms] = [present.querySelector(".actions"), card.querySelector(".actions")];
        if (forms && newForms && !forms.open && !forms.contains(document.activeElement)) forms.replaceWith(newForms);
        present.dataset.digest = card.dataset.digest;
        for (const shown of present.querySelectorAll('input[name="record"]')) shown.value = card.dataset.digest;
      }
    }
    focusAgain(href);
  };

  const say = (text) => {
    let stale = document.getElementById("stale");
    if (!text) return stale?.remove();
    if (!stale) {
      stale = document.createElement("p");
      stale.id = "stale";
      stale.className = "stale";
      stale.setAttribute("role", "status");
      content.after(stale);
    }
    if (stale.textContent !== text) stale.textContent = text;
  };

  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const url = new URL(window.location.href);
      url.searchParams.set("part", "1");
      url.searchParams.delete("done");
      const answer = await fetch(url, { credentials: "same-origin", headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(String(answer.status));
      const text = await answer.text();
      const next = new DOMParser().parseFromString(`<main id="content">${text}</main>`, "text/html");
      if (!document.hidden) freshen(next.getElementById("content"));
      say("");
    } catch {
      say("Airflow does not answer now, so what is shown here may be out of date.");
    } finally {
      asking = false;
    }
  };

  const wait = () => {
    window.clearInterval(timer);
    timer = document.hidden ? 0 : window.setInterval(ask, seconds * 1000);
  };

  if (seconds > 0) {
    document.addEventListener("visibilitychange", () => {
      wait();
      ask();
    });
    wait();
  }
})();
