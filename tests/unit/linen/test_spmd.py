from __future__ import annotations

import threading

import pytest

import kiln
import kiln.numpy as jnp
from kiln.linen import spmd
from kiln.linen.spmd import LogicallyPartitioned, RulesFallback
from kiln.sharding import NamedSharding, P, make_mesh

RULES = (("batch", "a"), ("rows", ["b", "c"]), ("whole", None), ("spare", "a"), ("spare", "d"))


@pytest.fixture
def mesh():
    return make_mesh((1, 1, 1, 1), ("a", "b", "c", "d"))


def _constraints(names, **options):
    def f(x):
        return spmd.with_logical_constraint(x, names, **options)

    return str(kiln.make_jaxpr(f)(jnp.ones((2, 4)))).count("sharding_constraint")


@pytest.mark.parametrize(
    ("names", "spec"),
    [
        (("batch", "rows"), P("a", ("b", "c"))),
        (("spare", "batch"), P("d", "a")),
        (("spare",), P("a")),
        (("unknown", None, "whole"), P(None, None, None)),
        ((), P()),
        (None, None),
    ],
)
def test_rules_hold_in_order(names, spec) -> None:
    assert spmd.logical_to_mesh_axes(names, RULES) == spec


def test_a_name_comes_once() -> None:
    with pytest.raises(ValueError, match="occur more than once"):
        spmd.logical_to_mesh_axes(("batch", "batch"), RULES)


def test_a_rule_is_a_pair() -> None:
    with pytest.raises(ValueError, match="a rule is a pair"):
        spmd.set_logical_axis_rules([("batch", "a", "b")])


def test_rules_are_in_force_in_their_context_only() -> None:
    seen = []
    with spmd.logical_axis_rules(RULES):
        assert spmd.logical_to_mesh_axes(("batch",)) == P("a")
        with spmd.logical_axis_rules(()):
            assert spmd.logical_to_mesh_axes(("batch",)) == P(None)
        thread = threading.Thread(target=lambda: seen.append(spmd.get_logical_axis_rules()))
        thread.start()
        thread.join()
    assert seen == [()]
    assert spmd.get_logical_axis_rules() == ()


def test_rules_for_all_threads() -> None:
    spmd.set_logical_axis_rules(RULES)
    try:
        assert spmd.logical_to_mesh_axes(("rows",)) == P(("b", "c"))
    finally:
        spmd.set_logical_axis_rules(())


def test_trees_of_specs(mesh) -> None:
    tree = {"w": P("batch", "rows"), "b": None}
    assert spmd.logical_to_mesh(tree, RULES) == {"w": P("a", ("b", "c")), "b": None}
    found = spmd.logical_to_mesh_sharding(tree, mesh, RULES)
    assert found == {"w": NamedSharding(mesh, P("a", ("b", "c"))), "b": None}


def test_constraints_need_a_mesh_and_rules(mesh) -> None:
    names = ("batch", "rows")
    assert _constraints(names, rules=RULES) == 0
    assert _constraints(names, mesh=mesh) == 0
    assert _constraints(names, rules=RULES, mesh=mesh) == 1
    assert _constraints(None, rules=RULES, mesh=mesh) == 0
    with mesh, spmd.logical_axis_rules(RULES):
        assert _constraints(names) == 1
        assert _constraints(names, rules=()) == 0


def test_names_without_a_rule(mesh) -> None:
    options = {"rules": RULES, "mesh": mesh}
    names = ("unknown", "rows")
    assert _constraints(names, **options) == 1
    assert _constraints(names, fallback=RulesFallback.NO_CONSTRAINT, **options) == 0
    with pytest.raises(ValueError, match="did not match a rule"):
        _constraints(names, fallback=RulesFallback.RAISE_ERROR, **options)


def test_trees_of_arrays(mesh) -> None:
    x = {"a": jnp.ones(2), "b": [jnp.ones((1, 2))]}
    for names in ({"a": ("batch",), "b": [P("batch", None)]}, {"a": None, "b": ("batch",)}):
        found = spmd.with_logical_constraint(x, names, rules=RULES, mesh=mesh)
        assert kiln.tree.structure(found) == kiln.tree.structure(x)


def test_a_program_belongs_to_its_rules(mesh) -> None:
    traces = []

    @kiln.jit
    def f(x):
        traces.append(spmd.logical_to_mesh_axes(("batch",)))
        return x

    for rules in (RULES, (), RULES):
        with spmd.logical_axis_rules(rules):
            f(1.0)
    assert traces == [P("a"), P(None)]


def test_boxes(mesh) -> None:
    init = spmd.with_logical_partitioning(jnp.ones, ("batch", "rows"), rules=RULES)
    box = init((2, 4))
    assert isinstance(box, LogicallyPartitioned)
    assert box.get_partition_spec() == P("batch", "rows")
    assert box.add_axis(0, {"partition_name": "whole"}).names == ("whole", "batch", "rows")

    def program(x):
        return str(kiln.make_jaxpr(lambda v: box.replace_boxed(v).unbox())(x))

    assert "sharding_constraint" not in program(jnp.ones((2, 4)))
    with mesh:
        assert "sharding_constraint" in program(jnp.ones((2, 4)))
    assert box.unbox(apply_constraint=False) is box.value
