"""Types that say how Explicit axes of a mesh split an array."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from kiln.base.options.config import override
from kiln.errors import ShardingTypeError
from kiln.ir.sharded_types import compiler_decides, has_sharding, is_split_alike, mesh_of
from kiln.ir.shardings.abstract_mesh import EMPTY, AbstractMesh, AxisType
from kiln.ir.shardings.mesh import PartitionSpec as P
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray, ShardedArray, plain, typed, with_split

FLOAT = np.dtype(np.float32)
MESH = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit,) * 2)
AUTO = AbstractMesh((4, 2), ("x", "y"))
MIXED = AbstractMesh((4, 2), ("x", "y"), (AxisType.Explicit, AxisType.Auto))
PLAIN = ShapedArray((8, 4), FLOAT)


def sharded(*entries: Any, mesh: AbstractMesh = MESH, aval: ShapedArray = PLAIN) -> Any:
    return typed(aval, NamedSharding(mesh, P(*entries)))


def test_a_type_holds_a_sharding_only_where_an_explicit_axis_splits() -> None:
    assert type(sharded("x")) is ShardedArray
    assert sharded("x").split == ("x", None)
    assert sharded(("x", "y"), None).split == (("x", "y"), None)
    assert sharded() is PLAIN
    assert sharded("x", mesh=AUTO) is PLAIN
    assert sharded("y", "x", mesh=MIXED).split == (None, "x")
    assert sharded(("x", "y"), mesh=MIXED).split == ("x", None)
    assert typed(PLAIN, None) is PLAIN
    assert PLAIN.split == (None, None)


def test_it_is_another_type_than_the_plain_one() -> None:
    assert sharded("x") == sharded("x", None)
    assert hash(sharded("x")) == hash(sharded("x", None))
    assert sharded("x") != sharded("y")
    assert sharded("x") != PLAIN
    assert sharded("x") != PLAIN
    assert sharded("x").same_type(PLAIN)
    assert plain(sharded("x")) == PLAIN
    assert plain(PLAIN) is PLAIN
    assert pickle.loads(pickle.dumps(sharded("x"))) == sharded("x")


def test_text() -> None:
    assert str(sharded("x", "y")) == "float32[8@x,4@y]"
    assert sharded(None, ("x", "y"), aval=ShapedArray((3, 8), FLOAT)).str_short() == (
        "f32[3,8@(x,y)]"
    )
    assert repr(sharded("x")) == "ShapedArray(float32[8@x,4])"


def test_the_sharding_that_users_see() -> None:
    assert sharded("x").sharding == NamedSharding(MESH, P("x", None))
    assert PLAIN.sharding.mesh is EMPTY
    with override(mesh=MESH):
        assert PLAIN.sharding == NamedSharding(MESH, P(None, None))
    with override(mesh=AUTO):
        assert PLAIN.sharding == NamedSharding(AUTO.abstract_mesh, P(None, None))


def test_parts_are_replaced_and_the_split_stays() -> None:
    aval = sharded("x", "y")
    assert aval.with_(dtype=np.dtype(np.int32), weak_type=True).split == ("x", "y")
    assert aval.with_(shape=(8, 4)) == aval
    assert aval.strip_weak_type() is aval
    assert aval.tangent() is aval
    assert type(aval.with_(dtype=np.dtype(np.int32)).tangent()) is ShapedArray
    assert type(aval.physical()) is ShapedArray
    assert aval.without_axis(0).split == ("y",)
    assert aval.with_axis(1, 3).split == ("x", None, "y")
    assert aval.without_axis(0).without_axis(0) == ShapedArray((), FLOAT)
    assert aval.update(weak_type=True).split == ("x", "y")
    assert aval.update(sharding=NamedSharding(MESH, P())) == PLAIN


def test_a_shape_does_not_say_how_it_is_split() -> None:
    with pytest.raises(ShardingTypeError, match="does not determine how an array of that shape"):
        sharded("x").with_(shape=(4, 8))


def test_what_cannot_be_split_so() -> None:
    with pytest.raises(ShardingTypeError, match="a mesh axis would split two axes"):
        with_split(PLAIN, MESH, ("x", "x"))
    with pytest.raises(ShardingTypeError, match="size 6 cannot be split into 4 equal parts"):
        with_split(ShapedArray((6,), FLOAT), MESH, ("x",))


def test_of_several_types() -> None:
    assert has_sharding([PLAIN, sharded("x")])
    assert not has_sharding([PLAIN])
    assert mesh_of([PLAIN, sharded("x"), sharded("y")]) is MESH
    assert is_split_alike(PLAIN, PLAIN)
    assert is_split_alike(sharded("x"), sharded("x").with_(weak_type=True))
    assert not is_split_alike(sharded("x"), PLAIN)
    other = AbstractMesh((2, 4), ("x", "y"), (AxisType.Explicit,) * 2)
    with pytest.raises(ShardingTypeError, match="Mesh for all inputs should be equal"):
        mesh_of([sharded("x"), sharded("x", mesh=other)])


def test_the_compiler_decides_under_a_mesh_without_explicit_axes() -> None:
    assert not compiler_decides()
    with override(mesh=AUTO):
        assert compiler_decides()
    with override(mesh=MESH):
        assert not compiler_decides()
