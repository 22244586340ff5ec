"""A folder in a file system of fsspec, where a file can be created only once."""

from __future__ import annotations

import inspect
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import fsspec
from fsspec.asyn import AsyncFileSystem
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem

from airflow_resume.errors import SinkUnsafeError
from airflow_resume.shown import get_logger

log = get_logger(__name__)

PART = ".part"
"""How the name of a file ends that is not yet whole."""
PROBES = "_airflow_resume/probes"


class ObjectStore:
    """A folder. All paths are relative to it, with `/`.

    Args:
        path: of the folder, or its URL.
        options: of the file system.
        filesystem: of fsspec; None for that of the URL.
        target: what the folder is called in messages.
    """

    def __init__(self, path: str, options: Mapping[str, Any], filesystem: Any, target: str) -> None:
        if filesystem is None:
            self._files, root = fsspec.core.url_to_fs(path, **options)
        else:
            self._files, root = filesystem, filesystem._strip_protocol(path)  # noqa: SLF001  as url_to_fs does it
        self._root, self.target = str(root).rstrip("/"), target
        self._is_local = isinstance(self._files, LocalFileSystem)

    def path(self, name: str) -> str:
        """The path of a file, as the file system takes it."""
        return f"{self._root}/{name}"

    def check_creates(self) -> None:
        """Check that of two that create a file only one succeeds.

        Raises:
            SinkUnsafeError: both would.
        """
        kind = type(self._files)
        if not self._is_local and not _creates(kind):
            raise self._unsafe(f"{kind.__name__} looks whether a file exists, and then writes it")
        probe = f"{PROBES}/{secrets.token_hex(16)}"
        self.create(probe, b"first")
        try:
            self.create(probe, b"second")
        except FileExistsError:
            if self.read(probe) == b"first":
                return
        finally:
            with suppress(Exception):
                self.remove([probe])
        raise self._unsafe("it overwrites a file that should be created")

    def _unsafe(self, why: str) -> SinkUnsafeError:
        return SinkUnsafeError(
            f"Two attempts could commit to {self.target} at the same time, as {why}.",
            "Use a local folder, or an object store with conditional writes (If-None-Match) and a file system of fsspec"
            " that has pipe_file(mode='create').",
            problem="database",
            sink=self.target,
        )

    def create(self, name: str, data: bytes) -> None:
        """Make a file. It appears whole.

        Raises:
            FileExistsError: it is there already. It was not changed.
            SinkUnsafeError: the local file system has no hard links.
        """
        if not self._is_local:
            self._files.pipe_file(self.path(name), data, mode="create")
            return
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120  paths of fsspec are text
        aside = f"{path}.{secrets.token_hex(4)}{PART}"
        try:
            with open(aside, "xb") as file:  # noqa: PTH123
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, path)
            except FileExistsError:
                raise
            except OSError as error:
                raise self._unsafe(f"hard links are not possible there ({error.strerror})") from error
        finally:
            with suppress(FileNotFoundError):
                os.unlink(aside)  # noqa: PTH108

    @contextmanager
    def writing(self, name: str) -> Iterator[Any]:
        """A file to write to. It appears whole at the end of the block, and not at all if the block raises an error.

        Args:
            name: that no other file has.
        """
        path = self.path(name)
        aside = path + PART if self._is_local else path
        if self._is_local:
            os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120
        file = open(aside, "xb") if self._is_local else self._files.open(aside, "wb")  # noqa: PTH123, SIM115
        try:
            yield file
            if self._is_local:
                file.flush()
                os.fsync(file.fileno())
        except BaseException:
            with suppress(Exception):
                self._discard(file, aside)
            raise
        file.close()
        if self._is_local:
            os.rename(aside, path)  # noqa: PTH104

    def _discard(self, file: Any, path: str) -> None:
        if self._is_local:
            file.close()
            os.unlink(path)  # noqa: PTH108
            return
        file.discard()
        with suppress(AttributeError):
            file.closed = True  # otherwise it would be written when nothing refers to it any more
        self._files.rm_file(path)

    def read(self, name: str) -> bytes:
        """What a file contains.

        Raises:
            FileNotFoundError: there is none.
        """
        data: bytes = self._files.cat_file(self.path(name))
        return data

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; none if there is no such folder."""
        try:
            if self._is_local:  # fsspec looks at each file, and one that is gone meanwhile is an error
                return sorted(os.listdir(self.path(folder)))  # noqa: PTH208
            self._files.invalidate_cache()
            found = self._files.ls(self.path(folder), detail=False)
        except FileNotFoundError:
            return []
        return sorted(name for each in found if (name := str(each).rstrip("/").rpartition("/")[2]))

    def remove(self, names: list[str]) -> None:
        """Remove files. One that is gone already is no error."""
        for name in names:
            with suppress(FileNotFoundError):
                self._files.rm_file(self.path(name))


def _creates(kind: Any) -> bool:
    """Whether a kind of file system creates a file by itself, and not by a look before it writes."""
    if issubclass(kind, AsyncFileSystem):
        return "mode" in inspect.signature(kind._pipe_file).parameters  # noqa: SLF001
    return getattr(kind, "pipe_file", None) is not AbstractFileSystem.pipe_file
