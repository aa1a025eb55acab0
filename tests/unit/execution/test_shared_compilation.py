"""One of several processes compiles a program: claims, timeouts, failures, what is not trusted."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import pytest

from kiln.base.errors import JaxRuntimeError, PeerError
from kiln.base.options.config import override
from kiln.core.processes.peers import Peers
from kiln.execution import disk_cache, shared_compilation
from kiln.execution.disk_cache import Entry, Folder
from kiln.execution.shared_compilation import Claim, claim, counts, shares

T = TypeVar("T")
NAME = "0123"
ENTRY = Entry("xla", "a reason", "step", 1.5, b"code\n\0of a program")


class Store:
    """The store of the processes, in one."""

    def __init__(self) -> None:
        self.entries: dict[str, Any] = {}
        self.changed = threading.Condition()

    def set(self, key: str, value: Any) -> None:
        with self.changed:
            self.entries[key] = value
            self.changed.notify_all()

    set_bytes = set

    def set_first(self, key: str, value: str) -> bool:
        with self.changed:
            is_first = key not in self.entries
            self.entries.setdefault(key, value)
            return is_first

    def bytes_of(self, key: str) -> bytes | None:
        return self.entries.get(key)

    def wait(self, key: str, seconds: float) -> str | None:
        with self.changed:
            self.changed.wait_for(lambda: key in self.entries, seconds)
            return self.entries.get(key)

    def delete(self, key: str) -> None:
        self.entries.pop(key, None)


class One:
    """What a process knows of the others."""

    def __init__(self, link: Store, index: int, token: str = "secret") -> None:
        self.link, self.index, self.token = link, index, token
        self.error: Exception | None = None

    def guarded_call(self, call: Callable[[], T], asked: str) -> T:
        if self.error is not None:
            raise self.error
        return call()


def claims(
    *tokens: str, folders: tuple[Folder | None, ...] = (), is_for_all: bool = False
) -> tuple[Store, list[One], list[Claim]]:
    store = Store()
    ones = [One(store, i, token) for i, token in enumerate(tokens)]
    places = folders or (None,) * len(ones)
    made = [
        Claim(cast(Peers, one), NAME, place, is_for_all=is_for_all)
        for one, place in zip(ones, places, strict=True)
    ]
    return store, ones, made


@pytest.fixture(autouse=True)
def _warnings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())


@pytest.fixture
def short() -> Iterator[None]:
    """Make waiting processes give up at once."""
    with override(share_compiled_timeout=0):
        yield


def in_threads(calls: list[Callable[[], Any]]) -> list[Any]:
    found: list[Any] = [None] * len(calls)

    def run(i: int) -> None:
        found[i] = calls[i]()

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return found


def test_alone_nothing_is_shared() -> None:
    assert not shares()
    assert claim(NAME, None, is_for_all=False) is None


def test_one_compiles_and_all_others_receive() -> None:
    _, _, made = claims(*["secret"] * 4)
    compiled = []

    def call(one: Claim) -> Entry:
        found = one.received("step")
        if found is None:
            compiled.append(one)
            one.publish(ENTRY)
            return ENTRY
        return found

    assert in_threads([lambda one=one: call(one) for one in made]) == [ENTRY] * 4
    assert len(compiled) == 1


def test_a_failure_is_followed_by_another_attempt() -> None:
    store, _, (first, second, third) = claims(*["secret"] * 3)
    assert first.received("step") is None
    first.fail()
    before = counts.replaced
    assert second.received("step") is None
    assert counts.replaced == before + 1
    second.publish(ENTRY)
    # After `publish` this is not a failure.
    second.fail()
    assert third.received("step") == ENTRY
    assert [store.entries[k] for k in sorted(store.entries) if k.endswith("said")] == [
        "failed",
        "compiled",
    ]


@pytest.mark.usefixtures("short")
def test_the_claim_of_a_process_that_takes_too_long_ends() -> None:
    _, _, (first, second, third) = claims(*["secret"] * 3)
    assert first.received("step") is None
    assert second.received("step") is None
    # Each compiles for itself in the end.
    assert third.received("step") is None
    third.publish(ENTRY)
    second.publish(ENTRY)


def test_a_program_without_a_stored_form_is_compiled_by_each_at_once() -> None:
    store, _, (first, second) = claims("secret", "secret")
    assert first.received("step") is None
    first.publish(None)
    assert second.received("step") is None
    assert sum(key.endswith("claim") for key in store.entries) == 1


@pytest.mark.parametrize("forged", ["another token", "other bytes", "another program"])
def test_what_does_not_prove_the_token_is_compiled_here(forged: str) -> None:
    store, _, (first, second) = claims("secret" if forged != "another token" else "?", "secret")
    assert first.received("step") is None
    first.publish(ENTRY)
    (key,) = [key for key in store.entries if key.endswith("code")]
    if forged == "other bytes":
        store.entries[key] = store.entries[key][:-1] + b"?"
    elif forged == "another program":
        other = Claim(cast(Peers, One(store, 0)), "4567", None, is_for_all=False)
        assert other.received("step") is None
        other.publish(ENTRY)
        (wrong,) = [k for k in store.entries if k.endswith("code") and "4567" in k]
        store.entries[key] = store.entries[wrong]
    with pytest.warns(RuntimeWarning, match="knowing the token|that of another program"):
        assert second.received("step") is None


def test_without_a_token_nothing_is_taken_from_the_store(tmp_path: Path) -> None:
    place = Folder(str(tmp_path / "cache"))
    store, _, (first, second, third) = claims("", "", "", folders=(place, place, None))
    assert first.received("step") is None
    place.put(NAME, ENTRY)
    first.publish(ENTRY)
    assert not [key for key in store.entries if key.endswith("code")]
    assert second.received("step") == ENTRY
    assert third.received("step") is None


def test_one_process_of_a_host_keeps_what_it_received(tmp_path: Path) -> None:
    places = [Folder(str(tmp_path / name)) for name in "abc"]
    _, _, (first, second, third) = claims(*["secret"] * 3, folders=tuple(places))
    assert first.received("step") is None
    first.publish(ENTRY)
    assert second.received("step") == third.received("step") == ENTRY
    assert [place.get(NAME) for place in places] == [None, ENTRY, None]


@pytest.mark.parametrize("is_for_all", [False, True])
def test_after_a_failure_programs_of_one_process_are_compiled(is_for_all: bool) -> None:
    _, (one, _), (first, _) = claims("secret", "secret", is_for_all=is_for_all)
    one.error = PeerError("process 1 has ended")
    if is_for_all:
        with pytest.raises(PeerError, match="process 1 has ended"):
            first.received("step")
    else:
        assert first.received("step") is None
    first.publish(ENTRY)
    first.fail()


def test_a_store_that_fails_is_not_an_error() -> None:
    _, (one, _), (first, second) = claims("secret", "secret")
    assert second.received("step") is None
    one.error = JaxRuntimeError("UNAVAILABLE")
    with pytest.warns(RuntimeWarning, match="UNAVAILABLE"):
        assert first.received("step") is None
    first.publish(ENTRY)


def test_the_oldest_programs_leave_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_compilation, "MOST_BYTES", 400)
    monkeypatch.setattr(shared_compilation, "_in_store", shared_compilation.collections.deque())
    store = Store()
    one = cast(Peers, One(store, 0))
    for name in ("1", "2", "3"):
        made = Claim(one, name, None, is_for_all=False)
        assert made.received("step") is None
        made.publish(ENTRY._replace(code=b"x" * 100))
    kept = [key for key in store.entries if key.endswith("code")]
    assert [key.split("/")[-3] for key in kept] == ["2", "3"]
    # One that comes too late compiles it.
    assert Claim(one, "1", None, is_for_all=False).received("step") is None
