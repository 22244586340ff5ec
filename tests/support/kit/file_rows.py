"""Rows in a file, which outlive the process."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from airflow_resume.testing.fakes.rows import StoredRow, StoredRows


class FileRows(StoredRows):
    """With `FakeTaskStore(FileRows(path))` all processes see the same values. Expiry is not kept."""

    def __init__(self, path: Path) -> None:
        self._path = path
        super().__init__(self._texts())

    def get(self, key: str, default: StoredRow | None = None) -> StoredRow | None:  # type: ignore[override]
        self.update(self._texts())
        return super().get(key, default)

    def __setitem__(self, key: str, row: StoredRow) -> None:
        super().__setitem__(key, row)
        self._path.write_text(json.dumps({key: row.text for key, row in self.items()}))

    def replace_by(self, rows: Mapping[str, StoredRow]) -> None:
        super().replace_by(rows)
        self._path.write_text(json.dumps({key: row.text for key, row in self.items()}))

    def _texts(self) -> dict[str, StoredRow]:
        texts: dict[str, str] = json.loads(self._path.read_text()) if self._path.exists() else {}
        return {key: StoredRow(text) for key, text in texts.items()}
