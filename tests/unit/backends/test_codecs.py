"""Encrypted values: nothing in plain text, a wrong key is an error by name, and keys can be changed under way."""

from __future__ import annotations

import base64
import json
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from airflow.sdk.state import TaskScope
from cryptography.fernet import Fernet
from sqlalchemy import create_engine, make_url, text

from airflow_resume.backends import SqlStateStore, SqlStoreBackend
from airflow_resume.backends.dialects.sqlite import Sqlite
from airflow_resume.backends.rows import rotation
from airflow_resume.backends.values.codecs import PREFIX, Cipher, Codec
from airflow_resume.errors import BackendSettingError, CodecError, UnreadableRecordError

KEYS = "AIRFLOW__CORE__FERNET_KEY"
SCOPE = TaskScope(dag_id="dag", run_id="run", task_id="task")
SECRET = "hunter2secret"  # noqa: S105  a value
OLD, NEW, OTHER = (base64.urlsafe_b64encode(bytes([number]) * 32).decode() for number in (1, 2, 3))

Open = Callable[..., SqlStoreBackend]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'state.db'}"


@pytest.fixture
def opened(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """A backend with these keys."""
    backends: list[SqlStoreBackend] = []

    def open_one(keys: str = OLD, codec: Codec | str | None = "fernet", **options: Any) -> SqlStoreBackend:
        monkeypatch.setenv(KEYS, keys)
        backends.append(SqlStoreBackend(url, codec=codec, **options))
        if codec == "fernet":
            _ = backends[-1]._values.cipher._codec  # with the keys of now
        return backends[-1]

    yield open_one
    for backend in backends:
        backend.close()


def execute(url: str, statement: str, **values: object) -> list[Any]:
    engine = create_engine(make_url(url))
    with engine.begin() as connection:
        done = connection.execute(text(statement), values)
        rows = list(done) if done.returns_rows else []
    engine.dispose()
    return rows


def kept(url: str, table: str = "state") -> list[str]:
    return [value for (value,) in execute(url, f"SELECT value FROM airflow_resume_{table} ORDER BY id")]  # noqa: S608


class Mirror:
    """Writes backwards."""

    def encode(self, text: str) -> str:
        return text[::-1]

    def decode(self, text: str) -> str:
        return text[::-1]


MIRROR = Mirror()
NOTHING = object()


# --- what is kept ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["fernet", f"{__name__}.MIRROR", f"{__name__}:Mirror", MIRROR])
def test_nothing_is_kept_in_plain_text_and_everything_comes_back(opened: Open, url: str, codec: Any) -> None:
    store = SqlStateStore(opened(codec=codec, keep_versions=3), "scope")
    store.set("key", {"secret": SECRET})
    store.set_many({"a": SECRET, "é": [SECRET, 2**60]})
    seen = store.history("key")[0]
    assert store.compare_and_set("key", seen.version, SECRET * 2)
    assert (store.get("key"), store.get("a"), store.get("é")) == (SECRET * 2, SECRET, [SECRET, 2**60])
    assert [version.value for version in store.history("key")] == [SECRET * 2, {"secret": SECRET}]
    assert store.scan("") == ["a", "key", "é"]
    all_kept = [*kept(url), *kept(url, "history")]
    assert len(all_kept) == 7
    assert all(value.startswith(f"{PREFIX}1:") and SECRET not in value for value in all_kept)


def test_what_airflow_keeps_is_the_cipher_text_or_a_reference(opened: Open) -> None:
    backend = opened()
    for value, begins in ((SECRET, f"{PREFIX}1:gAAAA"), (SECRET * 1000, "airflow-resume:1:")):
        shown = backend.serialize_task_state_store_to_ref(value=value, key="key", scope=SCOPE)
        assert shown.startswith(begins)
        assert SECRET not in shown
        assert backend.deserialize_task_state_store_from_ref(shown) == value
        assert backend.deserialize_asset_state_store_from_ref(shown) == value


def test_what_was_kept_before_there_was_a_codec_is_read_and_written_encrypted(opened: Open, url: str) -> None:
    plain = SqlStateStore(opened(codec=None), "scope")
    plain.set("key", SECRET)
    inline = '{"page": 3}'
    store = SqlStateStore(opened(), "scope")
    assert store.get("key") == SECRET
    assert opened().deserialize_task_state_store_from_ref(inline) == {"page": 3}
    store.set("key", SECRET)
    assert SECRET not in "".join(kept(url))


@pytest.mark.parametrize("codec", [None, "fernet"])
def test_a_text_that_begins_like_an_encrypted_one_is_kept_like_any_other(opened: Open, codec: str | None) -> None:
    backend = opened(codec=codec)
    for text_ in (f"{PREFIX}1:x", f"{PREFIX}0:x", PREFIX, f"{PREFIX}2:x"):
        backend.set(SCOPE, "key", text_)
        assert backend.get(SCOPE, "key") == text_


# --- what cannot be decrypted ---------------------------------------------------------------------------------


def assert_refused(backend: SqlStoreBackend, words: str, *, key: str = "key") -> None:
    reference = f"airflow-resume:1:{backend.store_id}:{{}}:{key}"
    for ask in (
        lambda: backend.get(SCOPE, key),
        lambda: backend.history(SCOPE, key),
        lambda: SqlStateStore(backend, SCOPE).get(key),
        lambda: backend.deserialize_task_state_store_from_ref(reference.format(scope_hash(backend, key))),
    ):
        with pytest.raises(CodecError, match=words) as caught:
            ask()
        assert f"The value of '{key}'" in caught.value.message
        assert SECRET not in "".join(traceback.format_exception(caught.value))


def scope_hash(backend: SqlStoreBackend, key: str) -> str:
    (found,) = execute(
        backend._database.url.render_as_string(hide_password=False),
        "SELECT scope_hash FROM airflow_resume_state WHERE key = :key",
        key=key,
    )
    return str(found[0])


@pytest.mark.parametrize("policy", ["raise", "missing"])
def test_a_wrong_key_is_an_error_by_name_and_never_missing(opened: Open, policy: str) -> None:
    backend = opened()
    backend.set(SCOPE, "key", json.dumps(SECRET))
    shown = backend.serialize_task_state_store_to_ref(value=SECRET, key="small", scope=SCOPE)
    assert_refused(opened(OTHER, on_dangling=policy), "the key is another one, or it is damaged")
    assert_refused(opened(codec=None, on_dangling=policy), "is encrypted, and no codec is configured here")
    for other in (opened(OTHER), opened(codec=None)):
        with pytest.raises(CodecError, match="A value inline in Airflow"):
            other.deserialize_task_state_store_from_ref(shown)


def test_a_value_that_was_copied_to_another_key_or_scope_is_refused(opened: Open, url: str) -> None:
    backend = opened()
    backend.set(SCOPE, "from", json.dumps(SECRET))
    backend.set(SCOPE, "key", "1")
    shown = backend.serialize_task_state_store_to_ref(value=SECRET, key="small", scope=SCOPE)
    for stolen in (kept(url)[0], shown):
        execute(url, "UPDATE airflow_resume_state SET value = :value WHERE key = 'key'", value=stolen)
        assert_refused(backend, "the encrypted value of another key")
    with pytest.raises(CodecError, match="the encrypted value of another key"):
        backend.deserialize_task_state_store_from_ref(kept(url)[0])


def test_a_damaged_value_is_refused_wherever_it_is_damaged(opened: Open, url: str) -> None:
    backend = opened()
    backend.set(SCOPE, "key", json.dumps(SECRET))
    (whole,) = kept(url)
    begin = len(f"{PREFIX}1:")
    # Of the last letters some bits mean nothing in base64, so another one there may be the same value.
    for at in range(begin, len(whole.rstrip("=")) - 1, 7):
        damaged = whole[:at] + ("A" if whole[at] != "A" else "B") + whole[at + 1 :]
        execute(url, "UPDATE airflow_resume_state SET value = :value", value=damaged)
        with pytest.raises(CodecError):
            backend.get(SCOPE, "key")
    for cut in (whole[:begin], whole[:-1], whole.replace(":1:", ":2:", 1)):
        execute(url, "UPDATE airflow_resume_state SET value = :value", value=cut)
        with pytest.raises(CodecError):
            backend.get(SCOPE, "key")


def test_a_text_that_is_no_value_is_not_shown_where_values_are_encrypted(opened: Open) -> None:
    backend = opened()
    backend.set(SCOPE, "key", f"no JSON, {SECRET}")
    with pytest.raises(UnreadableRecordError) as caught:
        SqlStateStore(backend, SCOPE).get("key")
    assert SECRET not in "".join(traceback.format_exception(caught.value))


# --- codecs that are none -------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", ["", "{FERNET_KEY}"])
def test_without_a_key_it_says_that_there_is_none(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, keys)
    backend = SqlStoreBackend("sqlite://", codec="fernet")
    with closing(backend), pytest.raises(BackendSettingError, match="has no key here"):
        backend.set(SCOPE, "key", "1")


@pytest.mark.parametrize("keys", ["", "no key", f"{OLD},no key"])
def test_a_key_that_is_none_is_an_error_and_not_shown(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(KEYS, keys)
    backend = SqlStoreBackend("sqlite://", codec="fernet")
    with closing(backend), pytest.raises(BackendSettingError, match=r"fernet_key|no key here") as caught:
        backend.set(SCOPE, "key", "1")
    printed = "".join(traceback.format_exception(caught.value))
    assert OLD not in printed
    assert "no key'" not in printed


@pytest.mark.parametrize(
    "path", ["none", "none.such", f"{__name__}.none", f"{__name__}:none", f"{__name__}.NOTHING", f"{__name__}.KEYS"]
)
def test_what_cannot_be_imported_or_is_no_codec_is_an_error(path: str) -> None:
    backend = SqlStoreBackend("sqlite://", codec=path)
    with closing(backend), pytest.raises(BackendSettingError, match="The codec"):
        backend.set(SCOPE, "key", "1")


@pytest.mark.parametrize("inline_bytes", [0, 4_096], ids=["row", "inline"])
def test_an_error_of_a_codec_says_where_the_value_is(url: str, inline_bytes: int) -> None:
    with closing(SqlStoreBackend(url, codec=MIRROR, inline_bytes=inline_bytes)) as backend:
        stored = backend.serialize_task_state_store_to_ref(value=[1], key="key", scope=SCOPE)
    with closing(SqlStoreBackend(url, inline_bytes=inline_bytes)) as plain:
        with pytest.raises(CodecError, match="no codec is configured here") as raised:
            plain.deserialize_task_state_store_from_ref(stored)
        assert raised.value.fields == {"where": url.replace("sqlite:", "sqlite+pysqlite:"), "codec": None}


def test_an_object_without_the_methods_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no methods encode and decode"):
        SqlStoreBackend("sqlite://", codec=NOTHING)  # type: ignore[arg-type]


class Failing(Mirror):
    def encode(self, text: str) -> str:
        raise ValueError("no entropy")


class Bytes(Mirror):
    def encode(self, text: str) -> Any:
        return text.encode()


class WithNul(Mirror):
    def encode(self, text: str) -> str:
        return f"\0{text}"


class WithHalf(Mirror):
    def encode(self, text: str) -> str:
        return f"\ud800{text}"


@pytest.mark.parametrize(
    ("codec", "words"),
    [
        (Failing(), r"\(Failing raised ValueError\)"),
        (Bytes(), "bytes, not str"),
        (WithNul(), "NUL"),
        (WithHalf(), "half a surrogate pair"),
    ],
)
def test_a_codec_that_fails_is_an_error_and_nothing_is_written(codec: Codec, words: str) -> None:
    with closing(SqlStoreBackend("sqlite://", codec=codec)) as backend:
        with pytest.raises(CodecError, match=words):
            backend.set(SCOPE, "key", json.dumps(SECRET))
        assert backend.get(SCOPE, "key") is None
        with pytest.raises(CodecError, match=words):
            backend.serialize_task_state_store_to_ref(value=SECRET, key="small", scope=SCOPE)


class Telling(Mirror):
    """Tells in its errors what it was given."""

    def encode(self, text: str) -> str:
        raise ValueError(f"cannot encode {text} with {OLD}")

    def decode(self, text: str) -> str:
        raise ValueError(f"cannot decode {text[::-1]} with {OLD}")


class TellingWhetherItIsCurrent(Mirror):
    def is_current(self, text: str) -> bool:
        raise ValueError(f"{text[::-1]} with {OLD}")


def assert_silent(error: BaseException) -> None:
    """Neither a value nor a key, in the error or in what it comes from."""
    seen: BaseException | None = error
    printed = "".join(traceback.format_exception(error))
    while seen is not None:
        printed += f"{seen!r} {seen}"
        seen = seen.__cause__ or seen.__context__
    assert SECRET not in printed
    assert OLD not in printed


def test_what_a_codec_says_in_its_errors_is_not_shown(opened: Open) -> None:
    opened(codec=MIRROR).set(SCOPE, "key", json.dumps(SECRET))
    backend = opened(codec=Telling())
    calls: list[Callable[[], object]] = [
        lambda: backend.set(SCOPE, "other", json.dumps(SECRET)),
        lambda: backend.get(SCOPE, "key"),
    ]
    for ask in calls:
        with pytest.raises(CodecError, match=r"\(Telling raised ValueError\)") as caught:
            ask()
        assert_silent(caught.value)


def test_a_codec_that_cannot_tell_what_is_current_fails_row_by_row(opened: Open) -> None:
    fill(opened(codec=MIRROR), count=2)
    report = opened(codec=TellingWhetherItIsCurrent()).rotate()
    assert (report.rotated, len(report.failures)) == (0, 2)
    assert "TellingWhetherItIsCurrent raised ValueError" in report.failures[0]
    assert OLD not in str(report)


def needs_keys() -> Codec:
    raise ValueError(f"no key like {OLD}")


@pytest.mark.parametrize("keys", [OLD, f"{OLD},{NEW}", f"vault.{OLD}", "FERNET", ".", "a.b-c", "a..b", " fernet.x"])
def test_a_text_that_is_no_path_is_not_shown_as_it_may_be_a_key(keys: str) -> None:
    backend = SqlStoreBackend("sqlite://", codec=keys)
    assert repr(backend._values.cipher) == "<Cipher str>"
    with closing(backend), pytest.raises(BackendSettingError, match="neither fernet nor") as caught:
        backend.set(SCOPE, "key", "1")
    assert_silent(caught.value)
    assert f"{keys!r}" not in str(caught.value)


def test_an_object_that_is_no_codec_is_named_by_its_type() -> None:
    for given in (OLD.encode(), [OLD], {"key": OLD}):
        with pytest.raises(TypeError, match=f"codec is a {type(given).__name__}, which has no methods") as caught:
            SqlStoreBackend("sqlite://", codec=given)  # type: ignore[arg-type]
        assert_silent(caught.value)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"{__name__}.needs_keys", "to make it raised ValueError"),
        (f"{__name__}.none", "has no 'none'"),
        ("no_such_package.Codec", "No module named 'no_such_package'"),
    ],
)
def test_why_a_codec_cannot_be_had_is_said_without_what_it_says(path: str, words: str) -> None:
    with closing(SqlStoreBackend("sqlite://", codec=path)) as backend:
        with pytest.raises(BackendSettingError, match=words) as caught:
            backend.set(SCOPE, "key", "1")
        assert path in caught.value.message
        assert_silent(caught.value)


class Garbled(Mirror):
    def decode(self, text: str) -> str:
        return f"{SECRET}: no such text"


def test_a_codec_that_does_not_give_back_what_it_was_given_is_blamed_for_it(opened: Open) -> None:
    opened(codec=MIRROR).set(SCOPE, "key", json.dumps(SECRET))
    with pytest.raises(CodecError, match="Garbled gave back another text than was encrypted") as caught:
        opened(codec=Garbled()).get(SCOPE, "key")
    assert_silent(caught.value)


def test_the_advice_on_old_keys_is_for_what_is_decrypted(opened: Open) -> None:
    opened(codec=MIRROR).set(SCOPE, "key", json.dumps(SECRET))
    with pytest.raises(CodecError, match="Keep old keys"):
        opened(codec=Telling()).get(SCOPE, "key")
    with pytest.raises(CodecError, match="See whether its keys are there"):
        opened(codec=Telling()).set(SCOPE, "key", "1")


def test_a_cipher_does_not_show_its_keys() -> None:
    assert repr(Cipher("fernet")) == "<Cipher fernet>"
    assert repr(Cipher(None)) == "<Cipher none>"
    assert repr(Cipher(MIRROR)) == "<Cipher Mirror>"


# --- keys that change -----------------------------------------------------------------------------------------


def fill(backend: SqlStoreBackend, *, count: int = 7) -> None:
    for number in range(count):
        for version in range(2):
            backend.set(SCOPE, f"key{number}", json.dumps([SECRET, number, version]))


def values(backend: SqlStoreBackend, *, count: int = 7) -> list[Any]:
    return [[version.value for version in backend.history(SCOPE, f"key{number}")] for number in range(count)]


def test_all_values_and_their_versions_are_encrypted_anew_and_stay_the_same(opened: Open, url: str) -> None:
    fill(opened(codec=None, keep_versions=2), count=2)
    fill(opened(keep_versions=2))
    before = values(opened(keep_versions=2))
    versions = execute(url, "SELECT key, version, updated_us FROM airflow_resume_state ORDER BY id")
    both = opened(f"{NEW},{OLD}", keep_versions=2)
    assert values(both) == before
    report = both.rotate()
    assert (report.rotated, report.current, report.failures) == (21, 0, [])
    assert values(opened(NEW, keep_versions=2)) == before
    assert execute(url, "SELECT key, version, updated_us FROM airflow_resume_state ORDER BY id") == versions
    again = both.rotate()
    assert (again.rotated, again.current) == (0, 21)


def test_it_may_be_killed_anywhere_and_run_again(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened(keep_versions=2))
    before = values(opened(keep_versions=2))
    both = opened(f"{NEW},{OLD}", keep_versions=2)
    writing, left = rotation._writing, iter(range(100))

    def dying(*given: Any) -> Any:
        if next(left) % 4 == 3:
            raise KeyboardInterrupt
        return writing(*given)

    monkeypatch.setattr(rotation, "_writing", dying)
    deaths = 0
    while True:
        try:
            both.rotate()
        except KeyboardInterrupt:
            deaths += 1
            assert values(both) == before
        else:
            break
    assert deaths == 6
    assert values(opened(NEW, keep_versions=2)) == before


def test_a_value_that_is_written_meanwhile_is_not_written_over(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(opened())
    both, writer = opened(f"{NEW},{OLD}"), opened(f"{NEW},{OLD}")
    writing = rotation._writing

    def late(table: Any, row: Any, value: str) -> Any:
        """Between the reading and the writing of each row somebody else writes it, or deletes it."""
        if row.id % 2:
            writer.set(SCOPE, f"key{row.id - 1}", '"newer"')
        else:
            writer.delete(SCOPE, f"key{row.id - 1}")
        return writing(table, row, value)

    monkeypatch.setattr(rotation, "_writing", late)
    assert both.rotate().rotated == 0
    found = [both.get(SCOPE, f"key{number}") for number in range(7)]
    assert found == ['"newer"', None, '"newer"', None, '"newer"', None, '"newer"']


def test_writers_and_two_at_once_lose_nothing(opened: Open) -> None:
    fill(opened())
    keys, last = f"{NEW},{OLD}", dict[str, int]()
    backends = [opened(keys) for _ in range(4)]

    def write(backend: SqlStoreBackend, mine: range) -> None:
        for turn in range(20):
            for number in mine:
                backend.set(SCOPE, f"key{number}", json.dumps(turn))
                last[f"key{number}"] = turn

    threads = [
        Thread(target=write, args=(backends[0], range(3))),
        Thread(target=write, args=(backends[1], range(3, 6))),
        Thread(target=backends[2].rotate),
        Thread(target=backends[3].rotate),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    backends[0].rotate()
    only_new = opened(NEW)
    assert {key: json.loads(only_new.get(SCOPE, key) or "") for key in last} == last
    assert only_new.get(SCOPE, "key6") == json.dumps([SECRET, 6, 1])


def test_what_cannot_be_decrypted_is_told_and_stays(opened: Open, url: str) -> None:
    opened(OTHER).set(SCOPE, "strange", json.dumps(SECRET))
    fill(opened(), count=1)
    before = kept(url)[0]
    report = opened(f"{NEW},{OLD}").rotate()
    assert (report.rotated, len(report.failures), kept(url)[0]) == (1, 1, before)
    assert "cannot be decrypted" in str(report)
    assert "'strange' in dag_id=dag" in report.failures[0]


def test_a_row_that_the_database_refuses_is_told_and_the_others_go_on(opened: Open, url: str) -> None:
    plain = opened(codec=None, keep_versions=2)
    fill(plain, count=3)
    for table in ("state", "history"):
        execute(
            url,
            f"CREATE TRIGGER refuse_{table} BEFORE UPDATE ON airflow_resume_{table} WHEN OLD.id = 2"
            " BEGIN SELECT RAISE(ABORT, 'not this one'); END",
        )
    report = opened(keep_versions=2).rotate()
    assert (report.rotated, len(report.failures)) == (7, 2)
    for failure, key in zip(report.failures, ("key1", "key0"), strict=True):
        assert f"'{key}' in dag_id=dag" in failure
        assert "not this one" in failure
    assert "2 were left as they were" in str(report)
    assert [SECRET in value for value in kept(url)] == [False, True, False]


def test_a_row_that_is_no_text_is_told_and_the_others_go_on(opened: Open, url: str) -> None:
    fill(opened(codec=None), count=2)
    execute(url, "UPDATE airflow_resume_state SET value = x'00ff' WHERE key = 'key0'")
    report = opened().rotate()
    assert (report.rotated, len(report.failures)) == (1, 1)
    assert "is no text" in report.failures[0]


def test_a_version_of_a_key_that_is_gone_is_named_by_its_number(opened: Open, url: str) -> None:
    fill(opened(OTHER, keep_versions=2), count=1)
    execute(url, "DELETE FROM airflow_resume_state")
    assert "the version 1 of a key that is gone: " in opened(keep_versions=2).rotate().failures[0]


@pytest.mark.parametrize("how", ["rotate", "set", "delete"])
def test_a_plain_value_is_erased_where_sqlite_was_built_not_to(
    opened: Open, url: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    autocommit = Sqlite.autocommit

    def built_otherwise(self: Sqlite, connection: Any) -> None:
        autocommit(self, connection)
        connection.execute("PRAGMA secure_delete = OFF")

    monkeypatch.setattr(Sqlite, "autocommit", built_otherwise)
    plain = opened(codec=None)
    plain.set(SCOPE, "key", json.dumps(SECRET * 500))
    plain.close()
    backend = opened()
    if how == "rotate":
        assert backend.rotate().rotated == 1
    elif how == "set":
        backend.set(SCOPE, "key", '"short"')
    else:
        backend.delete(SCOPE, "key")
    backend.close()
    assert SECRET.encode() not in Path(str(make_url(url).database)).read_bytes()


def test_few_large_values_are_in_memory_at_once(opened: Open) -> None:
    plain = opened(codec=None)
    for number in range(60):
        plain.set(SCOPE, f"key{number}", json.dumps("x" * 2**20))
    cipher = opened(codec=MIRROR)
    tracemalloc.start()
    assert cipher.rotate().rotated == 60
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 25 * 2**20


def test_a_codec_of_ones_own_encrypts_anew_what_it_cannot_tell(opened: Open) -> None:
    backend = opened(codec=MIRROR)
    fill(backend, count=3)
    assert (backend.rotate().rotated, backend.rotate().current) == (3, 0)


def test_without_a_codec_there_is_nothing_to_encrypt_with(opened: Open) -> None:
    with pytest.raises(BackendSettingError, match="no codec"):
        opened(codec=None).rotate()


def test_keys_are_those_of_airflow(opened: Open, url: str) -> None:
    """As `airflow rotate-fernet-key` takes them: the first one encrypts."""
    opened(f"{NEW},{OLD}").set(SCOPE, "key", "1")
    (value,) = kept(url)
    assert Fernet(NEW).decrypt(value.removeprefix(f"{PREFIX}1:").encode()).decode().endswith(":1")
