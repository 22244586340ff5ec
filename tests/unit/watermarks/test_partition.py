"""Several marks of one asset: their keys, and which of them a task instance has."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

import pytest
from airflow.sdk.exceptions import AirflowFailException
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_resume.errors import InvalidKeyError, WatermarkInputError
from airflow_resume.testing import World, task_context
from airflow_resume.watermarks import Window
from airflow_resume.watermarks.keys import Keys
from airflow_resume.watermarks.partition import resolve_partition
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import MARK, NUMBERS, Counter, a_try, load, marks, numbers, stands

MARKS = "resume.watermark.w"

KEYS: list[tuple[Any, str]] = [
    (None, MARKS),
    ("eu", f"{MARKS}~~eu"),
    ("a.csv", f"{MARKS}~~a.csv"),
    ("a b/ü", f"{MARKS}~~a~20b~2F~C3~BC"),
    ("~", f"{MARKS}~~~7E"),
    ("%22", f"{MARKS}~~~2522"),
    ("", f"{MARKS}~~"),
    ("0", f"{MARKS}~~0"),
    (0, f"{MARKS}~~~j0"),
    (False, f"{MARKS}~~~jfalse"),
    (["a", 1], f"{MARKS}~~~j~5B~22a~22~2C1~5D"),
    ({"b": 1, "a": None}, f"{MARKS}~~~j~7B~22a~22~3Anull~2C~22b~22~3A1~7D"),
    ({"a": None, "b": 1}, f"{MARKS}~~~j~7B~22a~22~3Anull~2C~22b~22~3A1~7D"),
]


def mark_key(partition: Any) -> str:
    return Keys.of(asset="numbers", name="w", partition=partition).mark


@pytest.mark.parametrize(("partition", "key"), KEYS)
def test_a_partition_follows_the_name_in_characters_that_a_url_takes(partition: Any, key: str) -> None:
    assert mark_key(partition) == key
    assert quote(key) == unquote(key) == key


def test_asset_name_and_partition_stand_in_every_key_that_a_task_has_for_several_assets() -> None:
    keys = Keys.of(asset="s3://a/b c", name="w", partition="eu")
    assert keys.window == "resume.window.s3~3A~2F~2Fa~2Fb~20c~~w~~eu"
    assert keys.note == "resume.watermark.s3~3A~2F~2Fa~2Fb~20c~~w~~eu"
    assert keys.entry == "w~~eu"


@given(
    st.lists(st.tuples(st.text("a~/.2", max_size=4), st.sampled_from("ab"), st.none() | st.text("ab~.", max_size=3)))
)
def test_different_watermarks_of_a_task_have_different_windows(marks: list[tuple[str, str, Any]]) -> None:
    keys = {Keys.of(asset=asset, name=name, partition=partition).window for asset, name, partition in marks}
    assert len(keys) == len(set(marks))


def test_a_long_partition_keeps_its_beginning_and_a_part_of_its_hash() -> None:
    one, other = (mark_key("x" * 300 + end) for end in "ab")
    assert (len(one), one[:40]) == (200, other[:40])
    assert one != other
    assert re.fullmatch(r"resume\.watermark\.w~~x+-[0-9a-f]{16}", one)


OLD_KEYS: list[tuple[Any, str]] = [
    (None, MARKS),
    ("a b/ü", f"{MARKS}.%22a%20b%2F%C3%BC%22"),
    ("~", f"{MARKS}.%22%7E%22"),
    (0, f"{MARKS}.0"),
    ({"b": 1, "a": None}, f"{MARKS}.%7B%22a%22:null%2C%22b%22:1%7D"),
]


@pytest.mark.parametrize(("partition", "key"), OLD_KEYS)
def test_the_keys_of_version_0_1_are_known(partition: Any, key: str) -> None:
    old = Keys.of(asset="numbers", name="w", partition=partition).old
    assert old is not None
    assert (old.mark, old.note, f"resume.watermark.{old.entry}") == (key, key, key)
    assert old.window == key.replace("watermark", "window", 1)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-99, 99)
    | st.text(st.characters(exclude_categories=["Cs"], min_codepoint=1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc~ü"), inner, max_size=3),
    max_leaves=5,
).filter(lambda value: value is not None)


@given(json_values, json_values)
@settings(max_examples=60, deadline=None)
def test_different_partitions_have_different_keys_that_a_store_takes(one: Any, other: Any) -> None:
    keys = [mark_key(partition) for partition in (one, other)]
    assert all(re.fullmatch(r"[A-Za-z0-9_.~-]{1,200}", key) for key in keys)
    assert (keys[0] == keys[1]) == (repr(one) == repr(other) or canonical(one) == canonical(other))


def canonical(value: Any) -> Any:
    return mark_key([value]) if len(repr(value)) < 30 else repr(value)


@pytest.mark.parametrize("partition", [{1, 2}, float("nan"), {1: "a"}, ("a",), object(), "\ud800"])
def test_what_is_not_json_is_refused_at_the_call_or_when_it_comes_out(partition: Any) -> None:
    with pytest.raises(WatermarkInputError, match="is not JSON", check=having(given="partition")):
        numbers(partition=partition)
    with pytest.raises(WatermarkInputError, match="is not JSON", check=having(given="partition")) as raised, a_try():
        load(a_try(), numbers(partition=lambda: partition))
    assert isinstance(raised.value, AirflowFailException)


# --- found out ------------------------------------------------------------------------------------------------


def test_a_function_takes_arguments_of_the_task_and_keys_of_the_context() -> None:
    context = {"params": {"region": "eu"}, "table": "of the context"}
    arguments = {"table": "orders"}
    assert resolve_partition(lambda table: table, context, arguments) == "orders"
    assert resolve_partition(lambda params, table: [params["region"], table], context, arguments) == ["eu", "orders"]
    assert resolve_partition(lambda context: context["table"], context, arguments) == "of the context"
    assert resolve_partition(lambda: "all", context, {}) == "all"


def test_a_parameter_with_a_default_need_not_be_there() -> None:
    assert resolve_partition(lambda table, region="eu": [table, region], {}, {"table": "t"}) == ["t", "eu"]
    assert resolve_partition(lambda table="x": table, {}, {"table": "t"}) == "t"


def test_a_parameter_that_is_nowhere_is_named() -> None:
    with pytest.raises(
        WatermarkInputError,
        match=r"takes tabel, which is neither .*\(table\) nor a key",
        check=having(given="partition"),
    ):
        resolve_partition(lambda tabel: tabel, {}, {"table": "t"})


def test_none_is_no_partition() -> None:
    with pytest.raises(WatermarkInputError, match="returned None", check=having(given="partition")):
        resolve_partition(lambda: None, {}, {})


# --- in a task ------------------------------------------------------------------------------------------------


def test_the_instances_of_a_mapped_task_have_a_mark_each() -> None:
    world, clock = World(), Counter(10)
    mark = numbers(clock, partition=lambda table: table)

    def of_one_table(window: Window[int], table: str) -> Any:
        if table == "broken":
            raise KeyError(table)
        return window.partition, window.end

    load_table: Any = mark(of_one_table)
    for index, table in enumerate(["a", "b"]):
        with task_context(assets=[NUMBERS], world=world, map_index=index) as attempt:
            assert load_table(table) == (table, 10)
    with task_context(assets=[NUMBERS], world=world, map_index=2) as attempt, pytest.raises(KeyError):
        load_table(table="broken")
    kept = marks(attempt)
    assert {key.removeprefix(f"{MARK}~~"): record["at"] for key, record in kept.items()} == {
        "a": "10",
        "b": "10",
        "broken": "0",
    }


def test_an_instance_that_gets_another_item_reads_that_ones_mark() -> None:
    world, clock = World(), Counter(10)
    mark = numbers(clock, partition=lambda table: table)
    first = task_context(assets=[NUMBERS], world=world, map_index=0)
    with mark.open(first.context, partition="a"):
        pass
    clock.number = 20
    (again,) = first.remap(["b"])
    with mark.open(again.context, partition="b") as window:
        assert (window.start, window.end, window.is_replay) == (0, 20, False)


def test_a_partition_by_the_map_index() -> None:
    mark = numbers(Counter(10), partition=lambda ti: ti.map_index)
    mapped = a_try(map_index=3)
    load(mapped, mark)
    assert stands(mapped, f"{MARK}~~~j3") == "10"


def test_a_partition_is_staged_and_committed_as_its_own() -> None:
    mark = numbers(Counter(10), partition=lambda table: table)
    first = a_try()
    token = mark.begin(first.context, partition=["a"]).stage()
    mark.commit(first.context, token)
    assert list(marks(first)) == [f"{MARK}~~~j~5B~22a~22~5D"]


def test_a_mapped_task_without_a_partition_is_refused() -> None:
    with pytest.raises(WatermarkInputError, match="partition=", check=having(given="partition")) as raised:
        numbers().begin(a_try(map_index=0).context)
    assert isinstance(raised.value, AirflowFailException)


def test_a_name_that_makes_no_key_is_refused() -> None:
    with pytest.raises(InvalidKeyError):
        Keys.of(asset="numbers", name="", partition="a")


def test_partitions_may_run_side_by_side_and_a_single_mark_may_not() -> None:
    assert "max_active_tis_per_dag" not in numbers(partition="a").task_options({})
    assert numbers().task_options({})["max_active_tis_per_dag"] == 1
