"""Messages are flax's byte for byte, flat dicts, boxes and logical axes mean what they do there."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
import pytest

import kiln
import kiln.linen
import kiln.serialization
import kiln.struct
import kiln.traverse_util
from tests.differential.oracle import Case, Topic

Run = Callable[[Any], Any]


class Moments(NamedTuple):
    mean: Any
    count: Any


def _state_class(lib: Any) -> Any:
    """Return a dataclass of the library; each is asked for once."""
    if lib.__name__ not in _classes:

        @lib.struct.dataclass
        class State:
            params: Any
            name: str = lib.struct.field(pytree_node=False, default="")
            step: Any = 0

        _classes[lib.__name__] = State
    return _classes[lib.__name__]


_classes: dict[str, Any] = {}


def _arrays() -> dict[str, np.ndarray]:
    dtypes = [bool, "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8", "c16"]
    dtypes += [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.int4]
    found = {np.dtype(d).name: np.arange(6).reshape(2, 3).astype(d) for d in dtypes}
    found |= {
        "scalar": np.ones(()),
        "empty": np.ones((0, 3)),
        "columns": np.ones((2, 3), order="F"),
    }
    return found | {"date": np.array(["2020-01-01"], "datetime64[D]")}


LEAVES: dict[str, Run] = {
    **{f"array {name}": lambda lib, a=a: a for name, a in _arrays().items()},
    **{
        f"device {name}": lambda lib, a=a: lib.numpy.asarray(a)
        for name, a in _arrays().items()
        if name
        not in ("date", "int64", "uint64", "float64", "complex128", "scalar", "empty", "columns")
    },
    **{
        f"number {np.dtype(d).name}": lambda lib, d=d: np.dtype(d).type(1)
        for d in ("?", "u1", "i4", "i8", "f2", "f4", "f8", "c8", "c16", ml_dtypes.bfloat16)
    },
    "weak": lambda lib: lib.numpy.asarray(1.5),
    "bfloat16 scalar": lambda lib: lib.numpy.bfloat16(2),
    **{
        f"python {v!r}": lambda lib, v=v: v
        for v in (0, -1, 127, 128, 2**40, -(2**63), 2**64 - 1, 1.5)
    },
    **{
        f"python {v!r}"[:40]: lambda lib, v=v: v
        for v in (True, None, "", "ä" * 40, b"ab", 1 - 2j, np.inf)
    },
}
TREES: dict[str, Run] = {
    "dict": lambda lib: {"z": 1, "a": {"y": np.ones(2), "b": None}, "e": {}},
    "number keys": lambda lib: {2: 1, 10: 2},
    "list": lambda lib: {"a": [1, [2.0, (3,)]], "b": [], "c": ()},
    "long list": lambda lib: {"a": list(range(20))},
    "named tuple": lambda lib: Moments(np.ones(3), {"a": 1}),
    "dataclass": lambda lib: _state_class(lib)({"w": np.ones(2)}, "name", 3),
    "frozen": lambda lib: lib.linen.FrozenDict({"b": {"d": 1, "c": 2}, "a": np.ones(1)}),
    "frozen inside": lambda lib: {"p": [lib.linen.FrozenDict({"a": 1})]},
    "boxed": lambda lib: {"w": lib.linen.Partitioned(np.ones((2, 3)), ("a", None))},
    "logical": lambda lib: {"w": lib.linen.LogicallyPartitioned(np.ones(2), ("x",))},
    "partial": lambda lib: lib.tree_util.Partial(max, 1, key=[2]),
    "optimiser": lambda lib: (  # codespell:ignore optimiser
        Moments(np.ones(1), np.int32(3)),
        (),
        None,
        [Moments(1, 2)],
    ),
}
REFUSED: dict[str, Run] = {
    "same text": lambda lib: {1: 2, "1": 3},
    "large number": lambda lib: {"a": 2**70},
    "object": lambda lib: {"a": object()},
    "objects": lambda lib: {"a": np.array([object()])},
    "keys": lambda lib: {"a": lib.random.key(0)},
    "text array": lambda lib: {"a": np.array([object(), 1])},
}
RAW: dict[str, Run] = {
    "sorted": lambda lib: {"b": 1, "a": {"d": [2, {"f": 3, "e": 4}], "c": 5}},
    "int keys": lambda lib: {3: 1, 1: 2},
    "in a list": lambda lib: [np.ones(2), 1j, np.float32(3), [lib.numpy.ones(1)]],
    "tuple": lambda lib: {"a": (1,)},
    "frozen": lambda lib: lib.linen.FrozenDict({"a": 1}),
    "bytearray": lambda lib: bytearray(b"ab"),
}


@contextmanager
def _small_chunks(lib: Any, size: int) -> Iterator[None]:
    module = getattr(lib.serialization, "messages", lib.serialization)
    before, module.MAX_CHUNK_SIZE = module.MAX_CHUNK_SIZE, size
    try:
        yield
    finally:
        module.MAX_CHUNK_SIZE = before


CHUNKED: dict[str, Any] = {
    **{f"{n} floats": {"a": np.arange(n, dtype="f4")} for n in (15, 16, 17, 32, 33)},
    "rows": {"a": {"b": np.arange(40, dtype="f8").reshape(2, 4, 5)}, "c": np.ones(3)},
    "wide": {"a": np.ones(9, "c16")},
    "alone": np.arange(40, dtype="f4"),
    "listed": [np.arange(40, dtype="f4")],
}


def _bytes(data: bytes) -> np.ndarray:
    return np.frombuffer(data, np.uint8)


def _text(value: Any) -> np.ndarray:
    return _bytes(repr(value).encode())


def _described(value: Any) -> Any:
    """Return a restored tree as text that says the class of everything."""
    if isinstance(value, dict):
        return {key: _described(child) for key, child in value.items()}
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *map(_described, value)]
    if hasattr(value, "dtype"):
        kind = "scalar" if isinstance(value, np.generic) else "array"
        return f"{kind} {value.dtype}{value.shape} {np.asarray(value).tolist()}"
    if hasattr(value, "params"):
        return ["State", _described(value.params), value.name, value.step]
    if hasattr(value, "names"):
        return [type(value).__name__, _described(value.value), value.names]
    if isinstance(value, collections.abc.Mapping):
        return ["frozen", *((k, _described(v)) for k, v in value.items())]
    if hasattr(value, "func"):
        return ["Partial", value.args, value.keywords]
    return f"{type(value).__name__} {value!r}"


def _written(make: Run) -> Run:
    return lambda lib: _bytes(lib.serialization.to_bytes(make(lib)))


def _raw(make: Run, in_place: bool) -> Run:
    return lambda lib: _bytes(lib.serialization.msgpack_serialize(make(lib), in_place=in_place))


def _state(make: Run) -> Run:
    return lambda lib: _text(_described(lib.serialization.to_state_dict(make(lib))))


def _read(make: Run) -> Run:
    def run(lib: Any) -> Any:
        s = lib.serialization
        data = s.to_bytes(make(lib))
        return [
            _text(_described(s.msgpack_restore(data))),
            _text(_described(s.from_bytes(make(lib), data))),
        ]

    return run


def _chunked(tree: Any) -> Run:
    def run(lib: Any) -> Any:
        with _small_chunks(lib, 64):
            data = lib.serialization.msgpack_serialize(tree)
            return [_bytes(data), _text(_described(lib.serialization.msgpack_restore(data)))]

    return run


RESTORED: dict[str, Callable[[Any, Any], Any]] = {
    "extra key": lambda lib, s: s.from_state_dict({"a": 2}, {"a": 5, "b": 3}),
    "missing key": lambda lib, s: s.from_state_dict({"a": 2, "b": 3}, {"a": 5}),
    "short list": lambda lib, s: s.from_state_dict([1, 2], {"0": 5}),
    "tuple": lambda lib, s: s.from_state_dict((1, [2]), {"0": 5, "1": {"0": 6}}),
    "names": lambda lib, s: s.from_state_dict(Moments(1, 2), {"mean": 5, "count": 6}),
    "missing name": lambda lib, s: s.from_state_dict(Moments(1, 2), {"mean": 5}),
    "old names": lambda lib, s: s.from_state_dict(
        Moments(1, 2),
        {"name": "M", "fields": {"0": "mean", "1": "count"}, "values": {"0": 8, "1": 9}},
    ),
    "fields": lambda lib, s: s.from_state_dict(_state_class(lib)(1), {"params": 5, "step": 6}),
    "missing field": lambda lib, s: s.from_state_dict(_state_class(lib)(1), {"params": 5}),
    "unknown field": lambda lib, s: s.from_state_dict(
        _state_class(lib)(1), {"params": 5, "step": 6, "q": 7}
    ),
    "None": lambda lib, s: s.from_state_dict({"a": None}, {"a": {"b": 3}}),
    "no target": lambda lib, s: s.from_bytes(None, s.to_bytes({"a": [1]})),
    "number keys": lambda lib, s: s.from_state_dict({1: 2}, {"1": 5}),
    "array to None": lambda lib, s: s.from_state_dict(np.ones(2), None),
    "broken": lambda lib, s: s.msgpack_restore(b"\xc1"),
    "nothing": lambda lib, s: s.msgpack_restore(b""),
    "half": lambda lib, s: s.msgpack_restore(b"\x81\xa1a"),
    "more": lambda lib, s: s.msgpack_restore(b"\x01\x01"),
    "registered": lambda lib, s: s.register_serialization_state(dict, None, None),
    "leaf": lambda lib, s: [s.is_serializable(3), s.is_serializable({}), s.is_serializable(dict)],
}

NESTED = {"a": {"b": 1, "c": {}}, "d": {}, "e": [{"x": 1}]}
FLAT_OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "empty": {"keep_empty_nodes": True},
    "joined": {"sep": "/"},
    "joined empty": {"keep_empty_nodes": True, "sep": "/"},
    "leaf": {"is_leaf": lambda path, value: "b" in value},
    "leaf path": {"is_leaf": lambda path, value: path == ("a",)},
}


def _flat(options: dict[str, Any]) -> Run:
    def run(lib: Any) -> Any:
        t = lib.traverse_util
        flat = t.flatten_dict(NESTED, **options)
        return [_text(flat), _text(t.unflatten_dict(flat, options.get("sep")))]

    return run


PATHS: dict[str, Callable[[Any, Any], Any]] = {
    "nothing": lambda lib, t: [t.flatten_dict({}), t.flatten_dict({}, keep_empty_nodes=True)],
    "nothing back": lambda lib, t: t.unflatten_dict({}),
    "frozen": lambda lib, t: t.flatten_dict(lib.linen.FrozenDict({"a": {"b": 1}})),
    "number keys": lambda lib, t: t.flatten_dict({1: {2: 3}}),
    "number keys joined": lambda lib, t: t.flatten_dict({1: {2: 3}}, sep="/"),
    "map": lambda lib, t: t.path_aware_map(lambda path, v: (path, v), NESTED),
    "traverse": lambda lib, t: [
        t.ModelParamTraversal(lambda p, v: p.endswith("k")).update(
            lambda x: 2 * x, {"z": {"e": {}, "k": 3}, "a": {"k": 1, "b": 2}}
        ),
        list(t.ModelParamTraversal(lambda p, v: "k" in p).iterate({"z": {"k": 3}, "a": {"k": 1}})),
    ],
}

NAME = "partition_name"
BOXES: dict[str, Callable[[Any, Any], Any]] = {
    **{
        f"axis {i} {name}": lambda lib, box, i=i, name=name: [
            box.add_axis(i, {NAME: name}).names,
            box.add_axis(i, {NAME: name}).remove_axis(i, {NAME: name}).names,
        ]
        for i in range(5)
        for name in ("layers", None)
    },
    "spec": lambda lib, box: tuple(box.get_partition_spec()),
    "specs": lambda lib, box: [
        None if s is None else tuple(s)
        for s in lib.linen.get_partition_spec(
            [box, np.ones(2), 3, lib.linen.Partitioned(box, ("q",))]
        )
    ],
    "leaves": lambda lib, box: [
        (lib.tree_util.keystr(p), np.shape(x))
        for p, x in lib.tree_util.tree_flatten_with_path(box)[0]
    ],
    "unbox": lambda lib, box: np.shape(
        lib.linen.unbox({"a": lib.linen.Partitioned(box, ("q",))})["a"]
    ),
    "init": lambda lib, box: lib.linen.with_partitioning(np.ones, ("a",))(3).names,
    "grown": lambda lib, box: lib.linen.meta.add_axis({"a": box}, 1, {NAME: "n"})["a"].names,
    "replaced": lambda lib, box: _described(
        lib.linen.meta.replace_boxed({"a": box, "b": 1}, {"a": 2, "b": 3})
    ),
}
RULES = (("x", "a"), ("y", ("b", "c")), ("z", None), ("w", "a"), ("w", "d"), ("x", "e"), ("v", "b"))


def _axes(lib: Any, names: Any, rules: Any = RULES) -> Any:
    spec = lib.linen.logical_to_mesh_axes(names, rules)
    return _text(None if spec is None else tuple(spec))


def _in_force(lib: Any) -> Any:
    seen = [_axes(lib, ("x", "w"), None)]
    with lib.linen.logical_axis_rules(RULES):
        seen.append(_axes(lib, ("x", "w"), None))
        seen.append(_text(tuple(lib.linen.get_logical_axis_rules())))
    return [*seen, _axes(lib, ("x", "w"), None)]


def _model(lib: Any) -> Any:
    nn = lib.linen

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(4, (3, 3), name="stem")(x)
            x = nn.BatchNorm(use_running_average=True)(nn.relu(x))
            x = nn.Sequential([nn.Dense(3), nn.LayerNorm()])(x.reshape(x.shape[0], -1))
            return nn.Dense(2, kernel_init=nn.with_partitioning(nn.initializers.ones, ("a", None)))(
                x
            )

    return Network()


def _saved_model(lib: Any) -> Any:
    """Return the message of a network's variables, numbered, and what the network gives with them."""
    x = np.linspace(-1, 1, 64, dtype=np.float32).reshape(2, 4, 4, 2)
    model = _model(lib)
    shapes = lib.eval_shape(model.init, lib.random.key(0), x)
    variables = lib.tree_util.tree_map(
        lambda v: (1.2 + np.sin(1.3 * np.arange(v.size))).astype(v.dtype).reshape(v.shape), shapes
    )
    data = lib.serialization.to_bytes(variables)
    restored = lib.serialization.from_bytes(shapes, data)
    return [_bytes(data), lib.numpy.asarray(model.apply(restored, x))]


def _cases() -> Iterator[Case]:
    # The layer norm takes the difference of numbers near 760: their last bits are seen.
    yield Case("models", "network", _saved_model, 1e-3)
    for name, make in {**LEAVES, **TREES}.items():
        yield Case("written", name, _written(make))
        yield Case("read", name, _read(make))
        yield Case("state dict", name, _state(make))
    for name, make in REFUSED.items():
        yield Case("refused", name, _written(make))
    for name, make in {**LEAVES, **RAW}.items():
        for in_place in (False, True):
            yield Case("raw", f"{name} {in_place}", _raw(make, in_place))
    for name, tree in CHUNKED.items():
        yield Case("chunks", name, _chunked(tree))
    for name, restore in RESTORED.items():
        yield Case(
            "restored", name, lambda lib, f=restore: _text(_described(f(lib, lib.serialization)))
        )
    for name, options in FLAT_OPTIONS.items():
        yield Case("flat dicts", name, _flat(options))
    for name, walk in PATHS.items():
        yield Case("paths", name, lambda lib, f=walk: _text(f(lib, lib.traverse_util)))
    for name, ask in BOXES.items():
        yield Case(
            "boxes",
            name,
            lambda lib, f=ask: _text(f(lib, lib.linen.Partitioned(np.ones((2, 3)), ("a", None)))),
        )
    for size in range(4):
        for names in itertools.permutations(("x", "y", "z", "w", "v", "q", None), size):
            if size < 3 or names[0] in ("x", "y"):
                yield Case("logical axes", str(names), lambda lib, n=names: _axes(lib, n))
    for names in (("x", "x"), ("q", "q"), (None, None), None, [("a", "b"), "x"], ("a", "")):
        yield Case("logical axes", f"odd {names}", lambda lib, n=names: _axes(lib, n))
    yield Case("logical axes", "in force", _in_force)


TOPIC = Topic("linen_saving", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_in_flax(group: str) -> None:
    TOPIC.check(group, kiln)


def test_flax_files_are_read() -> None:
    """The bytes that flax wrote come back as the tree that was given to it."""
    restored = 0
    for name, make in {**LEAVES, **TREES}.items():
        answer = TOPIC.answers()[f"written/{name}"]
        if answer.error:
            continue
        tree = make(kiln)
        found = kiln.serialization.from_bytes(tree, answer.arrays[0].tobytes())
        assert _described(found) == _described(tree), name
        restored += 1
    assert restored > 50
