"""Records that no attempt wrote: each field of a stored value replaced, left out, or taken from another record."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Iterator, Sequence
from typing import Any

Path = tuple[Any, ...]

DEEP: Any = 1
for _ in range(60):
    DEEP = [DEEP]

HOSTILE: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    3,
    -1,
    -(2**63),
    2**63,
    2**64 - 1,
    2.0,
    math.nan,
    math.inf,
    "-0",
    1.5,
    -0.5,
    1e308,
    "",
    "x",
    "0",
    "2",
    "-7",
    "1e999999",
    "NaN",
    "Infinity",
    "9" * 5_000,
    "٣",
    "\u202e\u200b\x1b[2J\nforged",
    "2026-01-01",
    "2026-01-01T00:00:00",
    "2026-01-01T00:00:00+00:00",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "2026-02-30T25:61:00Z",
    "submitted",
    "terminal",
    "failed",
    "succeeded",
    "pending",
    "committed",
    "claimed",
    "initial",
    "rewind",
    [],
    [1],
    ["x", "y"],
    [["1", "2"], ["3"]],
    {},
    {"a": 1},
    {"": None},
    {"index": 1},
    {"page": {"page": 1}, "index": 1, "of": 1},
    {"~datetime": "garbage"},
    {"~datetime": 7},
    {"~datetime": "2026-01-01T00:00:00"},
    {"~date": []},
    {"~decimal": "garbage"},
    {"~decimal": "sNaN"},
    {"~decimal": {}},
    {"~uuid": "garbage"},
    {"~uuid": 1.5},
    {"~bytes": "garbage!"},
    {"~bytes": 5},
    {"~tuple": 7},
    {"~tuple": {"a": 1}},
    {"~tuple": [{"~uuid": None}]},
    {"~dict": 3},
    {"~dict": [1]},
    DEEP,
]
"""Each type of JSON with its extremes, words that occur elsewhere in records, and invalid tagged values."""

DELETED: Any = object()


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """The place of everything inside a value, that of the value itself first."""
    yield at
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, inner in members:
        yield from paths(inner, (*at, name))


def at(value: Any, path: Path) -> Any:
    """The value at a path."""
    for name in path:
        value = value[name]
    return value


def put(value: Any, path: Path, other: Any) -> Any:
    """A copy with another value at a path, or without it."""
    if not path:
        return copy.deepcopy(other)
    made = copy.deepcopy(value)
    try:
        holder = at(made, path[:-1])
        if other is DELETED:
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(other)
    except (LookupError, TypeError):  # another damage has taken the place away
        pass
    return made


def singles(record: Any, missing: Sequence[str] = ()) -> Iterator[tuple[list[tuple[Path, Any]], Any]]:
    """Each path with each hostile value, or removed; also the fields that this record leaves out."""
    for path in [*paths(record), *((name,) for name in missing if name not in record)]:
        for other in [*HOSTILE, *([DELETED] if path else [])]:
            yield [(path, other)], put(record, path, other)


def pairs(
    record: Any, missing: Sequence[str], count: int, chance: random.Random
) -> Iterator[tuple[list[tuple[Path, Any]], Any]]:
    """This many pairs of paths with a hostile value each."""
    places = [*paths(record)][1:] + [(name,) for name in missing if name not in record]
    for _ in range(count):
        done, made = [], record
        for _ in range(2):
            path, other = chance.choice(places), chance.choice([*HOSTILE, DELETED])
            made = put(made, path, other)
            done.append((path, other))
        yield done, made


def mixtures(records: Sequence[Any], count: int, chance: random.Random) -> Iterator[tuple[list[tuple[Path, Any]], Any]]:
    """Records of which every field comes from one of two."""
    for _ in range(count):
        one, other = chance.choice(records), chance.choice(records)
        if not (isinstance(one, dict) and isinstance(other, dict)):
            continue
        made, done = copy.deepcopy(one), []
        for name in other.keys() | one.keys():
            if chance.random() < 0.5 and one.get(name, DELETED) != other.get(name, DELETED):
                made = put(made, (name,), other.get(name, DELETED))
                done.append(((name,), other.get(name, DELETED)))
        yield done, made
