"""Crafted files of arrays: a ValueError or arrays, and never anything else."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import serialization
from kiln.serialization import from_npz, from_safetensors, msgpack_restore
from kiln.serialization.flat_names import named_arrays

TREE = {"a": {"w": np.ones((2, 3), np.float32), "b": np.arange(40)}, "c": np.zeros((0, 2))}


def compressed() -> bytes:
    """Return an archive whose members are compressed."""
    file = io.BytesIO()
    np.savez_compressed(file, a=np.arange(100.0), w=np.ones(3))
    return file.getvalue()


Reader = Callable[[bytes], Any]
READERS: dict[str, tuple[Reader, bytes]] = {
    "safetensors": (lambda data: from_safetensors(None, data), serialization.to_safetensors(TREE)),
    "npz": (lambda data: from_npz(None, data), serialization.to_npz(TREE)),
    "compressed": (lambda data: from_npz(None, data), compressed()),
    "msgpack": (msgpack_restore, serialization.to_bytes({**TREE, "z": 1j, "q": np.float32(2)})),
}


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Change, remove and insert some bytes."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at = chance.randrange(len(found))
        match chance.randrange(4):
            case 0 | 1:
                found[at] = chance.randrange(256)
            case 2 if len(found) > 20:
                del found[at : at + chance.randrange(1, 9)]
            case _:
                found[at:at] = chance.randbytes(chance.randrange(1, 9))
    return bytes(found)


@pytest.mark.parametrize("count", [300, pytest.param(20_000, marks=pytest.mark.full)])
@pytest.mark.parametrize("kind", READERS)
def test_mutated_files_are_refused_or_read(kind: str, count: int) -> None:
    read, whole = READERS[kind]
    read(whole)
    chance, refused = random.Random(kind), 0
    for _ in range(count):
        try:
            read(mutated(whole, chance))
        except ValueError:
            refused += 1
    assert count / 2 < refused < count


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 93])
def test_archives_in_methods_that_numpy_does_not_write_are_refused(method: int) -> None:
    content = bytearray(compressed())
    for mark, offset in ((b"PK\x03\x04", 8), (b"PK\x01\x02", 10)):
        at = content.index(mark) + offset
        content[at : at + 2] = method.to_bytes(2, "little")
    with pytest.raises(ValueError, match=f"a.npy is compressed by method {method}"):
        from_npz(None, bytes(content))


def tensors(header: bytes) -> bytes:
    """Return a safetensors file with a header."""
    return len(header).to_bytes(8, "little") + header


def archive(header: str) -> bytes:
    """Return an npz file whose array has a header."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("a.npy", single(header))
    return file.getvalue()


def single(header: str) -> bytes:
    """Return an npy file with a header."""
    encoded = header.encode()
    return b"\x93NUMPY\x01\x00" + len(encoded).to_bytes(2, "little") + encoded + bytes(8)


def array(*parts: Any) -> bytes:
    """Return a message that holds an array of these parts."""
    packed: bytes = msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb(parts))})
    return packed


def chunks(shape: Any, parts: Any) -> bytes:
    """Return a message that holds an array in chunks."""
    tree = {"__msgpack_chunked_array__": True, "shape": shape, "chunks": parts}
    packed: bytes = msgpack.packb({"a": tree})
    return packed


def described(descr: str, shape: str) -> str:
    return f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}"


CRAFTED: list[tuple[Reader, bytes]] = [
    *[(READERS["safetensors"][0], tensors(b)) for b in (b"[" * 100_000, b'{"a":' * 100_000, b"9")],
    *[
        (
            READERS["safetensors"][0],
            tensors(json.dumps({"a": {"dtype": d, "shape": s, "data_offsets": o}}).encode()),
        )
        for d, s, o in [
            ("F32", [2**62] * 3, [0, 8]),
            ("F32", [-2], [0, -8]),
            ("F32", [1.5], [0, 6]),
            ("O", [1], [0, 8]),
            (["F32"], [1], [0, 4]),
            ("F32", [1], [-4, 0]),
            ("F32", {}, [0]),
        ]
    ],
    *[
        (READERS["npz"][0], archive(header))
        for header in (
            *("", "[" * 60_000, "(", "{", "{}", described("'O'", "(1,)"), described("'x'", "(1,)")),
            *(
                described("'<f4'", shape)
                for shape in ("(1.5,)", "(-1,)", "(2**70,)", "'a'", "(" * 9)
            ),
            *(described(descr, "(1,)") for descr in ("'a,b,('", "3", "('<f4',) * 9", "'('")),
            *(described("'<f4'", f"({2**n},)") for n in (45, 60)),
            described("-" * 8_000 + "1", "(1,)"),
        )
    ],
    *[
        (msgpack_restore, data)
        for data in (b"\x91" * 100_000, b"\x81\xa1a" * 100_000, b"", b"\xc1")
    ],
    *[
        (msgpack_restore, array(*parts))
        for parts in (
            *(([1], "object", bytes(8)), ([2**40], "int8", b""), ([1], ",loat32", bytes(4))),
            *(([-1, -1], "int8", b"12"), (1, 2, 3), ([1], "int8"), ({}, {}, {})),
        )
    ],
    *[
        (msgpack_restore, chunks(*parts))
        for parts in ((None, None), ({}, {}), ({"0": 1}, "text"), (3, [1]), ({"1": 1}, {"1": 1}))
    ],
]


@pytest.mark.parametrize("number", range(len(CRAFTED)))
def test_crafted_files_are_refused(number: int) -> None:
    read, data = CRAFTED[number]
    with pytest.raises(ValueError, match=r"reading of|msgpack_restore of") as caught:
        read(data)
    assert len(str(caught.value).splitlines()) >= 3


ENDS_NUMPY = ("m8[s/0]", "M8[25s/0]", "<m8[ s/ 0]")
"""Descriptions of dtypes by which NumPy divides by 0, which ends the process."""


@pytest.mark.parametrize("descr", ENDS_NUMPY)
def test_dtypes_that_end_the_process(descr: str) -> None:
    literals = repr(descr), repr(descr).replace("/", "\\x2f"), f"[('a', {descr!r})]"
    crafted = [(READERS["npz"][0], archive(described(each, "(1,)"))) for each in literals]
    padded = archive(described(repr(descr) + " " * 9_000, "(1,)"))
    crafted += [(READERS["npz"][0], padded)]
    names = (descr, descr.encode(), {"names": ["a"], "formats": [descr]}, f"f4,{descr}")
    crafted += [(msgpack_restore, array([1], name, bytes(8))) for name in names]
    for read, data in crafted:
        with pytest.raises(ValueError, match="dtype"):
            read(data)


@pytest.mark.parametrize("descr", ENDS_NUMPY)
def test_such_dtypes_in_files_of_numpy(descr: str, tmp_path: Path) -> None:
    for literal in (repr(descr), repr(descr).replace("/", "\\x2f")):
        header = described(literal, "(1,)")
        for data in (single(header), archive(header)):
            path = tmp_path / "file"
            path.write_bytes(data)
            for file in (path, str(path), io.BytesIO(data)):
                with pytest.raises(ValueError, match="dtype"):
                    jnp.load(file)


@pytest.mark.parametrize("kind", ["npz", "safetensors"])
def test_names_below_those_of_arrays(kind: str) -> None:
    # As of weights with their scales.
    names = ("w", "w.scale", "w.scale.x", "m.v", "m.v.a", "m.b", "n.a.")
    found = {name: np.full(2, i, np.float32) for i, name in enumerate(names)}
    write, read = {
        "npz": (serialization.to_npz, from_npz),
        "safetensors": (serialization.to_safetensors, from_safetensors),
    }[kind]
    for order in (names, names[::-1]):
        tree = read(None, write({name: found[name] for name in order}))
        assert set(tree) == {"w", "w.scale", "w.scale.x", "m", "n"}
        assert set(tree["m"]) == {"v", "v.a", "b"}
        again = named_arrays(tree, lambda leaf, _: leaf, kind)
        assert again.keys() == found.keys()
        assert all(np.array_equal(again[name], found[name]) for name in names)
