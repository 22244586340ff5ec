"""Takes the picture of the page in the README, in a real browser at a real API server, on records made up for it.

make page-picture      # needs Chromium
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "examples")]

from tests.support.operating.records import JOB, lost_job, stopped_loop  # noqa: E402
from tests.support.page.filled import RUN  # noqa: E402
from tests.support.page.server import page_server  # noqa: E402

PICTURE = Path(__file__).with_name("page.png")
MOST_BYTES = 200_000
WIDTH, HEIGHT = 1240, 840
PAGES = "resume.loop.pages"


def records() -> dict[str, Any]:
    """A job that was replaced once, and a loop at work that has another one inside."""
    now = datetime.now(timezone.utc)
    eta = (now + timedelta(minutes=6)).isoformat()
    loop = {
        **stopped_loop(), "key": PAGES, "kind": "page_number", "pos": {"page": 184, "rows": 18_300},
        "n": 183, "total": 400, "rate": 0.62, "eta": eta, "ts": (now - timedelta(seconds=3)).isoformat(),
        "inner": {"orders of the page": {"kind": "batches", "n": 61, "total": 100}},
        "skipped": 1, "skips": [{"pos": {"page": 97}, "error": "ValueError: a price is missing"}],
    }  # fmt: skip
    past = {"generation": 1, "token": "t", "id": "application_17", "status": "failed", "try": 1,
            "reason": "the job has failed"}  # fmt: skip
    job = {
        **lost_job(), "phase": "submitted", "id": "application_18", "status": "active", "generation": 2,
        "submitted_at": (now - timedelta(minutes=12)).isoformat(), "history": [past],
    }  # fmt: skip
    return {PAGES: loop, JOB: job}


def taken(home: Path) -> None:
    """Take the picture."""
    from playwright.sync_api import sync_playwright

    made = records()
    with page_server(home) as server:
        server.filled.dag("orders")
        server.filled.task("orders", "load", state="running", records=made, link=f"{server.url}/")
        token = str(server.as_("ana").cookies.get("_token"))
        path = os.environ.get("AIRFLOW_RESUME_TEST_CHROMIUM") or shutil.which("chromium")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            tab = browser.new_context(viewport={"width": WIDTH, "height": HEIGHT}).new_page()
            tab.context.add_cookies([{"name": "_token", "value": token, "url": server.url}])
            tab.goto(f"{server.url}/dags/orders/runs/{quote(RUN)}/tasks/load/plugin/resume")
            tab.frame_locator("iframe[title=Resume]").locator("section.card").first.wait_for()
            tab.wait_for_timeout(2_000)
            tab.screenshot(path=PICTURE)
            browser.close()


def main() -> int:
    """Take it, and see that it is small."""
    with tempfile.TemporaryDirectory() as folder:
        taken(Path(folder))
    size = PICTURE.stat().st_size
    print(f"{PICTURE.name}: {size:,} bytes")
    return 0 if size < MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
