"""Tables of every kind of lake, in local files."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
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

    def append(self, loop: Any, rows: list[dict[str, Any]]) -> None:
        """Append rows in the body of a loop or a window."""
        loop.append(rows)

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


class IcebergLake(Lake):
    """An Iceberg table, in a catalog in SQLite."""

    NAME = "lake.flights"

    @property
    def options(self) -> dict[str, str]:
        uri = f"sqlite:///{self.folder / 'catalog.db'}"
        return {"type": "sql", "uri": uri, "warehouse": f"file://{self.folder / 'warehouse'}"}

    @contextmanager
    def catalog(self) -> Iterator[Any]:
        from pyiceberg.catalog import load_catalog

        catalog: Any = load_catalog("tests", **self.options)
        try:
            yield catalog
        finally:
            catalog.engine.dispose()

    def make(self) -> None:
        with self.catalog() as catalog:
            catalog.create_namespace("lake")
            table = catalog.create_table(self.NAME, schema=SCHEMA)
            table.append(SCHEMA.empty_table())  # so that there is a snapshot without rows to go back to

    def sink(self, **options: Any) -> Any:
        from airflow_resume.sinks import IcebergSink

        return IcebergSink(self.NAME, catalog="tests", catalog_options=self.options, **options)

    def rows(self) -> list[dict[str, Any]]:
        with self.catalog() as catalog:
            return list(catalog.load_table(self.NAME).scan().to_arrow().to_pylist())

    def commits(self) -> int:
        with self.catalog() as catalog:
            return len(catalog.load_table(self.NAME).metadata.snapshots)

    def add_by_others(self, *ids: int) -> None:
        with self.catalog() as catalog:
            rows = pa.Table.from_pylist([{"id": each} for each in ids], schema=SCHEMA)
            catalog.load_table(self.NAME).append(rows)

    def mark(self) -> Any:
        with self.catalog() as catalog:
            return catalog.load_table(self.NAME).current_snapshot().snapshot_id

    def restore(self, mark: Any) -> None:
        with self.catalog() as catalog:
            catalog.load_table(self.NAME).manage_snapshots().rollback_to_snapshot(mark).commit()


class Files(Lake):
    """A folder of files of rows."""

    def make(self) -> None:
        pass

    def sink(self, **options: Any) -> Any:
        from airflow_resume.sinks import ObjectSink

        return ObjectSink(self.folder / "flights", **options)

    def rows(self) -> list[dict[str, Any]]:
        return [row for path in self.sink().committed() for row in json.loads(Path(path).read_text())]

    def commits(self) -> int:
        return len(list(self.folder.glob("flights/_airflow_resume/log/*/*.json")))

    def add_by_others(self, *ids: int) -> None:
        raise NotImplementedError

    mark = add_by_others

    def restore(self, mark: Any) -> None:
        raise NotImplementedError

    def append(self, loop: Any, rows: list[dict[str, Any]]) -> None:
        loop.connection.write(f"{rows[0]['id']}.json", json.dumps(rows))


TABLES: dict[str, type[Lake]] = {"delta": DeltaLake, "iceberg": IcebergLake}
LAKES: dict[str, type[Lake]] = {**TABLES, "objects": Files}
