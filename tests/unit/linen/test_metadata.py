from __future__ import annotations

import pytest

import kiln
import kiln.numpy as jnp
from kiln.linen import metadata
from kiln.linen.errors import PartitioningUnspecifiedError
from kiln.linen.metadata import Partitioned
from kiln.sharding import NamedSharding, P, make_mesh

NAME = metadata.PARTITION_NAME


def _box(*names):
    return Partitioned(jnp.ones((2, 4)), names)


@pytest.mark.parametrize(
    ("index", "name", "names"),
    [
        (0, "layers", ("layers", "a", None)),
        (1, None, ("a", None, None)),
        (2, "layers", ("a", None, "layers")),
        (4, "layers", ("a", None, None, None, "layers")),
        (-1, "layers", ("a", "layers", None)),
    ],
)
def test_an_axis_is_added(index, name, names) -> None:
    assert _box("a", None).add_axis(index, {NAME: name}).names == names


@pytest.mark.parametrize("index", [0, 1, 2])
def test_removing_an_axis_undoes_adding_it(index) -> None:
    box = _box("a", None)
    again = box.add_axis(index, {NAME: "layers"}).remove_axis(index, {NAME: "layers"})
    assert again.names == box.names


def test_the_name_of_the_axis_is_asked_for() -> None:
    with pytest.raises(PartitioningUnspecifiedError, match="partition_name"):
        _box("a").add_axis(0, {})
    with pytest.raises(PartitioningUnspecifiedError, match="partition_name"):
        _box("a").remove_axis(0, {})


@pytest.mark.parametrize("index", [0, 7])
def test_another_name_is_an_error(index) -> None:
    with pytest.raises(ValueError, match="metadata_params say 'b'"):
        _box("a").remove_axis(index, {NAME: "b"})


def test_boxes_in_trees() -> None:
    box = _box("a", None)
    tree = {"w": Partitioned(box, ("q",)), "b": 2}
    plain = metadata.unbox(tree)
    assert plain["w"] is box.value
    assert plain["b"] == 2
    put = metadata.replace_boxed(tree, {"w": 7, "b": 8})
    assert put["w"].value.value == 7
    assert put["w"].names == ("q",)
    assert put["b"] == 8
    assert metadata.is_axis_metadata(box)
    assert not metadata.is_axis_metadata(2)
    grown = metadata.add_axis({"w": box, "b": 2}, 0, {NAME: "n"})
    assert grown["w"].names == ("n", "a", None)
    assert metadata.remove_axis(grown, 0, {NAME: "n"})["w"].names == ("a", None)


def test_a_box_is_a_pytree_node() -> None:
    ((path, leaf),) = kiln.tree.leaves_with_path(_box("a", None))
    assert kiln.tree_util.keystr(path) == ".value"
    assert leaf.shape == (2, 4)
    out = kiln.jit(lambda box: kiln.tree.map(lambda x: x + 1, box))(_box("a", None))
    assert out.names == ("a", None)
    assert out.value[0, 0] == 2


def test_specs_and_shardings() -> None:
    tree = {"w": _box("a", None), "b": jnp.ones(2), "n": 3}
    assert metadata.get_partition_spec(tree) == {"w": P("a", None), "b": P(), "n": None}
    mesh = make_mesh((1,), ("a",))
    found = metadata.get_sharding(tree, mesh)
    assert found["w"] == NamedSharding(mesh, P("a", None))
    assert found["b"] == NamedSharding(mesh, P())
    assert found["n"] is None


def test_with_partitioning_wraps_an_initializer() -> None:
    init = metadata.with_partitioning(jnp.ones, ("a",))
    assert init.__name__ == "ones"
    assert init((3,)).names == ("a",)


def test_unboxing_constrains_where_there_is_a_mesh() -> None:
    mesh = make_mesh((1, 1), ("a", "b"))

    def program(*given):
        def f(x):
            return metadata.unbox(Partitioned(x, ("a", None), *given))

        return str(kiln.make_jaxpr(f)(jnp.ones((2, 4))))

    assert "sharding_constraint" not in program()
    assert "sharding_constraint" in program(mesh)
    with mesh:
        assert "sharding_constraint" in program()
    assert _box("a", None).unbox(apply_constraint=False).shape == (2, 4)
