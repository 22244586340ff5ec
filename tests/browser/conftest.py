"""A real browser at a real Airflow. Without Playwright or a Chromium these tests are skipped, with the reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

CHROMIUM = "AIRFLOW_RESUME_TEST_CHROMIUM"
_NAMES = ("chromium", "chromium-browser", "google-chrome")


T = TypeVar("T")


def away(call: Callable[[], T]) -> T:
    """Make a call in a thread of its own: Playwright runs an event loop in this one, which the product notices."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result()


def chromium() -> str:
    """The path of a Chromium."""
    found = os.environ.get(CHROMIUM) or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip(f"there is no Chromium here: install one, or set {CHROMIUM}")
    return found


@dataclass
class Watched:
    """A tab, and what it asked for and complained of."""

    tab: Any
    url: str
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def of_page(self) -> list[str]:
        """The requests of the page's own script."""
        return [each for each in self.asked if "part=1" in each]

    def foreign(self) -> list[str]:
        """The requests to other servers."""
        return [each for each in self.asked if not each.startswith((self.url, "data:", "blob:"))]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip(
        "playwright.sync_api", reason="Playwright is not installed: make browser installs it"
    )
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Watched]]:
    """Opens a tab of somebody who is logged in."""
    contexts = []

    def opens(url: str, token: str, **more: Any) -> Watched:
        context = browser.new_context(viewport={"width": 1300, "height": 900}, **more)
        context.set_default_timeout(30_000)
        contexts.append(context)
        context.add_cookies([{"name": "_token", "value": token, "url": url}])
        watched = Watched(context.new_page(), url)
        watched.tab.on("request", lambda request: watched.asked.append(request.url))
        watched.tab.on("pageerror", lambda error: watched.complaints.append(str(error)))
        watched.tab.on(
            "console",
            lambda said: watched.complaints.append(f"{said.text} {said.location}") if said.type == "error" else None,
        )
        watched.tab.on("dialog", lambda dialog: _refuse(watched, dialog))
        return watched

    yield opens
    for context in contexts:
        context.close()


def _refuse(watched: Watched, dialog: Any) -> None:
    watched.complaints.append(dialog.message)
    dialog.dismiss()


@contextmanager
def quiet(watched: Watched) -> Iterator[None]:
    """See that a tab complains of nothing, and asks no other server."""
    yield
    assert watched.complaints == []
    assert watched.foreign() == []
