"""Rows in a file, which outlive the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from airflow_resume.testing.rows import Row, Rows


class FileRows(Rows):
    """What `FakeTaskStore(FileRows(path))` keeps is there for every process; for how long it is kept is not."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(self._texts())

    def get(self, key: str, default: Row | None = None) -> Row | None:  # type: ignore[override]
        self.update(self._texts())
        return super().get(key, default)

    def __setitem__(self, key: str, row: Row) -> None:
        super().__setitem__(key, row)
        self._path.write_text(json.dumps({key: row.text for key, row in self.items()}))

    def replace_by(self, rows: Mapping[str, Row]) -> None:
        super().replace_by(rows)
        self._path.write_text(json.dumps({key: row.text for key, row in self.items()}))

    def _texts(self) -> dict[str, Row]:
        texts: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return {key: Row(text) for key, text in texts.items()}
