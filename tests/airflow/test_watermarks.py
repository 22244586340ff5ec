"""Watermarks on a real Airflow: retries, clears, backfills, kills, and an asset that goes away or changes.

Windows are written in hours since the beginning of 2026: `0-1 initial` is the first hour, and it was the first window.
"""

from __future__ import annotations

from itertools import pairwise

import psutil
import pytest

from tests.support.airflow.watermark_runs import MARK, Loads, hours, in_short

pytestmark = [pytest.mark.side_by_side, pytest.mark.usefixtures("playing_loads")]


# --- scheduled ------------------------------------------------------------------------------------------------


def test_every_scheduled_run_loads_the_next_window_and_a_consumer_gets_exactly_these(loads: Loads) -> None:
    first, second, third = loads.until_runs("nightly", 3)
    assert loads.windows("nightly", run=first) == ["0-1 initial"]
    assert loads.windows("nightly", run=second) == ["1-2", "1-2 retry"], "the retry does not ask the clock again"
    assert loads.windows("nightly", run=third) == ["2-3"]
    before = loads.mark("nightly")

    loads.clear("nightly", first)
    assert loads.windows("nightly", run=first) == ["0-1 initial", "0-1 replay"], "it is the first no longer"
    assert loads.mark("nightly") == before

    sample = loads.override("nightly", "2026-01-01T00:30:00Z", "2026-01-01T00:45:00Z")
    assert loads.windows("nightly", run=sample) == ["0.5-0.75"]
    assert loads.mark("nightly") == before

    fill = loads.override("nightly", "2026-01-01T02:00:00Z", "2026-01-01T08:00:00Z", commit=True)
    assert loads.windows("nightly", run=fill) == ["2-8"]
    assert loads.at("nightly") == "5", "the source's clock is not further"

    got = [(first, "0-1", "advanced"), (second, "1-2", "advanced"), (third, "2-3", "advanced")]
    got += [(first, "0-1", "noop"), (sample, "0.5-0.75", "uncommitted"), (fill, "2-5", "advanced")]
    loads.until(lambda: len(loads.lines("morning")) >= len(got), "the consumer has used them")
    lines = zip(loads.lines("morning"), loads.windows("morning"), strict=True)
    assert [(line["from"], window, line["outcome"]) for line, window in lines] == got


def test_a_backfill_loads_its_days_and_leaves_the_mark_alone(loads: Loads) -> None:
    loads.run("isolated")
    before = loads.mark("isolated")
    loads.backfill("isolated", 5, 6)
    assert loads.windows("isolated") == ["0-240 initial", "96-120", "120-144"]
    assert loads.mark("isolated") == before
    assert [entry.get("origin") for entry in loads.journal("isolated")] == [None, "backfill", "backfill"]
    loads.run("isolated")
    assert loads.windows("isolated")[3:] == ["240-960"]


def test_a_backfill_that_fills_moves_the_mark_when_there_is_no_gap_before_its_days(loads: Loads) -> None:
    loads.run("filled")
    loads.backfill("filled", 11, 12, 13, run_backwards=True)
    assert loads.windows("filled") == ["0-240 initial", "288-312", "264-288", "240-264"]
    outcomes = [(entry["outcome"], hours(entry["at"])) for entry in loads.journal("filled")]
    assert outcomes == [("advanced", "240"), ("gap", "240"), ("gap", "240"), ("advanced", "312")]
    assert loads.mark("filled")["islands"] == []
    loads.run("filled")
    assert loads.windows("filled")[-1] == "312-1200"


def test_a_backfill_whose_data_interval_is_empty_fails_and_says_which_schedule_has_one(loads: Loads) -> None:
    (run_id,) = loads.backfill("without_intervals", 5)
    assert loads.airflow.run_state("without_intervals", run_id) == "failed"
    assert "CronDataIntervalTimetable" in loads.log("without_intervals", run_id)


# --- killed ---------------------------------------------------------------------------------------------------


def test_a_task_that_is_killed_anywhere_loads_its_window_again_and_moves_the_mark_once(loads: Loads) -> None:
    loads.run("killed")
    run_id = loads.run("killed", die=["in the body", "before the commit", "after the commit"])
    ways = [(line["try"], line.get("again", False)) for line in loads.lines("killed", run=run_id)]
    assert ways == [(1, False), (2, False), (2, True), (3, False), (3, True), (4, False), (4, True)]
    retried = ["1-2", *["1-2 retry"] * 4, *["1-2 replay"] * 2]
    assert loads.windows("killed", run=run_id) == retried
    mark = loads.mark("killed")
    assert [line["run_id"] for line in mark["history"]][1:] == [run_id]
    assert (loads.at("killed"), mark["by"]["try"]) == ("2", 3)
    assert [entry["outcome"] for entry in loads.journal("killed")] == ["advanced", "advanced"]


def test_a_window_is_staged_by_one_task_and_committed_by_another(loads: Loads) -> None:
    loads.run("staged", die=["in the body"])
    assert loads.windows("staged") == ["0-1 initial", "0-1 initial retry"]
    assert loads.at("staged") == "1"
    second = loads.run("staged", die=["before the commit"])
    assert loads.windows("staged", run=second) == ["1-2"]
    assert loads.airflow.xcom("staged", second, "commit") == "advanced"
    assert loads.at("staged") == "2"
    assert [entry["outcome"] for entry in loads.journal("staged")] == ["advanced", "advanced"]


def test_every_partition_has_a_mark_of_its_own_whatever_its_index(loads: Loads) -> None:
    loads.run("tables", hour=1, tables=["a", "b/ü"])
    second = loads.run("tables", hour=2, tables=["b/ü", "c"], dying="b/ü", die=["in the body"])
    assert loads.windows("tables", run=second, table="b/ü") == ["1-2", "1-2 retry"]
    assert loads.windows("tables", run=second, table="c") == ["0-2 initial"]
    keys = {"a": f"{MARK}~~a", "b/ü": f"{MARK}~~b~2F~C3~BC", "c": f"{MARK}~~c"}
    assert loads.airflow.asset_state_store("tables").keys() == set(keys.values())
    assert [loads.at("tables", key) for key in keys.values()] == ["1", "2", "2"]
    loads.until(lambda: len(loads.lines("readers")) >= 4, "the consumer has used all windows")
    got = {(line["partition"], in_short(line), line["from_index"]) for line in loads.lines("readers")}
    assert got == {("a", "0-1", 0), ("b/ü", "0-1", 1), ("b/ü", "1-2", 0), ("c", "0-2", 1)}


# --- several assets, Dags and consumers -------------------------------------------------------------------------


def test_two_assets_in_one_task_have_their_own_windows_through_kills(loads: Loads) -> None:
    loads.run("both", hour=1)
    second = loads.run("both", hour=2, die=["between the two", "in the second"])
    assert loads.windows("both", run=second, asset="one") == ["1-2", "1-2 replay", "1-2 replay"]
    assert loads.windows("both", run=second, asset="other") == ["1-2", "1-2 retry"]
    assert (loads.at("both_one"), loads.at("both_other")) == ("2", "2")
    outcomes = [entry["outcome"] for asset in ("both_one", "both_other") for entry in loads.journal(asset)]
    assert outcomes == ["advanced"] * 4


def test_the_second_of_two_dags_on_one_asset_fails_and_names_both(loads: Loads) -> None:
    loads.run("north", hour=1)
    failed = loads.run("south", hour=2, ends="failed")
    log = loads.log("south", failed)
    assert "WatermarkMismatchError" in log
    assert "'run' of the Dag 'north'" in log
    assert "'run' of the Dag 'south'" in log
    assert loads.windows("south") == []
    assert loads.windows("north", run=loads.run("north", hour=3)) == ["1-3"]
    loads.airflow.set_asset_state("fought_over", MARK, "2026-01-01T03:00:00Z")
    assert loads.windows("south", run=loads.run("south", hour=4)) == ["3-4 reset"]


def test_consumers_of_tasks_that_are_killed_fail_and_are_cleared_get_each_window_once(loads: Loads) -> None:
    deaths = ["in slice 0", "in slice 1", "before the commit", "after the commit"]
    for death in deaths:
        loads.run("followed", die=[death])
        loads.run("followed", die=[death, death], ends="failed")  # for good, so it sends no event
    last = loads.run("followed")
    loads.clear("followed", last)
    loads.until(lambda: loads.lines("follower", outcome="noop", **{"from": last}), "the consumer has used them")
    new = [in_short(line).split("-") for line in loads.lines("follower") if line["outcome"] != "noop"]
    edges = sorted((float(start), float(end)) for start, end in new)
    assert (edges[0][0], edges[-1][1]) == (0, 9)
    assert all(one[1] == other[0] for one, other in pairwise(edges)), edges
    assert loads.at("followed") == "9"


def test_a_task_that_lost_its_supervisor_stops_loading_before_the_next_attempt_begins(loads: Loads) -> None:
    run_id = loads.airflow.trigger("orphaned", {"ticks": 80})
    loads.until(lambda: loads.lines("orphaned"), "it has begun")
    (first, *_) = loads.lines("orphaned")
    psutil.Process(first["supervisor"]).kill()
    loads.until_ended("orphaned", run_id)
    ticks = [(line["try"], line["at"]) for line in loads.lines("orphaned")]
    assert ticks == sorted(ticks), "the two never load at the same time"
    assert {number for number, _ in ticks} == {1, 2}
    assert len([number for number, _ in ticks if number == 1]) < 60
    assert {line["window"] for line in loads.lines("orphaned")} == {first["window"]}


# --- set back -------------------------------------------------------------------------------------------------


def test_a_mark_that_a_person_types_is_loaded_from_until_that_has_succeeded(loads: Loads) -> None:
    loads.run("rewound", hour=1)
    loads.run("rewound", hour=2)
    loads.airflow.set_asset_state("rewound", MARK, "2026-01-01T00:30:00Z")
    failed = loads.run("rewound", hour=3, fail=True, ends="failed")
    again = loads.run("rewound", hour=4)
    assert loads.windows("rewound", run=failed) == ["0.5-3 reset"]
    assert loads.windows("rewound", run=again) == ["0.5-4 reset"]
    assert loads.at("rewound") == "4"

    to_hour_two = loads.run("rewound", hour=5, reset="2026-01-01T02:00:00Z")
    assert loads.windows("rewound", run=to_hour_two) == ["2-5 initial reset"]
    to_the_beginning = loads.run("rewound", hour=6, reset=None)
    assert loads.windows("rewound", run=to_the_beginning) == ["0-6 initial reset"]
    assert loads.windows("rewound", run=loads.run("rewound", hour=7)) == ["6-7"]


def test_a_mark_that_was_deleted_is_missed_by_all_dags_that_load_the_asset(loads: Loads) -> None:
    loads.run("east", hour=1)
    loads.airflow.delete_asset_state("shared", MARK)
    lost = loads.run("west", hour=2, ends="failed")
    assert "WatermarkLostError" in loads.log("west", lost)
    assert loads.windows("west_recovering", run=loads.run("west_recovering", hour=2)) == ["1-2"]
    assert loads.windows("west", run=loads.run("west", hour=3)) == ["2-3"]


# --- other cursors --------------------------------------------------------------------------------------------


def test_of_rows_with_the_same_number_those_that_came_later_are_loaded_too(loads: Loads) -> None:
    loads.run("counted")
    loads.add_numbers(("d", 2), ("e", 3))
    loads.run("counted", fail=True, ends="failed")
    loads.add_numbers(("f", 2))
    loads.run("counted")
    assert [line["ids"] for line in loads.lines("counted")] == [["a", "b", "c"], ["d", "e"], ["d", "f", "e"]]
    assert loads.mark("counted")["at"] == "3"


# --- the asset goes away, or changes --------------------------------------------------------------------------


def test_a_mark_survives_the_absence_of_its_dag_file_if_the_asset_is_in_inlets_and_outlets(loads: Loads) -> None:
    for dag_id in ("stays", "goes"):
        for hour in (1, 2):
            loads.run(dag_id, hour=hour)
    before = loads.mark("stays")
    loads.away("leaving.py", until_orphaned="goes", dag_ids=("stays", "goes"))
    assert loads.mark("stays") == before
    assert loads.mark("goes") is None
    assert loads.windows("stays", run=loads.run("stays", hour=3)) == ["2-3"]
    lost = loads.run("goes", hour=3, ends="failed")
    assert "WatermarkLostError" in loads.log("goes", lost)


def test_a_change_of_the_assets_uri_is_noticed(loads: Loads) -> None:
    loads.until_runs("address_nightly", 2)
    for dag_id in ("address", "address_recovered", "address_staged"):
        for hour in (1, 2):
            loads.run(dag_id, hour=hour)
    loads.edit("address.py", '"old"', '"new"')
    for dag_id in ("address", "address_recovered", "address_staged", "address_nightly"):
        loads.until_asset_is_at(dag_id, f"s3://new/{dag_id}")
    for dag_id in ("address", "address_staged"):
        assert "WatermarkLostError" in loads.log(dag_id, loads.run(dag_id, hour=3, ends="failed"))
    assert loads.windows("address_recovered", run=loads.run("address_recovered", hour=3)) == ["2-3"]
    by_hand = loads.run("address_nightly", ends="failed")
    assert "WatermarkLostError" in loads.log("address_nightly", by_hand)
    loads.edit("address.py", "NIGHTS = 2", "NIGHTS = 3")
    *_, third = loads.until_runs("address_nightly", 3)
    assert "WatermarkLostError" in loads.log("address_nightly", third)
