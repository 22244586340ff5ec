from __future__ import annotations

import socket
from collections.abc import Iterator
from itertools import count

import pytest

from holds import Hold, Holds, is_gone


def turns(holds: Holds, path: str, times: int, *, label: str = "a", method: str = "POST") -> list[bool]:
    return [holds.take_turn(method=method, label=label, path=path) is not None for _ in range(times)]


def test_only_the_nth_request_is_held() -> None:
    holds = Holds()
    holds.arm(label="a", path_prefix="/warehouse/", nth=3)
    assert turns(holds, "/warehouse/flights", 5) == [False, False, True, False, False]


def test_requests_before_arming_do_not_count() -> None:
    holds = Holds()
    assert turns(holds, "/jobs", 2) == [False, False]
    holds.arm(label="a", path_prefix="/jobs")
    assert turns(holds, "/jobs", 2) == [True, False]


def test_other_labels_paths_and_methods_do_not_count() -> None:
    holds = Holds()
    holds.arm(label="a", path_prefix="/jobs", method="POST")
    assert turns(holds, "/jobs", 1, label="b") == [False]
    assert turns(holds, "/flights", 1) == [False]
    assert turns(holds, "/jobs", 1, method="GET") == [False]
    assert turns(holds, "/jobs", 1) == [True]


def test_two_holds_count_on_their_own() -> None:
    holds = Holds()
    holds.arm(label="a", path_prefix="/", nth=1)
    holds.arm(label="a", path_prefix="/", nth=3)
    assert turns(holds, "/", 4) == [True, False, True, False]


def test_a_hold_released_before_its_request_holds_nothing() -> None:
    holds = Holds()
    holds.release(holds.arm(label="a", path_prefix="/"))
    assert turns(holds, "/", 2) == [False, False]


@pytest.mark.parametrize("nth", [0, -1])
def test_counting_starts_at_one(nth: int) -> None:
    with pytest.raises(ValueError, match="counts from 1"):
        Holds().arm(label="a", path_prefix="/", nth=nth)


def test_an_unknown_hold_is_a_key_error() -> None:
    holds = Holds()
    assert 0 not in holds
    with pytest.raises(KeyError):
        holds.is_reached(0)


def reached_hold(holds: Holds) -> tuple[int, Hold]:
    hold_id = holds.arm(label="a", path_prefix="/")
    hold = holds.take_turn(method="GET", label="a", path="/")
    assert hold is not None
    return hold_id, hold


def test_a_reply_is_dropped_when_the_client_is_gone() -> None:
    holds = Holds()
    hold_id, hold = reached_hold(holds)
    assert not holds.is_reached(hold_id)
    assert holds.keep_waiting(hold, client_is_gone=lambda: True) is False
    assert holds.is_reached(hold_id)


def test_a_released_reply_is_sent() -> None:
    holds = Holds()
    _, hold = reached_hold(holds)

    def release_meanwhile() -> bool:
        holds.release_all()
        return False

    assert holds.keep_waiting(hold, client_is_gone=release_meanwhile) is True


def test_a_reply_is_sent_when_the_limit_has_passed() -> None:
    ticks = count()
    holds = Holds(limit=3, clock=lambda: next(ticks))
    _, hold = reached_hold(holds)
    assert holds.keep_waiting(hold, client_is_gone=lambda: False) is True
    assert next(ticks) == 4


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield ours, theirs


def test_a_silent_client_is_there(ends: tuple[socket.socket, socket.socket]) -> None:
    assert not is_gone(ends[0])


def test_a_client_that_sends_more_is_there(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].send(b"GET")
    assert not is_gone(ends[0])
    assert ends[0].recv(3) == b"GET"  # looking took nothing


def test_a_client_whose_socket_closed_is_gone(ends: tuple[socket.socket, socket.socket]) -> None:
    ends[1].close()
    assert is_gone(ends[0])
