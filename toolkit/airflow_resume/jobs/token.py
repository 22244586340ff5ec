"""The token of a submission: 32 hexadecimal digits, of which the first 16 say whose it is and the others which one.

The *slot* part is made from the names of the deployment, Dag, run, task, map index and slot: it is the same for all
jobs that a slot ever has, so a job system that can search finds all of them by it. Names come back, though: a Dag run
that is deleted and made again has the same. The *nonce* does not. It is made from when the Dag run started, from
`max_tries` (which moves when the task is cleared) and the generation, so that an attempt which has lost its record
comes to the same token again, and another life of the Dag run never does. Where the start is not known it is drawn.
"""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.deployment import deployment

if TYPE_CHECKING:
    from airflow_resume.attempt import Attempt

SLOT_DIGITS = NONCE_DIGITS = 16
LENGTH = SLOT_DIGITS + NONCE_DIGITS
LEAST, MOST = 16, 256
"""The lengths that a token can be given. Below 16 digits two jobs might get the same."""


class SubmissionToken(str):
    """What can be asked of a token: `SubmissionToken(token).slot`.

    Hooks are handed a plain `str`, as there are libraries that write nothing else (PyYAML's safe dumper is one). Tokens
    of version 0.1 have no parts; there `slot` is a text that finds nothing else.
    """

    __slots__ = ()

    @property
    def slot(self) -> str:
        """What it begins with, in common with all tokens of the same slot: 16 hexadecimal digits."""
        return self[:SLOT_DIGITS]

    def of_length(self, digits: int) -> str:
        """A longer or shorter form, for an API that asks for one: always the same for the same token.

        A longer one begins with the token, so it begins with the slot too. A shorter one has half of its digits from
        the slot and half from the nonce.

        Raises:
            ValueError: fewer than 16 digits, or more than 256.
        """
        if not LEAST <= digits <= MOST:
            raise ValueError(f"A token can have {LEAST} to {MOST} digits, and not {digits}")
        if digits >= LENGTH:
            more = hashlib.sha512(self.encode()).hexdigest() + hashlib.sha512(b"2" + self.encode()).hexdigest()
            return (str(self) + more)[:digits]
        return self[: digits // 2] + self[SLOT_DIGITS : SLOT_DIGITS + digits - digits // 2]


def is_form_of(token: str, other: str) -> bool:
    """Whether `other` is the token, or one of its longer and shorter forms."""
    return other == token or (LEAST <= len(other) <= MOST and SubmissionToken(token).of_length(len(other)) == other)


def token_is_derived(attempt: Attempt) -> bool:
    """Whether an attempt of the same run that has lost its record would come to the same token."""
    return attempt.has_identity and attempt.epoch.run_started is not None


def submission_token(attempt: Attempt, name: str, generation: int) -> str:
    """The token of one generation of one slot. A script has no identity, so there all of it is drawn."""
    if not attempt.has_identity:
        return secrets.token_hex(LENGTH // 2)
    slot = values.fingerprint([deployment() or "", *attempt.scope.identity(), name], length=SLOT_DIGITS)
    if attempt.epoch.run_started is None:
        return slot + secrets.token_hex(NONCE_DIGITS // 2)
    life = [slot, attempt.epoch.run_started, attempt.epoch.max_tries, generation]
    return slot + values.fingerprint(life, length=NONCE_DIGITS)
