"""The window: its bounds in other forms, how far the mark moves for it, and its slices."""

from __future__ import annotations

import contextlib
import sqlite3
from datetime import date, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_resume import watermark
from airflow_resume.errors import (
    CursorTypeError,
    WatermarkConflictError,
    WatermarkError,
    WatermarkWarning,
    WindowNotReadError,
)
from airflow_resume.watermarks import Cursor, Outcome, Window
from airflow_resume.watermarks.cursors.forms import formatted
from tests.support.kit.raised import having
from tests.support.watermarks.whole_numbers import (
    MARK,
    NUMBERS,
    WINDOW,
    BodyFailedError,
    Counter,
    a_try,
    bounds,
    break_down,
    load,
    marks,
    numbers,
    rows,
    stands,
    track,
)

NO_DELAY = timedelta(0)
UTC = timezone.utc

# --- how far the mark moves -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("initial", "now", "delay", "end", "kept"),
    [
        (5, 20, 3, 17, "17"),
        (date(2026, 1, 1), date(2026, 1, 9), timedelta(days=2), date(2026, 1, 7), "2026-01-07"),
        (
            date(2026, 1, 1),
            datetime(2026, 1, 9, 23, tzinfo=UTC),
            timedelta(0),
            date(2026, 1, 9),
            "2026-01-09",
        ),
        (
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1, 9, tzinfo=UTC),
            timedelta(hours=1),
            datetime(2026, 1, 1, 8, tzinfo=UTC),
            "2026-01-01T08:00:00+00:00",
        ),
    ],
)
def test_a_window_ends_the_delay_before_now_and_the_mark_moves_there(
    initial: Any, now: Any, delay: Any, end: Any, kept: str
) -> None:
    first = a_try()
    mark = watermark(NUMBERS, initial=initial, now=lambda: now, delay=delay)
    window = load(first, mark)
    assert bounds(window) == (initial, end)
    assert stands(first) == kept
    assert load(first.next_run(), mark).empty


def test_by_default_a_days_window_ends_before_today() -> None:
    before = datetime.now(tz=UTC).date()
    window = watermark(NUMBERS, initial=date(2026, 1, 1), delay=timedelta(0)).begin(a_try().context)
    assert before <= window.end <= datetime.now(tz=UTC).date()


def test_points_in_time_without_a_delay_are_warned_of_when_the_file_is_read() -> None:
    with pytest.warns(WatermarkWarning, match="no delay="):
        watermark(NUMBERS, initial=datetime(2026, 1, 1, tzinfo=UTC))


def test_observed_without_a_clock_has_no_end_and_moves_to_the_greatest_value_seen() -> None:
    first, mark = a_try(), numbers()
    window = load(first, mark, track(3, 9, 4))
    assert bounds(window) == (0, None)
    with pytest.raises(WatermarkError, match="no end"):
        _ = window.end
    assert stands(first) == "9"
    assert load(first.next_run(), mark, track()).start == 9
    assert stands(first) == "9"


def test_observed_with_a_clock_moves_no_further_than_what_may_still_change() -> None:
    first = a_try()
    mark = numbers(Counter(10), advance="observed", delay=2, future="clamp")
    assert bounds(load(first, mark, track(3, 9))) == (0, 8)
    assert stands(first) == "8"
    second = a_try()
    load(second, numbers(Counter(10), advance="observed", delay=2), track(3, 9))
    assert stands(second) == "3"


def test_observed_is_rounded_down_to_the_granularity() -> None:
    first = a_try()
    load(first, watermark(NUMBERS, initial=0, cursor=Cursor.int(granularity=10)), track(3, 27))
    assert stands(first) == "20"


def test_a_value_can_be_observed_without_track() -> None:
    first = a_try()
    load(first, numbers(), lambda window: window.observe(7))
    assert stands(first) == "7"
    with pytest.raises(CursorTypeError, match=r"observe\(\)"):
        load(first.next_run(), numbers(), lambda window: window.observe("x"))


def test_explicit_moves_to_what_the_body_says() -> None:
    first, mark = a_try(), numbers(advance="explicit")

    def body(window: Window[int]) -> None:
        track(3, 9)(window)
        window.advance(6)

    load(first, mark, body)
    assert stands(first) == "6"


@pytest.mark.parametrize(("told", "stood"), [(7, "7"), (10, "10"), (12, "10"), (0, "0"), (-1, "0")])
def test_a_window_advances_as_far_as_the_body_says_and_not_beyond_its_end(told: int, stood: str) -> None:
    first = a_try()
    load(first, numbers(Counter(10)), lambda window: window.advance(told))
    assert stands(first) == stood


def test_what_failed_holds_the_mark_back_the_first_of_it() -> None:
    first, clock = a_try(), Counter(10)

    def body(window: Window[int]) -> None:
        for value in (8, 6, 7):
            window.fail_from(value)

    load(first, numbers(clock), body)
    assert stands(first) == "6"
    assert load(first.next_run(), numbers(clock)).start == 6


def test_what_failed_at_the_start_moves_nothing() -> None:
    first = a_try()
    load(first, numbers(Counter(10)), lambda window: window.fail_from(0))
    assert stands(first) == "0"


def test_a_sample_moves_nothing() -> None:
    first = a_try()
    load(first, numbers(Counter(10)), lambda window: window.sampled())
    assert stands(first) == "0"
    assert load(first.next_run(), numbers(Counter(10))).is_initial


def left_early(window: Window[int]) -> None:
    for _ in window.track(rows(1, 2), "n"):
        break


def left_between_slices(window: Window[int]) -> None:
    for _ in window.split(5):
        break


def not_started(window: Window[int]) -> None:
    window.track(rows(1), "n")


@pytest.mark.parametrize(
    ("advance", "body"),
    [
        ("window", left_early),
        ("window", left_between_slices),
        ("window", not_started),
        ("observed", left_early),
        ("observed", lambda _: None),
        ("explicit", track(1)),
    ],
)
def test_a_body_that_has_not_read_what_the_mark_would_move_over_fails_without_a_retry(advance: Any, body: Any) -> None:
    first = a_try()
    with pytest.raises(WindowNotReadError, match=r"not known|did not call", check=having(problem="unread")) as raised:
        load(first, numbers(Counter(10), advance=advance), body)
    assert isinstance(raised.value, AirflowFailException)
    assert stands(first) == "0"


def test_leaving_early_is_fine_for_a_body_that_says_how_far_it_came() -> None:
    def body(window: Window[int]) -> None:
        left_early(window)
        window.advance(1)

    first = a_try()
    load(first, numbers(Counter(10)), body)
    assert stands(first) == "1"


# --- tokens ---------------------------------------------------------------------------------------------------


def test_a_token_is_replaced_and_no_token_is_told_from_another_by_order() -> None:
    first = a_try()
    mark = watermark(NUMBERS, initial="", cursor=Cursor.token())
    for token in ("z", {"a": 1}, ["b"], 0):
        window = load(first, mark, lambda window, token=token: window.advance(token))  # type: ignore[misc]
        assert not window.has_end
        assert stands(first) == token
        first = first.next_run()


def test_of_two_runs_the_second_to_commit_a_token_is_in_conflict_and_its_retry_begins_anew() -> None:
    one, mark = a_try(), watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    two = one.next_run()
    window = mark.begin(two.context)
    load(one, mark, lambda window: window.advance("t1"))
    window.advance("t2")
    with pytest.raises(WatermarkConflictError, match="retry begins at the new token") as raised:
        mark.commit(two.context, window)
    assert not isinstance(raised.value, AirflowFailException)
    again = load(two.retry(), mark, lambda window: window.advance("t3"))
    assert (again.start, again.is_retry, stands(one)) == ("t1", False, "t3")


def test_a_cleared_run_of_a_token_loads_its_own_changes_again_and_leaves_the_mark() -> None:
    one, mark = a_try(), watermark(NUMBERS, initial="t0", cursor=Cursor.token())
    load(one, mark, lambda window: window.advance("t1"))
    load(one.next_run(), mark, lambda window: window.advance("t2"))
    again = one.clear()
    window = mark.begin(again.context)
    assert (window.start, window.is_replay) == ("t0", True)
    window.advance("t1")
    assert mark.commit(again.context, window) is Outcome.NOOP
    assert stands(one) == "t2"


# --- catching up ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("advance", ["window", "observed"])
def test_a_long_way_is_gone_in_several_runs_over_empty_stretches_too(advance: Any) -> None:
    attempt, mark = a_try(), numbers(Counter(10), max_span=4, advance=advance)
    seen: list[Any] = []
    for given in ([], [], [9]):
        seen.append(bounds(load(attempt, mark, track(*given))))
        attempt = attempt.next_run()
    assert seen == [(0, 4), (4, 8), (8, 10)]
    assert stands(attempt) == {"window": "10", "observed": "9"}[advance]


def test_a_lookback_does_not_shorten_the_way() -> None:
    attempt, mark = a_try(), numbers(Counter(10), max_span=4, lookback=3)
    windows = []
    for _ in range(3):
        windows.append(bounds(load(attempt, mark)))
        attempt = attempt.next_run()
    assert windows == [(0, 4), (1, 8), (5, 10)]


# --- as a query -----------------------------------------------------------------------------------------------


@pytest.fixture
def database() -> Any:
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("CREATE TABLE t (n INTEGER, m TEXT)")
        pairs = [(n, m) for n in range(6) for m in "ab"] + [(None, "a"), (2, None)]
        connection.executemany("INSERT INTO t VALUES (?, ?)", pairs)
        yield connection


def executed(database: sqlite3.Connection, window: Window[Any], column: Any, style: Any) -> list[Any]:
    """The rows of the condition; of the styles that SQLite does not know, the placeholders are put in its own way."""
    condition, parameters = window.sql(column, style=style)
    if style == "format":
        condition = condition.replace("%s", "?")
    if style == "pyformat":
        for name in parameters:
            condition = condition.replace(f"%({name})s", f":{name}")
    query = f"SELECT DISTINCT {', '.join([column] if isinstance(column, str) else column)} FROM t WHERE {condition}"  # noqa: S608
    found = database.execute(query, parameters).fetchall()
    return sorted(found, key=repr)


STYLES: list[Any] = ["named", "qmark", "format", "pyformat"]


@pytest.mark.parametrize("style", STYLES)
def test_the_condition_finds_the_rows_of_the_window(database: Any, style: Any) -> None:
    first = a_try()
    load(first, numbers(Counter(2)))
    window = numbers(Counter(5)).begin(first.next_run().context)
    assert executed(database, window, "n", style) == [(2,), (3,), (4,)]


@pytest.mark.parametrize("style", STYLES)
def test_without_an_end_the_condition_has_none(database: Any, style: Any) -> None:
    assert executed(database, numbers(initial=3).begin(a_try().context), "n", style) == [(3,), (4,), (5,)]


@pytest.mark.parametrize("style", STYLES)
def test_rows_without_a_value_are_found_when_they_are_kept(database: Any, style: Any) -> None:
    window = numbers(Counter(9), initial=5, nulls="keep").begin(a_try().context)
    assert executed(database, window, "n", style) == [(5,), (None,)]


@pytest.mark.parametrize("style", STYLES)
def test_where_the_value_is_unique_what_stands_at_the_mark_is_not_asked_for_again(database: Any, style: Any) -> None:
    first, mark = a_try(), numbers()
    load(first, mark, track(3, unique=True))
    window = mark.begin(first.next_run().context)
    assert executed(database, window, "n", style) == [(4,), (5,)]


@pytest.mark.parametrize("style", STYLES)
def test_several_columns_are_compared_from_the_first_on(database: Any, style: Any) -> None:
    cursor = Cursor.keyset(Cursor.int(), Cursor.text())
    mark = watermark(NUMBERS, initial=(2, "b"), cursor=cursor, now=lambda: (4, "b"))
    window = mark.begin(a_try().context)
    assert bounds(window) == ((2, "b"), (4, "b"))
    assert executed(database, window, ["n", "m"], style) == [(2, "b"), (3, "a"), (3, "b"), (4, "a")]


@pytest.mark.parametrize("style", STYLES)
def test_after_the_mark_of_several_columns(database: Any, style: Any) -> None:
    first = a_try()
    mark = watermark(NUMBERS, initial=(0, ""), cursor=Cursor.keyset(Cursor.int(), Cursor.text()))
    load(first, mark, lambda window: list(window.track([{"k": (4, "a")}], "k", unique=True)))
    window = mark.begin(first.next_run().context)
    assert executed(database, window, ["n", "m"], style) == [(4, "b"), (5, "a"), (5, "b")]


def test_a_style_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="style='colons'"):
        numbers().begin(a_try().context).sql("n", style="colons")  # type: ignore[arg-type]


# --- in other forms -------------------------------------------------------------------------------------------

MOMENT = datetime(2026, 3, 31, 22, 30, 15, 123456, tzinfo=UTC)
BERLIN = "Europe/Berlin"
FORMS: list[tuple[str, str | None, Any, Any]] = [
    ("iso", None, "2026-03-31T22:30:15.123456+00:00", "2026-03-31T22:30:15.123456+00:00"),
    ("iso", BERLIN, "2026-04-01T00:30:15.123456+02:00", "2026-04-01T00:30:15.123456+02:00"),
    ("date", None, "2026-03-31", "2026-04-01"),
    ("date", BERLIN, "2026-04-01", "2026-04-02"),
    ("epoch", None, 1774996215, 1774996216),
    ("epoch_ms", None, 1774996215123, 1774996215124),
    ("epoch_us", None, 1774996215123456, 1774996215123456),
    ("%d.%m.%Y %H:%M", BERLIN, "01.04.2026 00:30", "01.04.2026 00:31"),
    ("%Y%m%dT%H%M%S", None, "20260331T223015", "20260331T223016"),
    ("%Y%m%d%H", None, "2026033122", "2026033123"),
    ("%Y-%m", None, "2026-03", "2026-04"),
    ("%Y", None, "2026", "2027"),
    ("%H:%M:%S.%f", None, "22:30:15.123456", "22:30:15.123456"),
]
AT_A_BORDER = [
    (datetime(2026, 4, 1, 0, 30, tzinfo=UTC), "%d.%m.", "02.04."),
    (datetime(2026, 4, 1, 0, 0, 59, tzinfo=UTC), "%H:%M", "00:01"),
    (datetime(2026, 12, 31, 23, 59, 59, tzinfo=UTC), "date", "2027-01-01"),
    (datetime(2026, 12, 31, 23, 59, 59, 1, tzinfo=UTC), "%Y%m%d%H%M%S", "20270101000000"),
    (datetime(2026, 1, 31, 5, tzinfo=UTC), "%Y-%m", "2026-02"),
    (datetime.min.replace(tzinfo=UTC), "%m", "01"),
]


@pytest.mark.parametrize(("form", "tz", "start", "end"), FORMS)
def test_a_start_is_rounded_down_and_an_end_up_so_that_no_row_lies_outside(
    form: str, tz: str | None, start: Any, end: Any
) -> None:
    mark = watermark(NUMBERS, initial=MOMENT, now=lambda: MOMENT + timedelta(days=1), delay=NO_DELAY)
    assert mark.begin(a_try().context).start_as(form, tz) == start
    mark = watermark(NUMBERS, initial=MOMENT - timedelta(days=1), now=lambda: MOMENT, delay=NO_DELAY)
    assert mark.begin(a_try().context).end_as(form, tz) == end


@pytest.mark.parametrize(("moment", "form", "text"), AT_A_BORDER)
def test_what_lies_at_a_border_is_rounded_up_too(moment: datetime, form: str, text: str) -> None:
    assert formatted(moment, form, None, up=True) == text


@pytest.mark.parametrize(
    ("moment", "form", "tz", "text"),
    [  # clocks in Berlin go back at 01:00 in UTC, those of Lord Howe by half an hour at 15:00
        ("2026-10-25T00:30:15", "%Y-%m-%dT%H:%M%z", BERLIN, "2026-10-25T02:31+0200"),
        ("2026-10-25T00:59:15", "%Y-%m-%dT%H:%M%z", BERLIN, "2026-10-25T02:00+0100"),
        ("2026-10-25T01:30:15", "%Y-%m-%dT%H:%M%z", BERLIN, "2026-10-25T02:31+0100"),
        ("2026-10-25T01:59:59.5", "%Y-%m-%dT%H:%M:%S%z", BERLIN, "2026-10-25T03:00:00+0100"),
        ("2026-10-25T00:30:15", "%Y-%m-%dT%H%z", BERLIN, "2026-10-25T02+0100"),
        ("2026-10-25T00:30:15", "%Y-%m-%d %H", BERLIN, "2026-10-25 03"),
        ("2026-10-25T01:00:00", "%Y-%m-%d %H", BERLIN, "2026-10-25 03"),
        ("2026-10-25T01:30:15", "%Y-%m-%d %H", BERLIN, "2026-10-25 03"),
        ("2026-03-29T00:59:30", "%Y-%m-%d %H:%M", BERLIN, "2026-03-29 03:00"),
        ("2026-04-04T15:15:00", "%Y-%m-%d %H%z", "Australia/Lord_Howe", "2026-04-05 02+1030"),
        ("2026-10-25T00:30:15", "date", BERLIN, "2026-10-26"),
        ("9999-12-31T23:59:59.5", "%Y", None, "9999"),
        ("9999-12-31T23:59:59.5", "%H:%M", None, "23:59"),
    ],
)
def test_an_end_in_the_nights_of_clock_changes_never_goes_back(moment: str, form: str, tz: Any, text: str) -> None:
    given = datetime.fromisoformat(f"{moment}{'00000' * ('.' in moment)}").replace(tzinfo=UTC)
    assert formatted(given, form, tz, up=True) == text


@pytest.mark.parametrize("zone", [BERLIN, "Australia/Lord_Howe", "America/Havana", "America/St_Johns", "Asia/Tokyo"])
def test_an_end_names_a_moment_after_it_and_within_the_unit_on_every_day_that_has_a_change(zone: str) -> None:
    days = [datetime(2026, 1, 1, tzinfo=UTC) + timedelta(days=number) for number in range(365)]
    offsets = [day.astimezone(ZoneInfo(zone)).utcoffset() for day in days]
    changed = [day for day, one, other in zip(days, offsets, offsets[1:], strict=False) if one != other]
    assert len(changed) == (0 if zone == "Asia/Tokyo" else 2)
    for first in changed or days[:1]:
        for number in range(96):
            moment = first + timedelta(minutes=15 * number, seconds=11, microseconds=5)
            for form, unit in (("%H:%M:%S", 1), ("%H:%M", 60), ("%H", 5400)):  # an hour of Lord Howe may be longer
                text = str(formatted(moment, f"%Y-%m-%dT{form}%z", zone, up=True))
                end = datetime.strptime(text, f"%Y-%m-%dT{form}%z")
                assert timedelta(0) < end - moment <= timedelta(seconds=unit)


@pytest.mark.parametrize("form", ["date", "epoch", "%Y", "%H:%M"])
def test_what_needs_no_rounding_is_left_as_it_is(form: str) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    assert formatted(moment, form, None) == formatted(moment, form, None, up=True)


@pytest.mark.parametrize(
    ("form", "tz", "text"),
    [
        ("iso", None, "2026-03-31"),
        ("date", BERLIN, "2026-03-31"),
        ("epoch", None, 1774915200),
        ("epoch", BERLIN, 1774908000),
        ("%d.%m.", None, "31.03."),
    ],
)
def test_a_day_in_other_forms(form: str, tz: str | None, text: Any) -> None:
    assert formatted(date(2026, 3, 31), form, tz) == text


def test_a_time_without_a_zone_is_written_as_it_is() -> None:
    assert formatted(datetime(2026, 3, 31, 2), "%H", BERLIN) == "02"  # noqa: DTZ001
    assert formatted(datetime(1970, 1, 1, 0, 0, 2), "epoch", None) == 2  # noqa: DTZ001


def test_a_form_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="'epochs'"):
        formatted(MOMENT, "epochs", None)
    with pytest.raises(TypeError, match="not a point in time"):
        formatted(5, "iso", None)


def test_an_end_in_seconds_reads_the_row_in_the_last_one_and_track_leaves_the_others() -> None:
    end = datetime(2026, 1, 1, 0, 0, 10, 700_000, tzinfo=UTC)
    stamps = [end - timedelta(milliseconds=100), end + timedelta(milliseconds=100)]
    mark = watermark(NUMBERS, initial=end - timedelta(hours=1), now=lambda: end, delay=NO_DELAY)
    window = mark.begin(a_try().context)
    given = [{"at": stamp} for stamp in stamps if stamp.timestamp() < float(window.end_as("epoch"))]
    assert [row["at"] for row in window.track(given, "at")] == stamps[:1]


def test_the_bounds_are_shown_in_the_cursors_zone() -> None:
    mark = watermark(
        NUMBERS, initial="2026-07-01T00:00:00Z", cursor=Cursor.datetime(tz=BERLIN), now=lambda: MOMENT, delay=NO_DELAY
    )
    assert mark.begin(a_try().context).start.isoformat() == "2026-07-01T02:00:00+02:00"


def test_a_summary_is_json() -> None:
    first = a_try()
    window = load(first, numbers(Counter(10), nulls="skip", lookback=2), track(3, 4, None, 12))
    assert window.summary() == {
        "from": "0",
        "to": "10",
        "rows": 2,
        "late": 0,
        "nulls": 1,
        "future": 1,
        "known": 0,
        "max": "4",
    }
    again = load(first.next_run(), numbers(Counter(12), lookback=2), track(8, 9, 10, 11))
    assert (again.start, again.summary()["late"]) == (8, 2)


# --- slices ---------------------------------------------------------------------------------------------------


def slices(step: int, *, seen: list[Any], die_in: int | None = None) -> Any:
    def body(window: Window[int]) -> None:
        for piece in window.split(step):
            seen.append(bounds(piece))
            if piece.start == die_in:
                raise BodyFailedError

    return body


def test_slices_are_committed_one_by_one_and_a_retry_goes_on_at_the_first_that_is_not() -> None:
    first, mark = a_try(), numbers(Counter(10))
    seen: list[Any] = []
    break_down(first, mark, slices(4, seen=seen, die_in=4))
    assert seen == [(0, 4), (4, 8)]
    assert (stands(first), first.task_store.values[WINDOW]["done"]) == ("4", "4")
    seen.clear()
    window = load(first.retry(), mark, slices(4, seen=seen))
    assert (seen, window.is_retry, stands(first)) == ([(4, 8), (8, 10)], True, "10")


def test_another_run_goes_on_where_the_slices_ended() -> None:
    first, mark = a_try(), numbers(Counter(10))
    break_down(first, mark, slices(4, seen=[], die_in=4))
    assert bounds(load(first.next_run(), mark)) == (4, 10)


def test_a_cleared_run_loads_all_of_its_slices_again() -> None:
    first, mark = a_try(), numbers(Counter(10))
    load(first, mark, slices(4, seen=[]))
    seen: list[Any] = []
    load(first.clear(), mark, slices(4, seen=seen))
    assert seen == [(0, 4), (4, 8), (8, 10)]


def test_what_failed_in_a_slice_holds_the_mark_back() -> None:
    def body(window: Window[int]) -> None:
        for piece in window.split(4):
            if piece.start == 4:
                piece.fail_from(5)

    first = a_try()
    load(first, numbers(Counter(12)), body)
    assert stands(first) == "5"


def test_what_failed_in_the_whole_window_holds_back_every_slice() -> None:
    def body(window: Window[int]) -> None:
        for _ in window.split(4):
            window.fail_from(2)

    first = a_try()
    break_down(first, numbers(Counter(12)), body)
    assert stands(first) == "2"


def test_a_slice_that_says_how_far_it_came_holds_the_mark_there() -> None:
    def body(window: Window[int]) -> None:
        for piece in window.split(4):
            piece.advance(3)

    first = a_try()
    load(first, numbers(Counter(12)), body)
    assert stands(first) == "3"


def test_explicit_slices_say_how_far_they_came_each() -> None:
    first, mark = a_try(), numbers(Counter(12), advance="explicit")

    def body(window: Window[int]) -> None:
        for piece in window.split(5):
            piece.advance(piece.end)

    load(first, mark, body)
    assert stands(first) == "12"


def test_a_sampled_slice_ends_the_committing() -> None:
    def body(window: Window[int]) -> None:
        for piece in window.split(4):
            if piece.start == 4:
                piece.sampled()

    first = a_try()
    load(first, numbers(Counter(12)), body)
    assert stands(first) == "4"


def test_ties_of_a_slice_are_none_at_its_end() -> None:
    """The mark stands at the slice's end then, and no row there is loaded."""
    first, mark = a_try(), numbers(Counter(12), advance="observed")

    def body(window: Window[int]) -> None:
        for piece in window.split(4):
            if piece.start == 4:
                raise BodyFailedError
            list(piece.track(rows(3), "n", unique=True))

    break_down(first, mark, body)
    got: list[Any] = []
    load(first.next_run(), mark, lambda window: got.extend(track(4, unique=True)(window)))
    assert got == [4]


def test_rows_after_the_end_of_a_slice_are_left_to_the_next() -> None:
    first = a_try()
    got: list[Any] = []

    def body(window: Window[int]) -> None:
        for piece in window.split(5):
            got.append(track(*range(piece.start, 10))(piece))  # noqa: PERF401

    window = load(first, numbers(Counter(10)), body)
    assert got == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert window.summary()["rows"] == 10


@pytest.mark.parametrize(("step", "error"), [(0, ValueError), (-1, ValueError), (0.5, TypeError)])
def test_a_step_that_leads_nowhere_is_refused(step: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        load(a_try(), numbers(Counter(10)), lambda window: list(window.split(step)))


def test_a_window_without_an_end_cannot_be_split() -> None:
    with pytest.raises(WatermarkError, match="no end"):
        numbers().begin(a_try().context).split(5)


def test_a_slice_is_not_staged() -> None:
    window = numbers(Counter(10)).begin(a_try().context)
    with pytest.raises(WatermarkError, match="committed by itself"):
        next(window.split(5)).stage()


def test_an_empty_window_has_no_slices() -> None:
    first = a_try()
    load(first, numbers(Counter(0)), lambda window: list(window.split(5)))
    assert marks(first)[MARK]["at"] == "0"


# --- several columns, the first of which is a time --------------------------------------------------------------


def changes(clock: Any, **options: Any) -> Any:
    """By changed_at and id."""
    initial, cursor = (at_second(0), 0), Cursor.keyset(Cursor.datetime(), Cursor.int())
    return watermark(NUMBERS, **{"initial": initial, "cursor": cursor, "now": clock, "advance": "observed", **options})


def at_second(second: int) -> datetime:
    return datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)


def pairs(*values: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"k": (at_second(second), number)} for second, number in values]


def loaded_of(window: Window[Any], *values: tuple[int, int]) -> list[tuple[int, int]]:
    return [(row["k"][0].second, row["k"][1]) for row in window.track(pairs(*values), "k", unique=True, ordered=True)]


def test_the_delay_of_a_keyset_is_that_of_its_first_column() -> None:
    first = a_try()
    clock = Counter()
    clock.number = at_second(10)  # type: ignore[assignment]
    mark = changes(clock, delay=timedelta(seconds=4))
    with mark.open(first.context) as window:
        assert bounds(window) == ((at_second(0), 0), (at_second(6),))
        assert loaded_of(window, (1, 5), (5, 10**9), (6, -(10**9)), (6, 1), (9, 0)) == [(1, 5), (5, 10**9)]
    first.succeed()
    assert window.tally.future == 3
    assert stands(first) == [at_second(5).isoformat(), str(10**9)]
    assert first.task_store.values["resume.window.numbers~~watermark"]["to"] == [at_second(6).isoformat()]
    clock.number = at_second(20)  # type: ignore[assignment]
    second = first.next_run()
    with mark.open(second.context) as window:
        # The row at the mark is passed over, and what became visible beside it in the meantime is not.
        assert loaded_of(window, (5, 10**9), (6, -(10**9)), (6, 1), (9, 0)) == [(6, -(10**9)), (6, 1), (9, 0)]
    assert stands(second) == [at_second(9).isoformat(), "0"]


def test_a_keyset_whose_mark_has_come_to_the_ceiling_is_empty() -> None:
    mark = changes(lambda: at_second(10), initial=(at_second(6),), delay=timedelta(seconds=4))
    assert mark.begin(a_try().context).empty
    later = changes(lambda: at_second(10), initial=(at_second(6), 0), delay=timedelta(seconds=4))
    assert later.begin(a_try().context).empty


def test_without_a_delay_a_keyset_has_no_end_as_before() -> None:
    with pytest.warns(WatermarkWarning, match="no delay="):
        mark = changes(None)
    assert not mark.begin(a_try().context).has_end


@pytest.mark.parametrize("advance", [None, "observed"])
def test_by_default_a_keyset_goes_to_what_was_seen(advance: Any) -> None:
    first = a_try()
    mark = changes(None, advance=advance, delay=timedelta(seconds=4))
    with mark.open(first.context) as window:
        assert window.end < (datetime.now(tz=UTC),)
        loaded_of(window, (1, 5))
    assert stands(first) == [at_second(1).isoformat(), "5"]


def test_a_keyset_may_go_to_the_end_of_its_window() -> None:
    first = a_try()
    mark = changes(lambda: at_second(10), advance="window", delay=timedelta(seconds=4))
    load(first, mark)
    assert stands(first) == [at_second(6).isoformat()]
    assert first.context["outlet_events"][NUMBERS].extra["watermark"]["watermark"]["to"] == [at_second(6).isoformat()]
    assert mark.begin(first.next_run().context).empty


def test_the_largest_window_of_a_keyset_and_its_slices_are_counted_by_the_first_column() -> None:
    first = a_try()
    mark = changes(lambda: at_second(20), delay=timedelta(0), max_span=timedelta(seconds=4))
    assert bounds(load(first, mark, lambda window: list(window.track([], "k")))) == (
        (at_second(0), 0),
        (at_second(4),),
    )
    second = first.next_run()
    with mark.open(second.context) as window:
        slices = [bounds(piece) for piece in window.split(timedelta(seconds=3)) if list(piece.track([], "k")) == []]
    assert slices == [((at_second(4),), (at_second(7),)), ((at_second(7),), (at_second(8),))]
    assert stands(second) == [at_second(8).isoformat()]


def test_the_lookback_of_a_keyset_is_that_of_its_first_column() -> None:
    first = a_try()
    mark = changes(lambda: at_second(20), delay=timedelta(0), lookback=timedelta(seconds=3))
    load(first, mark, lambda window: window.observe((at_second(10), 7)))
    window = mark.begin(first.next_run().context)
    assert bounds(window) == ((at_second(7),), (at_second(20),))
    assert loaded_of(window, (7, 0), (9, 1)) == [(7, 0), (9, 1)]
    assert window.tally.late == 2


def test_a_backfill_of_a_keyset_loads_its_interval_by_the_first_column() -> None:
    attempt = a_try()
    attempt.context["dag_run"].run_type = "backfill"
    attempt.context["data_interval_start"], attempt.context["data_interval_end"] = at_second(2), at_second(3)
    mark = changes(lambda: at_second(20), delay=timedelta(0))
    assert bounds(mark.begin(attempt.context)) == ((at_second(2),), (at_second(3),))


def test_a_bound_of_the_first_column_is_no_row() -> None:
    mark = changes(lambda: at_second(20), delay=timedelta(0))
    window = mark.begin(a_try().context)
    with pytest.raises(CursorTypeError, match="Give 2"):
        window.observe((at_second(1),))
    with pytest.raises(CursorTypeError, match="Give 2"):
        list(window.track([{"k": (at_second(1),)}], "k"))


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("start", "end", "found"),
    [
        ((2,), (4,), [(2, "a"), (2, "b"), (2, None), (3, "a"), (3, "b")]),
        ((2, "b"), (4,), [(2, "b"), (3, "a"), (3, "b")]),
        ((2,), (3, "b"), [(2, "a"), (2, "b"), (2, None), (3, "a")]),
    ],
)
def test_a_bound_of_the_first_column_is_one_in_the_condition(
    database: Any, style: Any, start: Any, end: Any, found: list[tuple[int, str | None]]
) -> None:
    mark = watermark(NUMBERS, initial=start, cursor=Cursor.keyset(Cursor.int(), Cursor.text()), now=lambda: end)
    assert executed(database, mark.begin(a_try().context), ["n", "m"], style) == found
