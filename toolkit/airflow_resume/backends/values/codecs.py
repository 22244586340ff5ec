"""Encryption: values are encrypted before they leave the process, and read back with the same keys.

A stored text is `airflow-resume:enc:1:` and what the codec made of the value. A mark of its scope and key is encrypted
together with the value, so that a text that somebody copied to another key is recognised. All values that are inline in
Airflow have the same mark, because their reader is not told where a value was stored. Texts that were stored before
there was a codec are read as they are. A text that cannot be decrypted is an error, and never a missing value, because
the job of a missing record would be submitted again.

What a codec raises may quote a value or a key, and what is given as a codec may be a key by mistake. So only the type
of both is shown, and our errors have no cause and no context.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from airflow_resume.backends.values.scopes import digest
from airflow_resume.errors import BackendSettingError, CodecError, ResumeError
from airflow_resume.shown import shown

PREFIX = "airflow-resume:enc:"
_ENCRYPTED, _PLAIN = f"{PREFIX}1:", f"{PREFIX}0:"
"""The beginnings of stored texts. The second is put before a plain text that begins like an encrypted one."""
FERNET = "fernet"
NO_KEY = "{FERNET_KEY}"
"""What Airflow's configuration has before there is a key."""
INLINE = digest(["inline"])[:32]
"""The mark of a value that is inline in Airflow."""
_MARK = re.compile("[0-9a-f]{32}")
_NAMES = r"[^\W\d]\w*(?:\.[^\W\d]\w*)*"
_MODULE, _PATH = re.compile(_NAMES), re.compile(rf"({_NAMES})[.:]([^\W\d]\w*)")
_HALF = re.compile("[\ud800-\udfff]")
_KEYS_THERE = "See whether its keys are there, and whatever else it needs."
_FAILED = {
    "encode": ("encrypted", _KEYS_THERE),
    "decode": (
        "decrypted: the key is another one, or it is damaged",
        "Keep old keys among the keys until everything is encrypted anew (`airflow-resume rotate`).",
    ),
    "is_current": ("told to be under the newest key or not", _KEYS_THERE),
}
"""What cannot be done with a value when a method fails, and the remedy."""


@runtime_checkable
class Codec(Protocol):
    """Encrypts texts. It may have a method `is_current(text)`: whether an encrypted text is under the newest key."""

    def encode(self, text: str) -> str:
        """Another text, from which `decode` gets this one back."""
        ...

    def decode(self, text: str) -> str:
        """The text. Whatever it raises means that the key is wrong, or the text is damaged."""
        ...


def mark_of(scope_hash: str, key_hash: str) -> str:
    """The mark of a key in a scope."""
    return digest(["enc", scope_hash, key_hash])[:32]


class Cipher:
    """Encrypts the texts of a backend before they are kept, and decrypts them after they were read.

    Args:
        given: a codec, where to import one or a function that makes one from, `fernet`, or None to keep plain text.
    """

    def __init__(self, given: Codec | str | None) -> None:
        if given is not None and not isinstance(given, (str, Codec)):
            kind = type(given).__name__
            raise TypeError(f"codec is a {kind}, which has no methods encode and decode, and is no text")
        self._given = given or None
        self.of: object = None
        """The database whose values are encrypted, for errors; its text has no secret."""

    def __repr__(self) -> str:
        """Without the codec, because its own text may show its keys."""
        return f"<Cipher {'none' if self._given is None else self._name}>"

    @property
    def _where(self) -> str | None:
        return None if self.of is None else str(self.of)

    def check(self) -> None:
        """See that the codec can be had, if there is one.

        Raises:
            BackendSettingError: there is no such codec, or no key for it.
        """
        if self.encrypts:
            _ = self._codec

    @property
    def encrypts(self) -> bool:
        """Whether there is a codec."""
        return self._given is not None

    def encrypt(self, text: str, mark: str) -> str:
        """What to keep.

        Raises:
            BackendSettingError: there is no such codec, or no key for it.
            CodecError: the codec failed.
        """
        if self._given is None:
            return f"{_PLAIN}{text}" if text.startswith(PREFIX) else text
        made = self._text("encode", f"{mark}:{text}", "a value")
        if "\x00" in made or (not made.isascii() and _HALF.search(made)):
            wrong = "a NUL" if "\x00" in made else "half a surrogate pair"
            raise CodecError(
                f"The codec {self._name} made a text with {wrong} in it.",
                "Encode it in base64.",
                codec=self._name,
                where=self._where,
            )
        return f"{_ENCRYPTED}{made}"

    def decrypt(self, kept: str, mark: str, what: str) -> str:
        """The text again.

        Raises:
            CodecError: it is encrypted, and cannot be decrypted here, or belongs to another key.
            BackendSettingError: as `encrypt`.
        """
        if not kept.startswith(PREFIX):
            return kept
        if kept.startswith(_PLAIN):
            return kept.removeprefix(_PLAIN)
        if not kept.startswith(_ENCRYPTED):
            raise CodecError(
                f"{what} is encrypted in a way that this version of airflow-resume does not know.",
                "Upgrade airflow-resume here.",
                codec=None,
                where=self._where,
            )
        if self._given is None:
            raise CodecError(
                f"{what} is encrypted, and no codec is configured here.",
                "Set [airflow_resume] backend_codec as it is on the worker that wrote it.",
                codec=None,
                where=self._where,
            )
        found, _, text = self._text("decode", kept.removeprefix(_ENCRYPTED), what).partition(":")
        if not _MARK.fullmatch(found):
            raise CodecError(
                f"For {what[0].lower()}{what[1:]} the codec {self._name} gave back another text than was encrypted.",
                "Use the codec and the keys that it was encrypted with; decode must fail where it has others.",
                codec=self._name,
                where=self._where,
            )
        if found != mark:
            raise CodecError(
                f"{what} is the encrypted value of another key, copied there by hand or by a program.",
                "See who wrote it; delete the key to begin anew.",
                codec=self._name,
                where=self._where,
            )
        return text

    def is_current(self, kept: str) -> bool:
        """Whether it is under the newest key. A codec without `is_current` does not tell, so the answer is no."""
        if not kept.startswith(_ENCRYPTED) or not hasattr(self._codec, "is_current"):
            return False
        return bool(self._called("is_current", kept.removeprefix(_ENCRYPTED), "the value"))

    def _text(self, method: str, text: str, what: str) -> str:
        made = self._called(method, text, what)
        if not isinstance(made, str):
            raise CodecError(
                f"The method {method} of the codec {self._name} returned {type(made).__name__}, not str.",
                codec=self._name,
                where=self._where,
            )
        return made

    def _called(self, method: str, text: str, what: str) -> object:
        codec = self._codec
        made, raised = _attempt(lambda: getattr(codec, method)(text))
        if raised:
            done, remedy = _FAILED[method]
            raise CodecError(
                f"{what[0].upper()}{what[1:]} cannot be {done} ({self._name} raised {raised}).",
                remedy,
                codec=self._name,
                where=self._where,
            )
        return made

    @property
    def _name(self) -> str:
        if isinstance(self._given, str) and (self._given == FERNET or _PATH.fullmatch(self._given)):
            return shown(self._given)
        return type(self._given).__name__

    @cached_property
    def _codec(self) -> Codec:
        if self._given == FERNET:
            return _fernet()
        return _imported(self._given) if isinstance(self._given, str) else self._given  # type: ignore[return-value]


def _imported(path: str) -> Codec:
    """The object at a dotted path, or what the function or class there makes."""
    remedy = "Name fernet in [airflow_resume] backend_codec, or an object that can be imported (module.name)."
    parts = _PATH.fullmatch(path)
    if parts is None:
        raise BackendSettingError(
            "The codec is a text that is neither fernet nor where to import one from (not shown, as it may be a key).",
            remedy,
            setting="backend_codec",
        )
    module, name = parts.groups()
    made: object = None
    found, raised = _attempt(lambda: import_module(module))
    why = f"to import {module} raised {raised}"
    if not raised:
        found, raised = _attempt(lambda: getattr(found, name))
        why = f"{module} has no {name!r}"
    if not raised:
        make: Any = found
        is_one = not callable(found) or (isinstance(found, Codec) and not isinstance(found, type))
        made, raised = _attempt(lambda: found if is_one else make())
        why = f"to make it raised {raised}"
    if raised:
        raise BackendSettingError(f"The codec {shown(path)!r} cannot be used: {why}.", remedy, setting="backend_codec")
    if not isinstance(made, Codec):
        raise BackendSettingError(
            f"The codec {shown(path)!r} is a {type(made).__name__} without methods encode and decode.",
            "Give it both: each takes a str and returns one.",
            setting="backend_codec",
        )
    return made


def _attempt(call: Callable[[], Any]) -> tuple[Any, str]:
    """What the call gives, and the type of what it raised. Our own errors pass, as they are written for people."""
    try:
        return call(), ""
    except ResumeError:
        raise
    except ModuleNotFoundError as error:
        missing = error.name if isinstance(error.name, str) and _MODULE.fullmatch(error.name) else None
        return None, "ModuleNotFoundError" + (f": No module named {missing!r}" if missing else "")
    except Exception as error:  # noqa: BLE001  whatever it is, it is raised anew without its words
        return None, type(error).__name__


# --- Airflow's keys -------------------------------------------------------------------------------------------


class _Fernet:
    """A codec with Airflow's keys. The first one encrypts, and all of them can decrypt."""

    def __init__(self, keys: list[Any], of_all: Any) -> None:
        self._first = keys[0]
        self._all = of_all

    def encode(self, text: str) -> str:
        return str(self._all.encrypt(text.encode()).decode())

    def decode(self, text: str) -> str:
        return str(self._all.decrypt(text.encode()).decode())

    def is_current(self, text: str) -> bool:
        from cryptography.fernet import InvalidToken

        try:
            self._first.decrypt(text.encode())
        except InvalidToken:
            return False
        return True


def _fernet() -> Codec:
    from airflow_resume.compat import conf

    try:
        from cryptography.fernet import Fernet, MultiFernet
    except ImportError as error:
        raise BackendSettingError(
            "The codec fernet needs the package cryptography.",
            "Install it: pip install cryptography",
            setting="backend_codec",
        ) from error
    written = (conf.get("core", "fernet_key", fallback=None) or "").strip()
    if written in {"", NO_KEY}:
        raise BackendSettingError(
            "The codec fernet has no key here.",
            "Set [core] fernet_key on the workers as it is on the server.",
            setting="backend_codec",
        )
    try:
        keys = [Fernet(key.strip().encode()) for key in written.split(",")]
    except ValueError:
        # Raised below, without a context: the error may quote a key.
        keys = []
    if not keys:
        raise BackendSettingError(
            "[core] fernet_key is no key of Fernet.",
            "Make one: cryptography.fernet.Fernet.generate_key().",
            setting="backend_codec",
        )
    return _Fernet(keys, MultiFernet(keys))


def inline_value(cipher: Cipher, stored: object) -> object:
    """What stands in Airflow, decrypted if it is an encrypted value.

    It may be anything, as for `references.read`.

    Raises:
        CodecError: it cannot be decrypted.
    """
    if not isinstance(stored, str) or not stored.startswith(PREFIX):
        return stored
    return cipher.decrypt(stored, INLINE, "A value inline in Airflow")
