from __future__ import annotations

import json
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import struct
from kiln.serialization import from_safetensors, to_safetensors

# What the package of that name wrote (0.8), from arrays of the same names.
WRITTEN = (
    b"\xe0\x00\x00\x00\x00\x00\x00\x00"
    b'{"__metadata__":{"format":"np"},'
    b'"step":{"dtype":"I64","shape":[],"data_offsets":[0,8]},'
    b'"layer.kernel":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]},'
    b'"layer.bias":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]}}     '
    b"\x03\x00\x00\x00\x00\x00\x00\x00"
    b"\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@"
    b"\x80?\x80?"
)


def _tree() -> dict[str, Any]:
    kernel = jnp.arange(4.0).reshape(2, 2)
    return {"layer": {"kernel": kernel, "bias": jnp.ones(2, jnp.bfloat16)}, "step": 3}


def test_the_bytes_are_those_of_the_package() -> None:
    assert to_safetensors(_tree(), {"format": "np"}) == WRITTEN
    found = from_safetensors(_tree(), WRITTEN)
    assert found["step"] == 3
    assert type(found["step"]) is int
    assert found["layer"]["bias"].dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(found["layer"]["kernel"], [[0, 1], [2, 3]])


NATIVE = {"U8": "u1", "I8": "i1", "I16": "i2", "U16": "u2", "I32": "i4", "U32": "u4", "I64": "i8"}
NATIVE |= {"U64": "u8", "F16": "f2", "F32": "f4", "F64": "f8"}
DTYPES_BY_HAND: dict[str, Any] = {name: f"<{code}" for name, code in NATIVE.items()}
DTYPES_BY_HAND |= {"BOOL": "?", "BF16": ml_dtypes.bfloat16, "F8_E4M3": ml_dtypes.float8_e4m3fn}


def read_by_hand(data: bytes) -> dict[str, np.ndarray]:
    """Read a file as its published description says, with all that it demands."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size].decode("utf-8"))
    assert data[8:9] == b"{"
    header.pop("__metadata__", None)
    found, end = {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        start, stop = entry["data_offsets"]
        assert start == end, "there are no holes between tensors"
        end = stop
        content = data[8 + size + start : 8 + size + stop]
        dtype = np.dtype(DTYPES_BY_HAND[entry["dtype"]])
        found[name] = np.frombuffer(content, dtype).reshape(entry["shape"])
    assert 8 + size + end == len(data)
    return found


def write_by_hand(tensors: dict[str, np.ndarray]) -> bytes:
    """Write a file as its published description says, in the order of the names."""
    names = {np.dtype(dtype): name for name, dtype in DTYPES_BY_HAND.items()}
    header, content = {}, b""
    for name, x in tensors.items():
        offsets = [len(content), len(content) + x.nbytes]
        header[name] = {
            "dtype": names[x.dtype],
            "shape": list(x.shape),
            "data_offsets": offsets,
        }
        content += x.tobytes()
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


def test_other_programs_read_and_write_the_same() -> None:
    tensors = {
        f"layer.{name}": np.arange(6).reshape(2, 3).astype(dtype)
        for name, dtype in DTYPES_BY_HAND.items()
    }
    tensors |= {"empty": np.zeros((0, 3), np.float32), "scalar": np.array(2.5)}
    tree = {
        "layer": {name.split(".")[1]: x for name, x in tensors.items() if "." in name},
        "empty": tensors["empty"],
        "scalar": tensors["scalar"],
    }
    found = read_by_hand(to_safetensors(tree, {"made": "by kiln"}))
    assert found.keys() == tensors.keys()
    for name, x in tensors.items():
        assert (found[name].dtype, found[name].shape) == (x.dtype, x.shape)
        assert found[name].tobytes() == x.tobytes()
    again = from_safetensors(None, write_by_hand(tensors))
    for name, x in tensors.items():
        outer, _, inner = name.partition(".")
        leaf = again[outer][inner] if inner else again[outer]
        assert (leaf.dtype, leaf.shape, leaf.tobytes()) == (x.dtype, x.shape, x.tobytes())


def test_without_a_target() -> None:
    found = from_safetensors(None, WRITTEN)
    assert set(found) == {"layer", "step"}
    assert found["layer"]["kernel"].tolist() == [[0, 1], [2, 3]]
    assert from_safetensors(None, to_safetensors(np.ones(2))).tolist() == [1, 1]


def test_lists_and_classes() -> None:
    class State(struct.PyTreeNode):
        layers: Any
        note: Any = None

    state = State([np.ones(1), (np.zeros(2, bool), 2.5)])
    found = from_safetensors(state, to_safetensors(state))
    assert found.note is None
    assert found.layers[1][1] == 2.5
    assert isinstance(found.layers[1], tuple)
    assert set(from_safetensors(None, to_safetensors(state))["layers"]) == {"0", "1"}


def test_numpy_scalars() -> None:
    found = from_safetensors({"a": np.float32(1)}, to_safetensors({"a": np.float32(2)}))
    assert isinstance(found["a"], np.float32)
    assert found["a"] == 2


@pytest.mark.parametrize(
    ("target", "strict", "message"),
    [
        ({"layer": {"kernel": 1}}, True, "unexpected: step, layer.bias"),
        ({**_tree(), "z": {"q": 1}}, False, "missing: z.q"),
        ({**_tree(), "step": jnp.ones(3)}, True, r"\./step at .*\n.*\(3,\)"),
    ],
)
def test_names_and_shapes_must_fit(target, strict, message) -> None:
    with pytest.raises(ValueError, match=message):
        from_safetensors(target, WRITTEN, strict)


def test_names_left_out() -> None:
    assert from_safetensors({"step": 0}, WRITTEN, strict=False) == {"step": 3}


@pytest.mark.parametrize(
    ("tree", "error", "message"),
    [
        ({"a": {"b": "text"}}, TypeError, "at path a.b at .*\n"),
        ({"a": np.ones(2, np.complex128)}, ValueError, "at path a at .*\n"),
        ({"a.b": 1, "a": {"b": 2}}, ValueError, "two arrays have the path a.b"),
    ],
)
def test_what_such_files_cannot_hold(tree, error, message) -> None:
    with pytest.raises(error, match=message):
        to_safetensors(tree)


def _file(header: Any, content: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + content


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"abc",
        b"\xff" * 20,
        WRITTEN[:100],
        WRITTEN[:-1],
        _file(b"{"),
        _file([1]),
        _file({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}, b"\0" * 8),
        _file({"a": {"dtype": "F32", "shape": [1], "data_offsets": [-4, 0]}}, b"\0" * 8),
        _file({"a": {"dtype": "F4", "shape": [2], "data_offsets": [0, 1]}}, b"\0"),
        _file({"a": {"dtype": "F32"}}),
        _file({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [4, 0]}}, b"\0" * 8),
        _file({"a": {"dtype": "F32", "shape": "x", "data_offsets": [0, 0]}}),
    ],
)
def test_a_damaged_file(data) -> None:
    with pytest.raises(ValueError, match="in the safetensors format"):
        from_safetensors(None, data)
