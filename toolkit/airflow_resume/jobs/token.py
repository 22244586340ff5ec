"""The token of a submission: 32 hexadecimal digits, 16 that identify the slot and 16 that identify the submission.

The *slot* part is made from the names of the deployment, Dag, run, task, map index and slot. It is the same for all
jobs of a slot, so a job system that can search finds all of them by it. But a Dag run that is deleted and created again
has the same names. So the *nonce* is made from the start of the Dag run, from `max_tries` (which changes when the task
is cleared) and from the generation. An attempt that has lost its record computes the same token again. A run that was
deleted and created again computes another one. If the start of the run is not known, the nonce is random.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from typing import TYPE_CHECKING

from airflow_resume import values
from airflow_resume.deployment import deployment
from airflow_resume.shown import short_repr

if TYPE_CHECKING:
    from airflow_resume.attempt import Attempt

SLOT_DIGITS = NONCE_DIGITS = 16
LENGTH = SLOT_DIGITS + NONCE_DIGITS
MOST_LIVES = 20
"""For at most this many numbers of tries it is reckoned what the tokens were before a clear."""
LEAST, MOST = 16, 256
"""The lengths that a token can have. With fewer than 16 digits, two jobs might have the same token."""


class SubmissionToken(str):
    """A token with its parts: `SubmissionToken(token).slot`.

    Hooks get a plain `str`, as some libraries do not write subclasses (such as PyYAML's safe dumper). Tokens of version
    0.1 have no parts, so a search with their `slot` finds nothing.
    """

    __slots__ = ()

    @property
    def slot(self) -> str:
        """The beginning that all tokens of a slot have in common: 16 hexadecimal digits."""
        return self[:SLOT_DIGITS]

    def of_length(self, digits: int) -> str:
        """A longer or shorter form, for an API that requires one: always the same for the same token.

        A longer one begins with the token, so it begins with the slot too. A shorter one has half of its digits from
        the slot and half from the nonce.

        Args:
            digits: how many hexadecimal digits it shall have, 16 to 256.

        Raises:
            ValueError: fewer than 16 digits, or more than 256.
        """
        if not LEAST <= digits <= MOST:
            raise ValueError(f"A token can have {LEAST} to {MOST} digits, and not {digits}")
        if digits >= LENGTH:
            more = hashlib.sha512(self.encode()).hexdigest() + hashlib.sha512(b"2" + self.encode()).hexdigest()
            return (str(self) + more)[:digits]
        return self[: digits // 2] + self[SLOT_DIGITS : SLOT_DIGITS + digits - digits // 2]


def check_token(token: str) -> None:
    """Refuse a text that cannot be a token, nor a form of a token that a job system returns.

    Raises:
        ValueError: too short or too long, or with a space or a character that is not visible ASCII.
    """
    if not _ANY_TOKEN.fullmatch(token):
        raise ValueError(f"token: {short_repr(token)} has not {LEAST} to {MOST} visible characters of ASCII")


_ANY_TOKEN = re.compile(f"[!-~]{{{LEAST},{MOST}}}")


def is_form_of(token: str, other: str) -> bool:
    """Whether `other` is the token or one of its longer and shorter forms, in any case."""
    other = other.lower()
    token = token.lower()
    return other == token or (LEAST <= len(other) <= MOST and SubmissionToken(token).of_length(len(other)) == other)


def is_of_slot(slot: str, token: str) -> bool:
    """Whether a token, in any form and case, belongs to the slot."""
    return token.lower().startswith(slot[: min(SLOT_DIGITS, len(token) // 2)].lower())


def token_is_derived(attempt: Attempt) -> bool:
    """Whether an attempt of the same run that has lost its record makes the same token again."""
    return attempt.has_identity and attempt.epoch.run_started is not None


def submission_token(attempt: Attempt, name: str, generation: int) -> str:
    """The token of one generation of one slot. A script has no identity, so its tokens are random."""
    if not attempt.has_identity:
        return secrets.token_hex(LENGTH // 2)
    if attempt.epoch.run_started is None:
        return _slot(attempt, name) + secrets.token_hex(NONCE_DIGITS // 2)
    return _derived(attempt, name, attempt.epoch.max_tries, generation)


def tokens_before_a_clear(attempt: Attempt, name: str) -> list[list[str]]:
    """The tokens that earlier attempts of this run may have had before the task was cleared.

    A clear sets `max_tries` to the tries so far plus the retries. So before the clears it was one of the numbers below,
    at most as many as there were tries. For each of them, the newest first, there is a list of the tokens of the
    generations 1, 2 and so on. A later generation is submitted only after the earlier ones.
    """
    epoch, tries = attempt.epoch, min(attempt.try_number - 1, MOST_LIVES)
    if not token_is_derived(attempt) or epoch.max_tries == attempt.uncleared.max_tries:
        return []
    lives = range(epoch.max_tries - 1, max(-1, epoch.max_tries - tries - 1), -1)
    return [[_derived(attempt, name, life, 1 + number) for number in range(tries)] for life in lives]


def _slot(attempt: Attempt, name: str) -> str:
    return values.fingerprint([deployment() or "", *attempt.scope.identity(), name], length=SLOT_DIGITS)


def _derived(attempt: Attempt, name: str, max_tries: int, generation: int) -> str:
    slot = _slot(attempt, name)
    return slot + values.fingerprint([slot, attempt.epoch.run_started, max_tries, generation], length=NONCE_DIGITS)
