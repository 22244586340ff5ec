"""The record that a commit of a table carries: the position, and who has claimed it."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from typing_extensions import Self

from airflow_resume import values
from airflow_resume.errors import SinkError
from airflow_resume.sink_protocol import Claimant
from airflow_resume.sinks.decide import Held, Stamp
from airflow_resume.sinks.stored_claim import claim_of, held_of

if TYPE_CHECKING:
    from pydantic import JsonValue

_FORMAT = 1


@dataclass(frozen=True)
class LakeKey:
    """What identifies a position.

    Args:
        identity: readable for a person.
    """

    identity: str

    @classmethod
    def of(cls, identity: Sequence[JsonValue]) -> Self:
        """The key of a loop or a watermark."""
        return cls(values.dumps([*identity]))

    @property
    def hashed(self) -> str:
        """A name of fixed length."""
        return f"airflow-resume-{hashlib.sha256(self.identity.encode()).hexdigest()}"


@dataclass(frozen=True, kw_only=True)
class LakeRecord:
    """What a commit says of a position.

    Args:
        held: who has claimed it.
        stamp: by which claim the commit was made, and the how manieth of this key it is.
        position: the JSON of a loop or a watermark; None if nothing is committed.
        commit: a random text by which the commit is told from others that this attempt has tried.
    """

    held: Held
    stamp: Stamp
    position: JsonValue = None
    commit: str = field(default_factory=lambda: secrets.token_hex(8))

    def _next(self, nonce: str, **changes: Any) -> Self:
        stamp = Stamp(nonce, self.stamp.version + 1)
        return replace(self, stamp=stamp, commit=secrets.token_hex(8), **changes)

    def taken_over(self, by: Claimant, nonce: str) -> Self:
        """The record of the next claim."""
        return self._next(nonce, held=Held(by=by))

    def moved(self, position: JsonValue) -> Self:
        """The record of the next commit."""
        return self._next(self.stamp.nonce, position=position)

    def released(self) -> Self:
        """The record of a claim that is given back."""
        return self._next(self.stamp.nonce, held=replace(self.held, is_released=True))

    def moved_to(self, version: int) -> Self:
        """The same record, as the table counts its commits now."""
        return replace(self, stamp=Stamp(self.stamp.nonce, version))

    @classmethod
    def of_nothing(cls, version: int) -> Self:
        """That of a table which stands before the first commit of this key.

        Args:
            version: of the last commit of this key, which was undone.
        """
        return cls(held=Held(by=Claimant(), is_released=True), stamp=Stamp("", version))

    def dumps(self, key: LakeKey) -> str:
        """The text that is stored.

        Args:
            key: of the position.
        """
        stored = {
            "v": _FORMAT,
            "key": key.hashed,
            "identity": key.identity,
            "claim": json.loads(claim_of(self.held.by, released=self.held.is_released)),
            "nonce": self.stamp.nonce,
            "version": self.stamp.version,
            "commit": self.commit,
            "position": self.position,
        }
        return json.dumps(stored, allow_nan=False)

    @classmethod
    def loads(cls, text: object, key: LakeKey, target: str) -> Self | None:
        """A stored text; None if it is that of another key.

        Args:
            text: that is stored.
            key: of the position.
            target: where it is, for messages.

        Raises:
            SinkError: a newer release has written it, or it cannot be read.
        """
        try:
            read: Any = json.loads(text) if isinstance(text, str) else text
            if not isinstance(read, Mapping) or read.get("key") != key.hashed:
                return None
            if read["v"] != _FORMAT:
                raise ValueError(f"it has the version {read['v']}")  # noqa: TRY301
            return cls(
                held=held_of(json.dumps(read["claim"])),
                stamp=Stamp(read["nonce"], read["version"]),
                position=read["position"],
                commit=read["commit"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise SinkError(
                f"The position of {key.identity} in {target} cannot be read: {error!r}.",
                "Use the release that has written it, or a newer one.",
                sink=target,
            ) from error
