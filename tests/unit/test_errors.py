"""Errors carry their data as fields, and the names that were merged can still be imported."""

from __future__ import annotations

import copy
import importlib
import inspect
import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import checkpoint, errors, run_job, values
from airflow_resume.errors import (
    BackendError,
    ColumnError,
    EndlessSourceError,
    InvalidKeyError,
    JobError,
    JobFailedError,
    JobGoneError,
    JobStatusUnknownError,
    LoopError,
    LostSubmissionError,
    ResumeError,
    RowOrderError,
    SourceNotReopenableError,
    StateReferenceError,
    StoreUnavailableError,
    UnreadableRecordError,
    ValueTooLargeError,
    WatermarkError,
    WrongAnswerError,
)
from airflow_resume.jobs import PollPolicy, ResumePolicy
from airflow_resume.loops import CursorToken, Files, Keyset, Offset, Page, PageNumber
from airflow_resume.store import MemoryStore
from airflow_resume.testing import FakeJobs, task_context
from tests.support.kit.error_classes import KINDS, documented, own_fields, set_in_sources

AT_ONCE = ResumePolicy(poll=PollPolicy(interval=timedelta(0), max_interval=timedelta(0)))
of_every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


# --- the classes ----------------------------------------------------------------------------------------------


@of_every_kind
def test_every_error_says_what_it_means_and_what_its_fields_hold(kind: type[ResumeError]) -> None:
    assert vars(kind).get("__doc__"), "no docstring of its own"
    first = (inspect.getdoc(kind) or "").partition("\n")[0]
    assert first.endswith(".")
    assert documented(kind) == own_fields(kind)


@of_every_kind
def test_every_field_is_set_by_a_raise(kind: type[ResumeError]) -> None:
    found = set_in_sources()
    heirs = [heir.__name__ for heir in KINDS if issubclass(heir, kind)]
    assert {*own_fields(kind)} - set().union(*(found.get(name, set()) for name in heirs)) == set()


@of_every_kind
def test_a_copy_of_an_error_has_its_fields(kind: type[ResumeError]) -> None:
    given = {name: [name, {"a\n\x1b[31m": 1}] for name in kind.FIELDS}
    make: Any = kind
    error = make("It is so.", "Give it a name.", **given)
    assert error.fields == given
    for other in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):  # noqa: S301  our own
        assert type(other) is kind
        assert other.fields == given
        assert (str(other), other.message, other.remedy, other.args) == (
            str(error),
            "It is so.",
            "Give it a name.",
            error.args,
        )


@of_every_kind
def test_an_error_can_be_made_without_its_fields(kind: type[ResumeError]) -> None:
    """So does a copy, and a test of a user."""
    assert set(map(type, kind().fields.values())) <= {type(None), int, tuple}


def test_what_others_wrote_is_escaped_in_the_text_and_not_in_a_field() -> None:
    error = JobGoneError("Job \x1b[31m is gone.", external_id="\x1b[31m")
    assert (error.message, error.external_id) == (r"Job \x1b[31m is gone.", "\x1b[31m")


def test_a_field_that_no_error_has_is_refused() -> None:
    make: Any = JobGoneError
    with pytest.raises(TypeError, match="JobGoneError has no field 'extrenal_id': slot, token, external_id, status"):
        make("Gone.", extrenal_id=1)


def test_an_error_of_a_user_may_have_fields_too() -> None:
    class OrdersLateError(JobError):
        """Orders are late."""

        hours: int

    error = OrdersLateError(slot="orders", hours=3)
    assert (str(error), error.slot, error.hours, error.fields["hours"]) == ("Orders are late.", "orders", 3, 3)


# --- some raises ----------------------------------------------------------------------------------------------


def test_a_failed_job_is_told_by_slot_token_id_and_status() -> None:
    jobs = FakeJobs(scripts=[["FAILED"]])
    with pytest.raises(JobFailedError) as caught:
        run_job(jobs, name="load", policy=AT_ONCE, context=task_context().context)
    error = caught.value
    assert (error.slot, error.external_id, error.status) == ("load", "job-0", "failed")
    assert error.token is not None
    assert error.token in error.message


def test_a_lost_submission_is_told_by_slot_and_token() -> None:
    class Refusing:
        def submit(self, _token: str) -> str:
            raise ConnectionResetError

        def status(self, _external_id: str) -> str:
            raise AssertionError

    with pytest.raises(LostSubmissionError) as caught:
        run_job(Refusing(), name="load", context=task_context().context)
    assert caught.value.slot == "load"
    assert f"token {caught.value.token}" in caught.value.message
    assert caught.value.external_id is None


def test_a_value_that_is_too_large_is_told_by_key_size_and_limit() -> None:
    with pytest.raises(ValueTooLargeError) as caught:
        values.check_size("resume.loop.x", "y" * 100, limit=50)
    assert caught.value.fields == {"at": None, "key": "resume.loop.x", "size": 102, "limit": 50}


def test_a_name_that_cannot_be_one_is_in_the_error_as_it_was_given() -> None:
    with pytest.raises(InvalidKeyError) as caught:
        values.make_key("resume.loop", "a\nb")
    assert caught.value.key == "a\nb"


def test_a_store_that_raises_is_told_by_its_type() -> None:
    class Away(MemoryStore):
        def get(self, key: str, default: Any = None) -> Any:
            raise OSError(key, default)

    with pytest.raises(StoreUnavailableError) as caught:
        list(checkpoint([1], name="l", store=Away()))
    assert caught.value.where == "Away"


def test_a_record_that_cannot_be_read_is_told_by_its_key() -> None:
    store = MemoryStore()
    store.set("resume.loop.l", "typed by hand")
    with pytest.raises(UnreadableRecordError) as caught:
        list(checkpoint([1], name="l", store=store))
    assert caught.value.key == "resume.loop.l"


def test_rows_that_are_not_sorted_are_told_by_the_two_values() -> None:
    with pytest.raises(RowOrderError) as caught:
        list(Keyset(lambda _after, _limit: [{"id": 2}, {"id": 1}], key="id", limit=5).elements(None))
    assert (caught.value.value, caught.value.limit) == (1, 2)


def page_of(items: list[Any]) -> Callable[..., Page[Any]]:
    return lambda *_given: Page(items, next="again")


NO_ROW_ID = Keyset(lambda _after, _limit: [{"x": 1}], key="id", limit=5)
UNSORTED = Keyset(lambda _after, _limit: [{"id": 2}, {"id": 1}], key="id", limit=5)
SOURCES: list[tuple[Any, type[LoopError]]] = [
    (CursorToken(page_of([1])), EndlessSourceError),
    (PageNumber(page_of([1])), EndlessSourceError),
    (Offset(page_of([1]), limit=1), EndlessSourceError),
    (CursorToken(lambda _token: [1]), WrongAnswerError),  # type: ignore[arg-type,return-value]
    (Offset(page_of([1, 2]), limit=1), WrongAnswerError),
    (Files(["a", "a"]), WrongAnswerError),
    (lambda _position: [1], WrongAnswerError),
    (UNSORTED, RowOrderError),
    (NO_ROW_ID, ColumnError),
    ({1, 2}, SourceNotReopenableError),
]


@pytest.mark.parametrize(("source", "kind"), SOURCES)
def test_an_error_of_a_source_is_told_by_the_loop(source: Any, kind: type[LoopError]) -> None:
    with pytest.raises(kind) as caught:
        list(checkpoint(source, name="orders", store=MemoryStore()))
    assert caught.value.loop == "orders"


@pytest.mark.parametrize(("source", "kind"), SOURCES)
def test_an_error_of_a_source_is_told_by_the_loop_in_a_map(source: Any, kind: type[LoopError]) -> None:
    with pytest.raises(kind) as caught:
        list(checkpoint(source, name="orders", store=MemoryStore()).map(str, workers=1))
    assert caught.value.loop == "orders"


def test_an_error_of_an_inner_source_is_told_by_both_loops() -> None:
    with pytest.raises(RowOrderError) as caught:
        for _ in (outer := checkpoint([1], name="outer", store=MemoryStore())):
            list(checkpoint(UNSORTED, name="inner", within=outer))
    assert caught.value.loop == "outer/inner"


def test_a_token_that_is_too_large_is_told_by_the_key_of_the_record() -> None:
    source: Any = CursorToken(lambda _token: Page([1], next="x" * 70_000))
    with pytest.raises(ValueTooLargeError) as caught:
        list(checkpoint(source, name="l", store=MemoryStore()))
    assert (caught.value.key, caught.value.at) == ("resume.loop.l", "the token after None")


def test_a_word_that_does_not_say_how_a_job_ended_is_told_by_slot_and_token() -> None:
    with pytest.raises(JobStatusUnknownError) as caught:
        run_job(FakeJobs(scripts=[["DONE"]]), name="load", policy=AT_ONCE, context=task_context().context)
    error = caught.value
    assert (error.slot, error.external_id, error.status) == ("load", "job-0", "DONE")
    assert error.token is not None


@pytest.mark.parametrize("key", [None, 3, ""])
def test_a_record_whose_key_was_damaged_cannot_be_read(key: Any) -> None:
    store = MemoryStore()
    list(checkpoint([1], name="l", store=store))
    store.set("resume.loop.l", {**store.values["resume.loop.l"], "key": key})  # type: ignore[dict-item]
    with pytest.raises((UnreadableRecordError, StoreUnavailableError)) as caught:
        list(checkpoint([1], name="l", store=store))
    assert "delete the key" in str(caught.value.remedy)
    assert isinstance(caught.value, StoreUnavailableError) == (key == "")


def test_a_long_word_for_a_status_is_cut() -> None:
    policy = ResumePolicy(poll=AT_ONCE.poll, unknown_timeout=timedelta(0))
    for word in ("x" * 90_000, "done" + " " * 90_000):
        with pytest.raises(JobStatusUnknownError) as caught:
            run_job(FakeJobs(scripts=[[word]]), policy=policy, context=task_context().context)
        assert len(str(caught.value)) < 1500


# --- names that were merged -----------------------------------------------------------------------------------

BASES: dict[str, tuple[type[BaseException], ...]] = {
    "AmbiguousStatusError": (JobStatusUnknownError,),
    "AssetInactiveError": (ResumeError,),
    "BackendNotConfiguredError": (BackendError, LookupError),
    "BackfillError": (WatermarkError, AirflowFailException),
    "ConformanceError": (ResumeError,),
    "CursorColumnError": (WatermarkError, LookupError, AirflowFailException),
    "DamagedStoreError": (BackendError,),
    "DecoratorOrderError": (ResumeError, TypeError),
    "DuplicateFileError": (LoopError, ValueError, AirflowFailException),
    "EmptySourceError": (LoopError,),
    "EndlessPagesError": (LoopError, AirflowFailException),
    "EventLoopError": (ResumeError, RuntimeError, AirflowFailException),
    "ForeignStoreError": (StateReferenceError,),
    "FullPageError": (WatermarkError, AirflowFailException),
    "FutureRowError": (WatermarkError, ValueError, AirflowFailException),
    "InvalidJobIdError": (JobError, ValueError, AirflowFailException),
    "InvalidSettingError": (BackendError, ValueError),
    "InvalidStoreUrlError": (BackendError, ValueError),
    "KeyColumnError": (LoopError, LookupError, AirflowFailException),
    "NameInUseError": (ResumeError, ValueError, AirflowFailException),
    "NewerSchemaError": (BackendError,),
    "NoFormerIdError": (BackendError,),
    "NoTablesError": (BackendError,),
    "NothingReadError": (WatermarkError, AirflowFailException),
    "NullCursorError": (WatermarkError, ValueError, AirflowFailException),
    "OverrideError": (WatermarkError, ValueError, AirflowFailException),
    "PageTooLongError": (LoopError, ValueError, AirflowFailException),
    "PartitionError": (WatermarkError, ValueError, AirflowFailException),
    "PartitionNeededError": (WatermarkError, AirflowFailException),
    "ReadOnlyStoreError": (BackendError,),
    "RepeatedPageError": (LoopError, AirflowFailException),
    "RepeatedTokenError": (LoopError, AirflowFailException),
    "SchemaRightsError": (BackendError,),
    "ShortSourceError": (LoopError,),
    "StageTokenError": (WatermarkError, ValueError, AirflowFailException),
    "StoreFullError": (BackendError,),
    "UnackedError": (LoopError,),
    "UnsortedKeyError": (LoopError, ValueError, AirflowFailException),
    "UnsortedRowsError": (WatermarkError, ValueError, AirflowFailException),
    "WatermarkAheadError": (WatermarkError, ValueError, AirflowFailException),
    "WatermarkChangedError": (WatermarkError, AirflowFailException),
    "WatermarkOwnedError": (WatermarkError, AirflowFailException),
    "WindowDeferredError": (WatermarkError, AirflowFailException),
    "WrongFindError": (JobError, LookupError, AirflowFailException),
    "WrongRecordError": (ResumeError,),
}
"""Of each name that was merged, what its errors could be caught as."""


def test_every_merged_name_is_known_here() -> None:
    assert BASES.keys() == errors.MERGED.keys()


@pytest.mark.parametrize("name", BASES)
def test_a_merged_name_is_the_new_class_and_catches_what_it_caught(name: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{name} is now a part of {errors.MERGED[name]}"):
        kind = getattr(importlib.import_module("airflow_resume.errors"), name)
    assert kind.__name__ == errors.MERGED[name]
    assert all(issubclass(kind, base) for base in BASES[name])
    gained = issubclass(kind, AirflowFailException) and AirflowFailException not in BASES[name]
    assert not gained or name in {"DecoratorOrderError", "ConformanceError"}, "these are not raised where retries are"


def test_a_merged_name_is_imported_as_any_other() -> None:
    with pytest.warns(DeprecationWarning, match="KeyColumnError"):
        exec("from airflow_resume.errors import KeyColumnError", {})  # noqa: S102


def test_a_name_that_never_was_is_no_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'NoSuchError'"):
        _ = errors.NoSuchError  # type: ignore[attr-defined]
