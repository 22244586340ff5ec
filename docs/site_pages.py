"""A hook of MkDocs: the pages that stand beside docs/, such as the README, are pages of the site too.

Their links are written for the root of the repository, where people read them. In the site a page of docs/ is beside
them, so `docs/jobs.md` is `jobs.md` there.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import TYPE_CHECKING

from mkdocs.structure.files import File

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
}
"""A file in the root of the repository, and the page of the site that it becomes."""

_LINK = re.compile(r"(?<=\]\()(?P<folder>docs/|(?:\.\./)*)(?P<path>[\w./-]+\.(?:md|png))(?=[#)])")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that stand outside docs/."""
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        files.append(File.generated(config, page, content=(root / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Have links lead where the pages are in the site."""
    return links_of_site(markdown, page.file.src_uri)


def links_of_site(markdown: str, page: str) -> str:
    """The same text, with the links between docs/ and the root as the site has them.

    >>> links_of_site("[jobs](docs/jobs.md#hooks), [loops](loops.md)", "index.md")
    '[jobs](jobs.md#hooks), [loops](loops.md)'
    >>> links_of_site("[changes](../../CHANGELOG.md), [jobs](../jobs.md)", "api/index.md")
    '[changes](../changelog.md), [jobs](../jobs.md)'
    >>> links_of_site("![page](docs/page.png)", "index.md")
    '![page](page.png)'

    Args:
        markdown: of a page.
        page: its path in the site.
    """

    def target(link: re.Match[str]) -> str:
        moved = PAGES.get(link["path"], link["path"] if link["folder"] == "docs/" else None)
        return link[0] if moved is None else posixpath.relpath(moved, posixpath.dirname(page) or ".")

    return _LINK.sub(target, markdown)
