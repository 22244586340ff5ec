"""Looking for a job whose id is not on record: by its token, and by its slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from airflow_resume.jobs.decide import JobStatus, Lookup, Stray
from airflow_resume.jobs.questions import Questions
from airflow_resume.jobs.record_slot import JobRecordSlot
from airflow_resume.jobs.token import SubmissionToken, is_form_of

if TYPE_CHECKING:
    from pydantic import JsonValue

MOST_ENDED = 20
"""If more than this many tokens of one attempt lead to ended jobs, the look-up does not use the token."""


class JobSearch:
    """What one attempt has found when it looked for jobs that are not on record.

    Attributes:
        lookup: the outcome of looking for the token; `found` is the id.
        stray: the outcome of looking for live jobs of the slot; `found` and `found_token` are one of them.
    """

    def __init__(self, questions: Questions, slot: JobRecordSlot) -> None:
        self._questions = questions
        self._system = questions.system
        self._slot = slot
        self._ended: dict[str, JsonValue] = {}
        """The tokens that this attempt has looked for and whose job had ended, each with the id of that job. It is kept
        when another generation begins.
        """
        self.forget()

    def forget(self) -> None:
        """Forget the outcomes, as another generation begins."""
        self.lookup = Lookup.NOT_ASKED
        self.stray = Stray.NOT_ASKED
        self.found: JsonValue = None
        self.found_token = ""

    def look_up(self) -> None:
        """Ask for the job by its token. An index may be late, so if there is no such job, ask again."""
        token = self._slot.known.token

        def find() -> JsonValue:
            return self._questions.patiently(lambda: self._system.find(token))

        found = find()
        if found is None:
            found = self._questions.asked_again(find, doubted=lambda again: again is None)
        self.found, self.found_token = found, token
        if found is not None:
            self.lookup = Lookup.FOUND
        else:
            self.lookup = Lookup.UNSETTLED if self._questions.is_interrupted() else Lookup.MISSING

    def look_for_strays(self, *, deployment_is_known: bool, again: bool) -> None:
        """Look for live jobs of the slot that are not on record.

        Args:
            deployment_is_known: whether the name of this deployment is known. Then only this one can have submitted
                them.
            again: whether a record should have existed. Then "there is no job" must be answered twice.
        """

        def look() -> Stray:
            return self._look(deployment_is_known=deployment_is_known)

        self.stray = look()
        if again and self.stray is Stray.NONE:
            self.stray = self._questions.asked_again(look, doubted=lambda stray: stray is Stray.NONE)
            if self.stray is Stray.NONE and self._questions.is_interrupted():
                self.stray = Stray.NOT_ASKED

    def _look(self, *, deployment_is_known: bool) -> Stray:
        token, before = self._slot.known.token, self._slot.tokens_before_a_clear()
        if self._system.can_find_jobs:
            jobs = self._questions.patiently(lambda: self._system.find_jobs(SubmissionToken(token).slot))
        else:
            jobs = dict(chain.from_iterable(map(self._found_in_turn, [[token], *before])))
        states = self._states_of(jobs)
        own = next((each for each in states if is_form_of(token, each)), None)
        if own is not None and states[own] is not JobStatus.GONE:
            self.found, self.found_token = jobs[own], token
            if self._is_not_by_token(token, jobs[own], has_ended=states[own].is_terminal):
                return Stray.WRONG
            return Stray.ENDED if states[own].is_terminal else Stray.THIS_TOKENS
        for each, status in states.items():
            if not status.is_terminal:
                self.found, self.found_token = jobs[each], each
                # The start of this very run is in these tokens, so it does not matter whose name the slot has.
                of_this_run = any(is_form_of(earlier, each) for tokens in before for earlier in tokens)
                return Stray.OURS if deployment_is_known or of_this_run else Stray.SOMEBODYS
        return Stray.NONE

    def _found_in_turn(self, tokens: Iterable[str]) -> Iterator[tuple[str, JsonValue]]:
        """The jobs of these tokens, up to the first token without a job."""
        for token in tokens:
            found = self._questions.patiently(partial(self._system.find, token))
            if found is None:
                return
            yield token, found

    def _states_of(self, jobs: Mapping[str, JsonValue]) -> dict[str, JobStatus]:
        """The status of each job, by token. FAILED and GONE are asked twice.

        Jobs that have ended according to the history of the record are left out.
        """

        def states_of(tokens: Iterable[str]) -> dict[str, JobStatus]:
            return {each: self._questions.patiently(partial(self._system.status, jobs[each])) for each in tokens}

        ended = {JobStatus.SUCCEEDED, JobStatus.FAILED}
        known = {past.token for past in self._slot.known.history if past.status in ended}
        states = states_of(each for each in jobs if each not in known)
        doubted = [each for each, status in states.items() if status in {JobStatus.FAILED, JobStatus.GONE}]
        if doubted:
            self._questions.pause()
        return {**states, **states_of(doubted)}

    def _is_not_by_token(self, token: str, external_id: JsonValue, *, has_ended: bool) -> bool:
        """Whether the job cannot have been found by its token.

        If the record is lost, the first tokens may belong to jobs that earlier tries submitted. But each job has
        another token, and a record is not lost this many times.
        """
        others = [each for used, each in self._ended.items() if used != token]
        if has_ended:
            self._ended[token] = external_id
        return external_id in others or (has_ended and len(others) >= MOST_ENDED)
