"""What is saved comes back as it was: messages, safetensors, flat dicts."""

from __future__ import annotations

import contextlib
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

from kiln import serialization, struct, traverse_util
from kiln.linen import FrozenDict
from kiln.serialization import messages
from tests.properties.exploring import explored


class Moments(NamedTuple):
    """A named tuple."""

    mean: Any
    count: Any


@struct.dataclass
class State:
    """A class with leaves and metadata."""

    params: Any
    name: str = struct.field(pytree_node=False, default="n")


NAMES = st.text("abcxyzé_ 01", min_size=1, max_size=4)
DTYPES = st.sampled_from(
    [np.dtype(d) for d in ("?", "u1", "i2", "i4", "i8", "f2", "f4", "f8", "c8")]
    + [np.dtype(ml_dtypes.bfloat16), np.dtype(ml_dtypes.float8_e4m3fn)]
)
SHAPES = st.lists(st.integers(0, 4), max_size=3)


@st.composite
def arrays(draw: Any) -> np.ndarray:
    """Draw an array of any bytes."""
    dtype, shape = draw(DTYPES), draw(SHAPES)
    count = int(np.prod(shape, dtype=int))
    content = draw(st.binary(min_size=count * dtype.itemsize, max_size=count * dtype.itemsize))
    if dtype.kind == "b":
        return (np.frombuffer(content, np.uint8) > 127).reshape(shape)
    return np.frombuffer(content, dtype).reshape(shape)


NUMBERS = st.one_of(
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.builds(np.float32, st.floats(width=32)),
)
TEXTS = st.one_of(
    st.none(), st.complex_numbers(allow_nan=False), st.text(max_size=40), st.binary(max_size=40)
)


def trees(leaves: Any) -> Any:
    """Return a strategy of containers of leaves."""
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.lists(inner, max_size=3).map(tuple),
            st.dictionaries(NAMES, inner, max_size=3),
            st.dictionaries(NAMES, inner, max_size=3).map(FrozenDict),
            st.builds(Moments, inner, inner),
            st.builds(State, inner, NAMES),
        ),
        max_leaves=8,
    )


def same(x: Any, y: Any) -> bool:
    """Tell whether two trees are of the same classes and bits."""
    if type(x) is not type(y):
        return False
    if isinstance(x, np.ndarray):
        return (x.dtype, x.shape, x.tobytes()) == (y.dtype, y.shape, y.tobytes())
    if isinstance(x, (dict, FrozenDict)):
        return list(x) == list(y) and all(same(x[k], y[k]) for k in x)
    if isinstance(x, (list, tuple)):
        return len(x) == len(y) and all(map(same, x, y))
    if isinstance(x, State):
        return x.name == y.name and same(x.params, y.params)
    return bool(x == y or (x != x and y != y))


@explored(trees(st.one_of(arrays(), NUMBERS, TEXTS)), few=40, many=2000)
def test_messages_come_back(tree: Any) -> None:
    assert same(serialization.from_bytes(tree, serialization.to_bytes(tree)), tree)


@explored(trees(arrays()), st.integers(1, 40), few=30, many=1000)
def test_chunks_come_back(tree: Any, size: int) -> None:
    before, messages.MAX_CHUNK_SIZE = messages.MAX_CHUNK_SIZE, size
    try:
        assert same(serialization.from_bytes(tree, serialization.to_bytes(tree)), tree)
    finally:
        messages.MAX_CHUNK_SIZE = before


@explored(trees(st.one_of(arrays(), NUMBERS, st.none())), few=40, many=2000)
def test_safetensors_come_back(tree: Any) -> None:
    inside = {"tree": tree}
    data = serialization.to_safetensors(inside)
    assert same(serialization.from_safetensors(inside, data), inside)


@explored(st.dictionaries(NAMES, trees(NUMBERS), max_size=4), few=40, many=2000)
def test_flat_dicts_come_back(tree: Any) -> None:
    state = serialization.to_state_dict(tree)
    for sep in (None, "/"):
        flat = traverse_util.flatten_dict(state, keep_empty_nodes=True, sep=sep)
        assert same(traverse_util.unflatten_dict(flat, sep), state)


@explored(st.binary(max_size=60), few=60, many=5000)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for read in (
        serialization.msgpack_restore,
        lambda content: serialization.from_safetensors(None, content),
    ):
        with contextlib.suppress(ValueError):
            read(data)
