"""Parts of docs/providers.md: its snippets as classes, and its table as rows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[3] / "docs" / "providers.md").read_text()
SNIPPETS = dict(re.findall(r"<!-- snippet: (\w+) -->\n```python\n(.*?)```", PAGE, re.DOTALL))


def classes(*names: str) -> dict[str, Any]:
    """The names that the snippets define when they are run one after the other."""
    namespace: dict[str, Any] = {"__name__": "providers"}
    for name in names:
        exec(SNIPPETS[name], namespace)  # noqa: S102  our own documentation
    return namespace


def documented(provider: str) -> dict[str, tuple[str, str]]:
    """What happens, to the operator as it is and to the wrapped one: the rows of a table."""
    table = PAGE.split(f"<!-- table: {provider} -->\n")[1].split("\n\n")[0]
    _head, _rule, *lines = table.splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {what: (alone, wrapped) for what, alone, wrapped in cells}
