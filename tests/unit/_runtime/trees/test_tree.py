"""Pytrees flattened and unflattened by the runtime agree with their definition in Python."""

from __future__ import annotations

import collections
import dataclasses
import functools
import gc
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kiln
import kiln.tree as tree
from kiln.base.tree.nodes import kind_of_new, register_dataclass
from kiln.base.tree.treedef import PyTreeDef
from kiln.tree_util import (
    DictKey,
    FlattenedIndexKey,
    GetAttrKey,
    Partial,
    SequenceKey,
    register_pytree_node,
    register_pytree_with_keys,
)


class Point(NamedTuple):
    x: Any
    y: Any


@dataclasses.dataclass
class Box:
    width: Any
    height: Any
    unit: str = "m"


register_dataclass(Box, ["width", "height"], ["unit"])


class Rack:
    """Registered without names for its children."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


register_pytree_node(Rack, lambda x: (x.parts, len(x.parts)), lambda data, kids: Rack(*kids))


def apart(x: Any) -> tuple[list[Any], list[Any], Any] | None:
    """Return the key entries, children and metadata of a node, by the rules of each class."""
    if x is None:
        return [], [], None
    if isinstance(x, Point):
        return [GetAttrKey("x"), GetAttrKey("y")], [x.x, x.y], None
    if isinstance(x, Box):
        return [GetAttrKey("width"), GetAttrKey("height")], [x.width, x.height], (x.unit,)
    if isinstance(x, (tuple, list)):
        return [SequenceKey(i) for i in range(len(x))], list(x), None
    if isinstance(x, dict):
        keys = tuple(x) if isinstance(x, collections.OrderedDict) else tuple(sorted(x))
        data = (x.default_factory, keys) if isinstance(x, collections.defaultdict) else keys
        return [DictKey(key) for key in keys], [x[key] for key in keys], data
    if isinstance(x, Partial):
        return [GetAttrKey("args"), GetAttrKey("keywords")], [x.args, x.keywords], x.func
    if isinstance(x, Rack):
        count = len(x.parts)
        return [FlattenedIndexKey(i) for i in range(count)], list(x.parts), count
    return None


def defined(
    x: Any,
    path: tuple[Any, ...],
    pairs: list[Any],
    is_leaf: Callable[..., bool] = lambda path, x: False,
) -> Any:
    """Flatten as the rules say, leaf by leaf with its path: what the runtime must agree with."""
    node = None if is_leaf(path, x) else apart(x)
    if node is None:
        pairs.append((path, x))
        return None
    entries, children, data = node
    keys = [
        defined(child, (*path, entry), pairs, is_leaf)
        for entry, child in zip(entries, children, strict=True)
    ]
    return type(x), data, tuple(keys)


LEAVES = st.one_of(st.integers(), st.floats(), st.text(max_size=3), st.builds(object))
NAMES = st.text("abcxyz", max_size=3)
TREES = st.recursive(
    st.one_of(LEAVES, st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(NAMES, inner, max_size=4),
        st.dictionaries(st.integers(), inner, max_size=3),
        st.dictionaries(NAMES, inner, max_size=3).map(collections.OrderedDict),
        st.dictionaries(NAMES, inner, max_size=3).map(lambda d: collections.defaultdict(list, d)),
        st.builds(Point, inner, inner),
        st.builds(Box, inner, inner, NAMES),
        st.lists(inner, max_size=3).map(lambda x: Rack(*x)),
        inner.map(lambda x: Partial(max, x, key=x)),
    ),
    max_leaves=12,
)


@given(TREES)
def test_flattening_is_as_defined(x: Any) -> None:
    pairs: list[Any] = []
    key = defined(x, (), pairs)
    want = [leaf for _, leaf in pairs]
    leaves, structure = tree.flatten(x)
    assert all(a is b for a, b in zip(leaves, want, strict=True))
    assert structure.key == key and structure.num_leaves == len(want)
    again = tree.unflatten(structure, leaves)
    assert type(again) is type(x)
    assert tree.structure(again) == structure
    assert hash(tree.structure(again)) == hash(structure)
    assert all(a is b for a, b in zip(tree.leaves(again), leaves, strict=True))
    assert all(a is b for a, b in zip(structure.flatten_up_to(x), leaves, strict=True))


def _same_pairs(got: list[Any], want: list[Any]) -> bool:
    return [path for path, _ in got] == [path for path, _ in want] and all(
        a is b for (_, a), (_, b) in zip(got, want, strict=True)
    )


@given(TREES)
def test_key_paths_are_as_defined(x: Any) -> None:
    want: list[Any] = []
    key = defined(x, (), want)
    got, structure = tree.flatten_with_path(x)
    assert _same_pairs(got, want)
    assert structure.key == key
    assert structure == tree.structure(x)
    assert tree.leaves_with_path(x) == got


@given(TREES, st.integers(0, 3), st.sampled_from([list, dict, type(None), Point, Box]))
def test_key_paths_of_leaves_as_told(x: Any, depth: int, stop: type) -> None:
    def by_path(path: Any, y: Any) -> bool:
        return len(path) >= depth

    want: list[Any] = []
    key = defined(x, (), want, by_path)
    got, structure = tree.flatten_with_path(x, by_path, is_leaf_takes_path=True)
    assert _same_pairs(got, want) and structure.key == key
    want.clear()
    key = defined(x, (), want, lambda path, y: isinstance(y, stop))
    got, structure = tree.flatten_with_path(tree=x, is_leaf=lambda y: isinstance(y, stop))
    assert _same_pairs(got, want) and structure.key == key


def test_a_dataclass_comes_apart_without_a_call() -> None:
    calls: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    value = [Box(1.0, Point(2.0, (3.0,))), {"a": Box(4.0, None)}]
    structure = tree.structure(value)
    sys.setprofile(note)
    try:
        tree.flatten(value)
        tree.flatten_with_path(value)
        structure.flatten_up_to(value)
    finally:
        sys.setprofile(None)
    assert calls == []


@given(TREES, TREES)
def test_structures_are_equal_if_their_keys_are(x: Any, y: Any) -> None:
    a, b = tree.structure(x), tree.structure(y)
    assert (a == b) is (a.key == b.key)
    assert (a != b) is not (a == b)
    assert a != a.key


@given(TREES, st.sampled_from([list, dict, type(None), Point]))
def test_leaves_as_told(x: Any, stop: type) -> None:
    def is_leaf(y: Any) -> bool:
        return isinstance(y, stop)

    leaves, structure = tree.flatten(x, is_leaf)
    assert structure.num_leaves == len(leaves)
    assert all(is_leaf(y) or kind_of_new(type(y)) is None for y in leaves)


def test_nesting_without_end_is_an_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(RecursionError):
        tree.flatten(endless)
    with pytest.raises(RecursionError):
        tree.flatten_with_path(endless)
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(RecursionError):
        tree.flatten(deep)
    # Taken down by hand: freeing so many nested lists at once is Python's affair.
    while isinstance(deep, list):
        deep = deep.pop()


def nested(kind: str, depth: int) -> Any:
    """Return a tree of containers of a kind, one in the other."""
    value: Any = 1.0
    for _ in range(depth):
        value = {
            "list": lambda x: [x, 2.0],
            "tuple": lambda x: (None, x),
            "dict": lambda x: {"a": 2.0, "b": x},
            "custom": lambda x: Partial(len, x),
        }[kind](value)
    return value


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "custom"])
def test_trees_that_are_2000_deep(kind: str) -> None:
    x, y = nested(kind, 2000), nested(kind, 2000)
    leaves, structure = tree.flatten(x)
    again = tree.unflatten(structure, leaves)
    other = tree.structure(again)
    assert structure == other and hash(structure) == hash(other)
    assert structure != tree.structure(nested(kind, 1999))
    doubled = tree.map(lambda a, b: a + b, x, y)
    assert tree.leaves(doubled) == [2 * leaf for leaf in leaves]
    assert repr(structure).count("*") == len(leaves)
    assert structure.num_nodes >= 2000
    assert structure.compose(tree.structure([1, 2])).num_leaves == 2 * len(leaves)
    path, leaf = max(tree.flatten_with_path(x)[0], key=lambda pair: len(pair[0]))
    assert len(path) >= 2000 and leaf in leaves
    with pytest.raises(ValueError, match="structure error"):
        tree.map(lambda a, b: a, x, nested(kind, 1999))
    called = kiln.jit(lambda t: tree.leaves(t)[-1])
    assert [float(called(v)) for v in (x, y, again)] == [leaves[-1]] * 3


def test_a_list_that_changes_meanwhile() -> None:
    victim: list[Any] = []

    class Sly:
        pass

    def flatten(x: Any) -> Any:
        victim.clear()
        return (1.0,), None

    register_pytree_node(Sly, flatten, lambda data, kids: Sly())
    for flat in (tree.flatten, tree.flatten_with_path):
        victim[:] = [Sly(), 2.0, 3.0]
        with pytest.raises(RuntimeError, match="size"):
            flat(victim)


@pytest.mark.parametrize(
    "wrong", [lambda x: 3, lambda x: (1, 2, 3), lambda x: (3, None), lambda x: 1 / 0]
)
def test_flatten_functions_that_are_wrong(wrong: Any) -> None:
    class Odd:
        pass

    register_pytree_node(Odd, wrong, lambda data, kids: Odd())
    for flat in (tree.flatten, tree.flatten_with_path):
        with pytest.raises((TypeError, ValueError, ZeroDivisionError)):
            flat([1.0, Odd()])


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda x: 3, "not iterable"),
        (lambda x: ((), None, None), r"should return a \(children, aux_data\) tuple"),
        (lambda x: ([(DictKey("a"), 1, 2)], None), "child 0 came with 3 values"),
        (lambda x: ([3], None), "not iterable"),
    ],
)
def test_functions_with_keys_that_are_wrong(wrong: Any, what: str) -> None:
    class Odd:
        pass

    register_pytree_with_keys(Odd, wrong, lambda data, kids: Odd(), lambda x: ((1,), None))
    assert tree.leaves(Odd()) == [1]
    with pytest.raises((TypeError, ValueError), match=what):
        tree.flatten_with_path([1.0, Odd()])


def test_a_namedtuple_longer_than_its_names() -> None:
    class Loose(tuple):  # type: ignore[type-arg]
        _fields = ("a", "b")

    value = Loose((1, 2, 3))
    assert tree.leaves(value) == [1, 2, 3]
    with pytest.raises(ValueError, match="3 children and 2 names"):
        tree.leaves_with_path(value)


def test_arguments_of_flattening() -> None:
    for flat in (tree.flatten, tree.flatten_with_path):
        call: Any = flat
        for args, kwargs in [
            ((), {}),
            ((), {"is_leaf": None}),
            ((1,), {"tree": 1}),
            ((1,), {"leaf": None}),
            ((1, None, False, 3), {}),
        ]:
            with pytest.raises(TypeError, match="takes a tree"):
                call(*args, **kwargs)


@pytest.mark.parametrize(
    "wrong",
    [
        (dict, None, (None, None)),
        (dict, ["a", "b"], (None, None)),
        (dict, ("a",), (None, None)),
        (dict, ("a", "b", "c"), (None, None)),
        (Box, None, (None, None)),
        (Box, ("m", "n"), (None, None)),
        (Box, ("m",), (None,)),
        (Box, (), (None, None)),
        (type(None), None, (None, None)),
    ],
)
def test_a_key_that_fits_no_value(wrong: Any) -> None:
    with pytest.raises(ValueError, match="not a structure"):
        PyTreeDef(wrong)
    with pytest.raises(ValueError, match="not a structure"):
        PyTreeDef((list, None, (wrong,)))


def test_a_key_without_end() -> None:
    key: Any = None
    for _ in range(100_000):
        key = (list, None, (key,))
    with pytest.raises(RecursionError):
        PyTreeDef(key)


def test_paths_lose_no_reference() -> None:
    value = {"a": [1.0, Point(2.0, Box(3.0, {2.5: None}))], "b": Rack(1, 2)}

    def growth(call: Callable[[], Any]) -> int:
        gc.collect()
        before = sys.getallocatedblocks()
        for _ in range(500):
            call()
        gc.collect()
        return sys.getallocatedblocks() - before

    call = functools.partial(tree.flatten_with_path, value)
    assert min(growth(call) for _ in range(4)) < 20


def test_leaves_from_any_iterable() -> None:
    structure = tree.structure([1, (2, 3)])
    assert tree.unflatten(structure, iter([4, 5, 6])) == [4, (5, 6)]
    with pytest.raises(ValueError, match="Too few"):
        tree.unflatten(structure, [1])
    with pytest.raises(ValueError, match="Too many"):
        tree.unflatten(structure, range(4))
    with pytest.raises(TypeError):
        tree.unflatten(structure, 3)


def test_a_key_that_is_none() -> None:
    for wrong in (3, (list, None), (list, None, [None]), (3, None, ()), (list, None, (3,))):
        with pytest.raises(ValueError, match="not a structure"):
            PyTreeDef(wrong)


class Changing:
    """A key whose comparison changes the dict that it is in."""

    def __init__(self, number: int, change: Callable[[], None]) -> None:
        self.number = number
        self.change = change

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other

    def __lt__(self, other: Changing) -> bool:
        self.change()
        return self.number < other.number


@pytest.mark.parametrize("cls", [dict, collections.defaultdict, collections.OrderedDict])
@pytest.mark.parametrize("change", [dict.clear, lambda d: d.update(a=1), lambda d: d.popitem()])
def test_a_dict_comes_apart_as_of_one_moment(cls: Any, change: Callable[[Any], Any]) -> None:
    mapping = cls()

    def changed() -> None:
        if len(mapping) == 3:
            change(mapping)

    mapping.update({Changing(i, changed): i for i in (2, 0, 1)})
    leaves, structure = tree.flatten(mapping)
    assert sorted(leaves) == [0, 1, 2]
    assert [key.number for key in structure.unflatten(leaves)] == leaves


@pytest.mark.parametrize("cls", [dict, collections.defaultdict, collections.OrderedDict])
def test_a_dict_that_another_thread_changes_comes_apart_as_of_one_moment(cls: Any) -> None:
    mapping = cls()
    mapping["a"] = "a"
    is_over = threading.Event()
    interval = sys.getswitchinterval()

    def change() -> None:
        while not is_over.is_set():
            mapping["b"] = "b"
            mapping["c"] = "c"
            del mapping["b"], mapping["c"]

    thread = threading.Thread(target=change)
    sys.setswitchinterval(1e-6)
    try:
        thread.start()
        for _ in range(2000):
            leaves, structure = tree.flatten(mapping)
            assert leaves == list(structure.unflatten(leaves))
            assert leaves in (["a"], ["a", "b"], ["a", "b", "c"], ["a", "c"])
    finally:
        sys.setswitchinterval(interval)
        is_over.set()
        thread.join()
