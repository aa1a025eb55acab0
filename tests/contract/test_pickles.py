"""Pickles name kinds, not modules, and those of earlier versions load: `pickles.json` holds some.

`python -m tests.contract.test_pickles` adds what it lacks; what it has stays as it is.
"""

from __future__ import annotations

import base64
import json
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, random
from kiln.base import pickled
from kiln.ir.ref_type import AbstractRef
from kiln.ir.types import ShapedArray, ShardedArray
from kiln.sharding import (
    AbstractDevice,
    AbstractMesh,
    AxisType,
    NamedSharding,
    P,
    SingleDeviceSharding,
    make_mesh,
)
from kiln.tree_util import Partial

STORED = Path(__file__).with_name("pickles.json")
MESH = make_mesh((2, 1), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))
(SIZE,) = export.symbolic_shape("n + m//2", constraints=["n >= 4", "m == 2*n"])
OBJECTS: dict[str, Any] = {
    "AbstractDevice": AbstractDevice("TPU v5e", 1, "tpu"),
    "AbstractMesh": AbstractMesh((2,), ("x",), (AxisType.Explicit,)),
    "AbstractRef": AbstractRef(ShapedArray((3,), np.dtype("float32"))),
    "Array": np.arange(6, dtype=np.int16).reshape(2, 3),
    "AxisType": AxisType.Manual,
    "Device": kiln.devices()[1],
    "KeyDtype": random.key(0).dtype,
    "Mesh": MESH,
    "NamedSharding": NamedSharding(MESH, P("x", None)),
    "Partial": Partial(divmod, 7),
    "Partial.func": Partial(Partial(divmod, 7), 2),
    "PartitionSpec": P("x", ("y", "z"), None, unreduced={"w"}),
    "PyTreeDef": kiln.tree.structure({"a": (1, [None, 2])}),
    "ShapeDtypeStruct": kiln.ShapeDtypeStruct(
        (2, 3), np.float32, sharding=NamedSharding(MESH, P())
    ),
    "ShapedArray": ShapedArray((3,), np.dtype("float32"), weak_type=True),
    "ShardedArray": ShardedArray(
        (4, 3), np.dtype("float32"), mesh=MESH.abstract_mesh, split=("x", None)
    ),
    "SingleDeviceSharding": SingleDeviceSharding(kiln.devices()[0]),
    "Size": SIZE,
    "UNCONSTRAINED": P.UNCONSTRAINED,
    "dtype": jnp.bfloat16,
}
"""An object of each kind; for an array, its values."""


def _pickled(kind: str) -> Any:
    return jnp.array(OBJECTS[kind]) if kind == "Array" else OBJECTS[kind]


def _check(kind: str, found: Any) -> None:
    expected = OBJECTS[kind]
    if kind == "Array":
        assert isinstance(found, kiln.Array) and found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)
    elif kind.startswith("Partial"):
        rest = () if kind == "Partial.func" else (2,)
        assert type(found) is Partial and found.args == expected.args
        assert found(*rest) == (3, 1)
    elif kind == "Size":
        assert str(found) == str(expected)
    else:
        assert found == expected and repr(found) == repr(expected)


def names_in(data: bytes) -> set[str]:
    """Return the modules and names that a pickle looks up."""
    found, texts = set(), [""]
    for operation, argument, _ in pickletools.genops(data):
        if operation.name.endswith("UNICODE"):
            texts.append(argument)
        elif operation.name == "STACK_GLOBAL":
            found.add(".".join(texts[-2:]))
    return found


@pytest.mark.parametrize("kind", OBJECTS)
def test_a_pickle_names_no_module_of_kiln(kind: str) -> None:
    data = pickle.dumps(_pickled(kind))
    assert {name for name in names_in(data) if "kiln" in name} == {"kiln._unpickled"}
    _check(kind, pickle.loads(data))


def test_all_kinds_are_here() -> None:
    inner = {"Facts"}
    assert pickled._makers.keys() == OBJECTS.keys() | inner


@pytest.mark.parametrize("kind", OBJECTS)
def test_what_was_stored_loads(kind: str) -> None:
    _check(kind, pickle.loads(base64.b64decode(json.loads(STORED.read_text())[kind])))


def test_a_kind_of_a_later_version_is_an_error() -> None:
    data = pickle.dumps(P("x")).replace(b"PartitionSpec", b"PartitionSpek")
    with pytest.raises(ValueError, match="no such kind of object"):
        pickle.loads(data)


if __name__ == "__main__":
    stored = json.loads(STORED.read_text()) if STORED.exists() else {}
    for kind in OBJECTS.keys() - stored:
        stored[kind] = base64.b64encode(pickle.dumps(_pickled(kind))).decode()
    STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
