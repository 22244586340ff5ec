"""What all pages have in common: their links lead somewhere, and what they name can be imported."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = {
    path.relative_to(ROOT).as_posix(): path for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
}
CODE = re.compile(r"```.*?```", re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Of its headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_to_pages_and_headings(name: str) -> None:
    page = PAGES[name]
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", page.read_text())):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


@pytest.mark.parametrize("name", PAGES)
def test_modules_and_names_that_a_page_mentions_exist(name: str) -> None:
    for dotted in set(re.findall(r"`(airflow_resume(?:\.\w+)+)`", PAGES[name].read_text())):
        parent, _, last = dotted.rpartition(".")
        try:
            import_module(dotted)
        except ModuleNotFoundError:
            assert hasattr(import_module(parent), last), dotted


def test_every_page_is_in_the_list_of_the_readme() -> None:
    listed = set(re.findall(r"\]\((docs/\w[\w-]*\.md)\)", PAGES["README.md"].read_text()))
    assert listed == set(PAGES) - {"README.md"}
