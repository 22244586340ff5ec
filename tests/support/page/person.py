"""A person at the page, without a browser: looks, asks for a change, confirms it."""

from __future__ import annotations

import re
from html import unescape
from typing import Protocol
from urllib.parse import urlencode

import httpx


class Served(Protocol):
    """A page, and people who are logged in."""

    def as_(self, name: str | None) -> httpx.Client:
        """The browser of a person."""
        ...

    def page(self, path: str) -> str:
        """An address of the page."""
        ...


def task_query(dag_id: str, task_id: str, map_index: int = -1, *, run_id: str) -> str:
    """What names a task instance in an address of the page."""
    return urlencode({"dag_id": dag_id, "run_id": run_id, "task_id": task_id, "map_index": map_index})


def form(text: str, verb: str) -> dict[str, str]:
    """The hidden fields of a form of the page."""
    found = re.search(rf'<form[^>]*class="{verb}">(.*?)</form>', text, re.DOTALL)
    assert found is not None, verb
    fields = re.findall(r'<input type="hidden" name="([^"]*)" value="([^"]*)">', found[1])
    return {name: unescape(value) for name, value in fields}


class Changing:
    """A person at the page of a task instance or an asset."""

    def __init__(self, server: Served, who: str, path: str, query: str | None) -> None:
        self.server, self.who, self.path, self.query = server, who, path, query

    def address(self, end: str = "") -> str:
        return self.server.page(f"{self.path}{end}" + ("" if self.query is None else f"?{self.query}"))

    def look(self) -> str:
        answer = self.server.as_(self.who).get(self.address())
        assert answer.status_code == 200
        return answer.text

    def preview(self, verb: str, **typed: str) -> httpx.Response:
        fields = form(self.look(), verb)
        return self.server.as_(self.who).post(self.address("/preview"), data={**fields, **typed})

    def confirm(self, shown: httpx.Response, **typed: str) -> httpx.Response:
        fields = form(shown.text, "confirm")
        return self.server.as_(self.who).post(self.address("/change"), data={**fields, **typed})
