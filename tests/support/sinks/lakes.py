"""Tables of every kind of lake, in local files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


class Lake(ABC):
    """A table of flights in a folder.

    Args:
        folder: that is empty, or has the table.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def make(self) -> None:
        """Make the table, without rows."""

    @abstractmethod
    def sink(self, **options: Any) -> Any:
        """A sink of it."""

    @abstractmethod
    def rows(self) -> list[dict[str, Any]]:
        """Its rows, as any reader sees them."""

    @abstractmethod
    def commits(self) -> int:
        """How many commits it has."""

    @abstractmethod
    def add_by_others(self, *ids: int) -> None:
        """Append rows as somebody who knows no sink."""

    @abstractmethod
    def mark(self) -> Any:
        """Its state, for `restore`."""

    @abstractmethod
    def restore(self, mark: Any) -> None:
        """Bring the table back to a state."""

    def ids(self) -> list[int]:
        return sorted(row["id"] for row in self.rows())


class DeltaLake(Lake):
    """A Delta table."""

    @property
    def uri(self) -> str:
        return str(self.folder / "flights")

    @property
    def table(self) -> Any:
        from deltalake import DeltaTable

        return DeltaTable(self.uri)

    def make(self) -> None:
        from deltalake import DeltaTable

        DeltaTable.create(self.uri, schema=SCHEMA)

    def sink(self, **options: Any) -> Any:
        from airflow_resume.sinks import DeltaSink

        return DeltaSink(self.uri, **options)

    def rows(self) -> list[dict[str, Any]]:
        return list(self.table.to_pyarrow_table().to_pylist())

    def commits(self) -> int:
        return int(self.table.version())

    def add_by_others(self, *ids: int) -> None:
        from deltalake import write_deltalake

        rows = pa.Table.from_pylist([{"id": each} for each in ids], schema=SCHEMA)
        write_deltalake(self.uri, rows, mode="append")

    def mark(self) -> Any:
        return self.table.version()

    def restore(self, mark: Any) -> None:
        self.table.restore(mark)


LAKES: dict[str, type[Lake]] = {"delta": DeltaLake}
