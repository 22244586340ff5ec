"""A change of a record: refused where it is not safe, one write, and it is looked at whether it has arrived."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timezone
from functools import partial
from typing import Any

import pytest

from airflow_resume.errors import AirflowApiError, ChangeRefusedError, UnreadableRecordError
from airflow_resume.loops.loop_record import LoopRecord
from airflow_resume.operating import loop_changes, mark_changes
from airflow_resume.operating.api import AirflowApi
from airflow_resume.operating.changes import Person
from airflow_resume.operating.loop_changes import Target
from airflow_resume.operating.places import ENVELOPE, AssetPlace, Entry, TaskPlace, entry_of
from airflow_resume.operating.rows import digest_of
from airflow_resume.operating.steering import AT_WORK, Plan, carry_out, plan, writers_of
from airflow_resume.watermarks.marks.mark_record import MarkRecord
from tests.support.operating.fake_airflow import FakeAirflow
from tests.support.operating.records import LOOP, moved_mark, stopped_loop
from tests.support.watermarks.whole_numbers import MARK

ANA = Person(who="ana", at=datetime(2026, 1, 1, 3, tzinfo=timezone.utc))
PLACE = TaskPlace(dag_id="d", run_id="r", task_id="t")
AT = ("d", "r", "t", -1)


def planned(api: AirflowApi, shown: str | None = None) -> Plan[LoopRecord]:
    found = entry_of(api, PLACE, LOOP)
    assert found is not None
    return plan(
        writers_of(api),
        found,
        LoopRecord,
        lambda record: loop_changes.rewind(record, Target(element=3), ANA),
        shown=shown,
    )


@pytest.fixture
def loop(airflow: FakeAirflow) -> dict[str, Any]:
    record = stopped_loop()
    airflow.task("d", "r", "t", **{LOOP: record})
    return record


def test_a_change_is_one_write_and_four_looks(airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]) -> None:
    made = planned(api, digest_of(loop))
    assert airflow.states[AT][LOOP] == loop
    carry_out(api, made, force=False)
    record = airflow.states[AT][LOOP]
    assert (record["n"], record["pos"], record["by_hand"]["who"]) == (2, 2, "ana")
    assert record["by_hand"]["before"] == loop
    assert record["summary"] == "next is element 3; set back to element 3 by ana at 2026-01-01 03:00 UTC"
    assert [call.split()[0] for call in airflow.calls] == ["GET", "GET", "GET", "PUT", "GET", "GET"]


@pytest.mark.parametrize("state", [*AT_WORK, None])
def test_it_is_refused_while_the_task_runs_or_may_start_unless_it_is_forced(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any], state: str | None
) -> None:
    airflow.instances[0]["state"] = state
    made = planned(api)
    with pytest.raises(ChangeRefusedError, match="The task d r t is") as refused:
        carry_out(api, made, force=False)
    assert refused.value.why == "running"
    assert airflow.states[AT][LOOP] == loop
    carry_out(api, made, force=True)
    assert airflow.states[AT][LOOP]["n"] == 2


@pytest.mark.parametrize("state", ["failed", "success", "up_for_retry", "upstream_failed"])
def test_it_is_made_when_no_attempt_is_under_way(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any], state: str
) -> None:
    airflow.instances[0]["state"] = state
    carry_out(api, planned(api), force=False)
    assert airflow.states[AT][LOOP] != loop


def test_a_record_that_is_not_the_one_that_was_shown_is_not_changed(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]
) -> None:
    shown = digest_of(loop)
    airflow.states[AT][LOOP] = moved = {**loop, "n": 8, "pos": 8}
    with pytest.raises(ChangeRefusedError, match=f"it was {shown}, and is") as refused:
        carry_out(api, planned(api, shown), force=True)
    assert refused.value.why == "moved"
    assert airflow.states[AT][LOOP] == moved


def during(method: str, action: Callable[[], object]) -> Callable[[str, str], None]:
    """Something that happens right before the first request with this method to the record."""
    done: list[object] = []

    def before(called: str, path: str) -> None:
        if called == method and path.endswith(LOOP) and not done:
            done.append(action())

    return before


def moves(airflow: FakeAirflow) -> Callable[[], object]:
    return lambda: airflow.states[AT].update({LOOP: {**airflow.states[AT][LOOP], "n": 9, "pos": 9}})


def test_a_record_that_moves_between_the_preview_and_the_write_is_not_changed(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]
) -> None:
    made = planned(api)
    airflow.before = during("GET", moves(airflow))
    with pytest.raises(ChangeRefusedError, match="has moved while this command ran") as refused:
        carry_out(api, made, force=False)
    assert refused.value.why == "moved"
    assert airflow.states[AT][LOOP] == {**loop, "n": 9, "pos": 9}


def test_a_task_that_starts_at_the_moment_of_the_write_makes_it_uncertain(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]
) -> None:
    made = planned(api)
    airflow.before = during("PUT", lambda: airflow.instances[0].update(state="running", try_number=2))
    with pytest.raises(ChangeRefusedError, match="its task has started") as refused:
        carry_out(api, made, force=False)
    assert refused.value.why == "unknown"


def test_a_record_that_another_writes_right_after_it_makes_it_uncertain(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]
) -> None:
    made = planned(api)
    seen: list[str] = []

    def before(method: str, path: str) -> None:
        seen.append(method)
        if method == "GET" and "PUT" in seen and path.endswith(LOOP):
            moves(airflow)()

    airflow.before = before
    with pytest.raises(ChangeRefusedError, match="neither the one before the change nor the one after") as refused:
        carry_out(api, made, force=False)
    assert refused.value.why == "unknown"


@pytest.mark.parametrize("arrives", [False, True], ids=["the request is lost", "the answer is lost"])
def test_a_lost_request_or_answer_leaves_the_old_record_or_the_new_one(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any], *, arrives: bool
) -> None:
    made = planned(api)

    def lose() -> None:
        if arrives:
            airflow.states[AT][LOOP] = made.stored
        airflow.answers.insert(0, (0, None))

    usual = airflow.answer

    def answer(method: str, path: str, params: Any, body: Any) -> tuple[int, Any]:
        if method == "PUT":
            lose()
        return usual(method, path, params, body)

    airflow.answer = answer  # type: ignore[method-assign]
    if arrives:
        carry_out(api, made, force=False)
        assert airflow.states[AT][LOOP] == made.stored
    else:
        with pytest.raises(AirflowApiError, match="does not answer"):
            carry_out(api, made, force=False)
        assert airflow.states[AT][LOOP] == loop


def test_a_kill_at_any_request_leaves_the_old_record_or_the_new_one(
    airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]
) -> None:
    outcomes = set()
    for killed_at in range(1, 8):
        airflow.states[AT][LOOP] = copy.deepcopy(loop)
        asked: list[str] = []

        def before(method: str, path: str, asked: list[str] = asked, killed_at: int = killed_at) -> None:
            del path
            asked.append(method)
            if len(asked) == killed_at:
                raise KeyboardInterrupt

        kill = KilledApi(api, before)
        new: Any = None
        try:
            made = planned(kill)  # type: ignore[arg-type]
            new = made.stored
            carry_out(kill, made, force=False)  # type: ignore[arg-type]
        except KeyboardInterrupt:
            pass
        stored = airflow.states[AT][LOOP]
        assert stored in (loop, new)
        outcomes.add(stored == loop)
    assert outcomes == {True, False}


class KilledApi:
    """The same API; the process dies at a request, before it is sent."""

    def __init__(self, api: AirflowApi, before: Callable[[str, str], None]) -> None:
        self._api, self._before = api, before

    def found(self, path: str, **params: Any) -> Any:
        self._before("GET", path)
        return self._api.found(path, **params)

    def change(self, method: str, path: str, body: object, **params: Any) -> Any:
        self._before(method, path)
        return self._api.change(method, path, body, **params)


# --- other places -----------------------------------------------------------------------------------------------------


def test_a_mark_is_not_changed_while_its_owner_runs(airflow: FakeAirflow, api: AirflowApi) -> None:
    record = moved_mark()
    owner = record["owner"]
    airflow.asset("numbers", **{MARK: record})
    airflow.task(owner["dag_id"], "some run", owner["task_id"], state="running")
    found = entry_of(api, AssetPlace(asset_id=1, name="numbers"), MARK)
    assert found is not None
    made = plan(writers_of(api), found, MarkRecord, partial(mark_changes.set_mark, to="15", person=ANA))
    with pytest.raises(ChangeRefusedError, match="some run task is running"):
        carry_out(api, made, force=False)
    airflow.instances[0]["state"] = "success"
    carry_out(
        api, plan(writers_of(api), found, MarkRecord, partial(mark_changes.set_mark, to="15", person=ANA)), force=False
    )
    assert airflow.states[(1,)][MARK]["at"] == "15"


def test_a_risk_is_taken_by_name_only(airflow: FakeAirflow, api: AirflowApi, loop: dict[str, Any]) -> None:
    found = entry_of(api, PLACE, LOOP)
    assert found is not None
    made = plan(writers_of(api), found, LoopRecord, lambda record: loop_changes.skip(record, ANA))
    with pytest.raises(ChangeRefusedError, match="element 8 is not delivered") as refused:
        carry_out(api, made, force=False)
    assert refused.value.why == "risk"
    carry_out(api, made, force=True)
    assert airflow.states[AT][LOOP]["skipped"] == loop["skipped"] + 1


def test_a_value_that_a_backend_has_inline_is_changed_in_the_same_form(airflow: FakeAirflow, api: AirflowApi) -> None:
    import json

    airflow.task("d", "r", "t", **{LOOP: {ENVELOPE: json.dumps(stopped_loop())}})
    carry_out(api, planned(api), force=False)
    stored = airflow.states[AT][LOOP]
    assert list(stored) == [ENVELOPE]
    assert json.loads(stored[ENVELOPE])["n"] == 2


def test_a_record_in_a_database_of_its_own_is_not_changed(airflow: FakeAirflow, api: AirflowApi) -> None:
    airflow.task("d", "r", "t", **{LOOP: {ENVELOPE: f"airflow-resume:1:{'a' * 32}:{'b' * 64}:{LOOP}"}})
    with pytest.raises(ChangeRefusedError, match="in a database of its own"):
        planned(api)


@pytest.mark.parametrize("stored", [7, "x", {"v": 99, "key": LOOP}, {"v": 1, "key": LOOP}])
def test_a_record_that_cannot_be_read_is_not_changed(airflow: FakeAirflow, api: AirflowApi, stored: Any) -> None:
    airflow.task("d", "r", "t", **{LOOP: stored})
    with pytest.raises(UnreadableRecordError):
        planned(api)


def test_a_task_instance_of_airflow_3_4_is_told_apart_by_its_region() -> None:
    shown = {
        "dag_id": "d", "dag_run_id": "r", "task_id": "t", "map_index": -1, "state": "failed", "try_number": 1,
        "max_tries": 0, "start_date": None, "region_id": "0f", "region_index": 2, "in_loop": True,
        "loop_iteration": {"loop_id": "l", "iteration": 2},
    }  # fmt: skip
    place = TaskPlace.of(shown)
    assert (str(place), place.params) == ("d r t (iteration 2)", {"region_id": "0f", "region_index": 2})
    assert PLACE.params == {"map_index": -1}


def test_an_entry_keeps_what_airflow_shows() -> None:
    entry = Entry.of(PLACE, {"key": "k", "value": {"a": 1}, "updated_at": "2026-01-01T00:00:00Z"})
    assert (entry.value, entry.is_enveloped, entry.raw({"b": 2})) == ({"a": 1}, False, {"b": 2})
