"""The entries of key paths, and paths written out."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import pytest

from kiln.base.tree.keys import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    SequenceKey,
    keystr,
)

ENTRIES: list[tuple[Any, str, str, str]] = [
    (SequenceKey(1), "SequenceKey(idx=1)", "[1]", "idx"),
    (DictKey("a"), "DictKey(key='a')", "['a']", "key"),
    (DictKey(2.5), "DictKey(key=2.5)", "[2.5]", "key"),
    (GetAttrKey("x"), "GetAttrKey(name='x')", ".x", "name"),
    (FlattenedIndexKey(3), "FlattenedIndexKey(key=3)", "[<flat index 3>]", "key"),
]


@pytest.mark.parametrize(("entry", "shown", "written", "name"), ENTRIES)
def test_an_entry(entry: Any, shown: str, written: str, name: str) -> None:
    assert (repr(entry), str(entry)) == (shown, written)
    value = getattr(entry, name)
    again = type(entry)(**{name: value})
    assert again == entry and hash(again) == hash(entry) == hash((value,))
    assert type(entry).__match_args__ == (name,)
    assert pickle.loads(pickle.dumps(entry)) == entry == copy.deepcopy(entry)
    with pytest.raises(AttributeError):
        setattr(entry, name, 4)
    with pytest.raises(AttributeError):
        entry.other = 4
    with pytest.raises(TypeError):
        type(entry)()
    with pytest.raises(TypeError):
        type(entry)(1, 2)
    jax = pytest.importorskip("jax")
    theirs = getattr(jax.tree_util, type(entry).__name__)(value)
    assert (repr(theirs), str(theirs)) == (shown, written)


def test_entries_of_different_classes_differ() -> None:
    same = [SequenceKey(1), DictKey(1), FlattenedIndexKey(1), GetAttrKey(1)]  # type: ignore[arg-type]
    assert all((a == b) is (a is b) and (a != b) is (a is not b) for a in same for b in same)
    assert DictKey(1) != 1
    assert DictKey(1) == DictKey(1.0)
    with pytest.raises(TypeError):
        hash(DictKey([]))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _ = DictKey(1) < DictKey(2)  # type: ignore[operator]


def test_an_error_of_a_comparison_is_the_callers() -> None:
    class Sour:
        def __eq__(self, other: object) -> bool:
            raise ZeroDivisionError

        def __hash__(self) -> int:
            raise ZeroDivisionError

        def __repr__(self) -> str:
            raise ZeroDivisionError

    for use in (lambda x, y: x == y, lambda x, y: hash(x), lambda x, y: repr(x)):
        with pytest.raises(ZeroDivisionError):
            use(DictKey(Sour()), DictKey(Sour()))


def test_a_subclass_is_its_own() -> None:
    class Named(DictKey):
        pass

    assert Named("a") != DictKey("a")
    assert repr(Named("a")).endswith("Named(key='a')")
    assert str(Named("a")) == "['a']"


def test_an_entry_in_a_cycle_is_collected() -> None:
    class Held:
        entry: Any

    held = Held()
    held.entry = DictKey(held)
    gone = weakref.ref(held)
    del held
    gc.collect()
    assert gone() is None


def test_written_paths() -> None:
    path = (DictKey("a"), SequenceKey(0), GetAttrKey("x"), FlattenedIndexKey(2), "b")
    assert keystr(path) == "['a'][0].x[<flat index 2>]b"
    assert keystr(path, simple=True, separator="/") == "a/0/x/2/b"
    assert keystr(()) == ""
