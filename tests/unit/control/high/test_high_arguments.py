"""Loops, branches and derivatives of high values; their programs ahead of time."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.experimental import hijax
from tests.unit.control.hi_values import Box, Pair, PairTy, Scaled, total_p


def pair(large: Any, small: Any) -> Pair:
    return Pair(jnp.asarray(large, jnp.float32), jnp.asarray(small, jnp.float32))


def grown(x: Pair) -> Pair:
    return Pair(x.large + x.small, x.small * 2)


LOOPS: dict[str, Any] = {
    "scan": lambda x: lax.scan(lambda x, _: (grown(x), None), x, None, length=3)[0],
    "while_loop": lambda x: lax.while_loop(lambda x: x.large < 7, grown, x),
    "fori_loop": lambda x: lax.fori_loop(0, 3, lambda i, x: grown(x), x),
    "cond": lambda x: lax.cond(True, lambda x: grown(grown(grown(x))), lambda x: x, x),
    "switch": lambda x: lax.switch(1, [lambda x: x, lambda x: grown(grown(grown(x)))], x),
}


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
@pytest.mark.parametrize("name", LOOPS)
def test_loops_carry_values(name: str, through: Any) -> None:
    found = through(LOOPS[name])(pair(1, 1))
    assert type(found) is Pair
    assert (float(found.large), float(found.small)) == (8, 8)


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_scans_slice_values_and_stack_them(through: Any) -> None:
    xs = Pair(jnp.arange(6.0).reshape(3, 2), jnp.ones((3, 2)))

    def step(count: Any, x: Any) -> Any:
        assert kiln.typeof(x) == PairTy(kiln.typeof(jnp.ones(2)))
        return count + 1, Pair(x.large * 2, x.small + count)

    count, ys = through(lambda xs: lax.scan(step, 0.0, xs))(xs)
    assert float(count) == 3
    assert kiln.typeof(ys) == kiln.typeof(xs)
    np.testing.assert_array_equal(ys.large, 2 * xs.large)
    np.testing.assert_array_equal(ys.small, [[1, 1], [2, 2], [3, 3]])


def test_types_say_what_slices_and_stacks_are() -> None:
    @dataclasses.dataclass(frozen=True)
    class Named:
        x: Any
        name: str

    @dataclasses.dataclass(frozen=True)
    class NamedTy(hijax.HiType):
        aval: Any
        name: str

        def lo_ty(self) -> list[Any]:
            return [self.aval]

        def lower_val(self, hi_val: Any) -> list[Any]:
            return [hi_val.x]

        def raise_val(self, *lo_vals: Any) -> Any:
            return Named(*lo_vals, self.name)

        def leading_axis_spec(self) -> Any:
            return "rows"

        def dec_rank(self, size: Any, spec: Any) -> Any:
            assert spec == "rows"
            return NamedTy(self.aval.dec_rank(size, 0), f"row of {size}")

        def inc_rank(self, size: Any, spec: Any) -> Any:
            assert spec == "rows"
            return NamedTy(self.aval.inc_rank(size, 0), f"stack of {size}")

    hijax.register_hitype(Named, lambda x: NamedTy(kiln.typeof(x.x), x.name))
    seen = []
    _, ys = lax.scan(lambda c, x: (c, (seen.append(x.name), x)[1]), 0, Named(jnp.ones(4), "all"))
    assert (seen, ys.name) == (["row of 4"], "stack of 4")


def f(x: Pair, y: Any) -> Any:
    return jnp.sin(x.large) * x.small * y


def test_derivatives_by_values() -> None:
    x, y = pair(0.5, 2), jnp.float32(3)
    wanted = kiln.grad(lambda a, b: f(Pair(a, b), y), (0, 1))(x.large, x.small)
    for found in (
        kiln.grad(f)(x, y),
        kiln.jit(kiln.grad(f))(x, y),
        kiln.value_and_grad(f, (0, 1))(x, y)[1][0],
        kiln.vjp(f, x, y)[1](jnp.float32(1))[0],
    ):
        assert type(found) is Pair
        np.testing.assert_allclose([found.large, found.small], wanted, rtol=1e-6)
    value, moved = kiln.jvp(f, (x, y), (pair(1, 10), jnp.float32(0)))
    np.testing.assert_allclose(moved, wanted[0] + 10 * wanted[1], rtol=1e-6)
    assert float(value) == float(f(x, y))
    same, push = kiln.linearize(f, x, y)
    assert float(same) == float(value)
    np.testing.assert_allclose(push(pair(1, 10), jnp.float32(0)), moved, rtol=1e-6)


def test_derivatives_of_functions_that_return_values() -> None:
    def g(x: Pair) -> Pair:
        return Pair(x.large * x.small, x.small)

    x = pair(2, 3)
    out, pull = kiln.vjp(g, x)
    assert "PairTy" in repr(pull)
    ct = pull(pair(1, 10))[0]
    assert (float(out.large), float(ct.large), float(ct.small)) == (6, 3, 12)
    out, moved = kiln.jvp(g, (x,), (pair(1, 10),))
    assert (type(out), float(moved.large), float(moved.small)) == (Pair, 23, 10)


def test_values_whose_tangents_are_no_such_values_are_refused() -> None:
    x = Scaled(jnp.ones(3, jnp.int8), jnp.float32(1))
    with pytest.raises(NotImplementedError, match="consist of other arrays"):
        kiln.grad(lambda x: jnp.sum(x.small * x.scale))(x)


def test_programs_of_values_are_compiled_ahead_of_time() -> None:
    jitted = kiln.jit(lambda x, y: Pair(x.large + y, total_p.bind(x)))
    lowered = jitted.lower(pair(1, 2), jnp.float32(3))
    assert "stablehlo" in lowered.as_text("stablehlo")
    compiled = lowered.compile()
    found = compiled(pair(10, 20), jnp.float32(5))
    assert (float(found.large), float(found.small)) == (15, 30)
    assert kiln.eval_shape(jitted, pair(1, 2), jnp.float32(3)) == kiln.typeof(pair(1, 2))
    assert "f32[]" in str(kiln.make_jaxpr(jitted)(pair(1, 2), jnp.float32(3)))


def test_compiled_programs_change_values() -> None:
    box, hidden = Box(jnp.float32(1)), Box(jnp.float32(0))

    @kiln.jit
    def count(box: Any, x: Any) -> Any:
        box.set(box.get() + x)
        hidden.set(hidden.get() + 1)

    compiled = count.lower(box, jnp.float32(2)).compile()
    assert float(box.get()) == 1
    for _ in range(3):
        compiled(box, jnp.float32(2))
    assert (float(box.get()), float(hidden.get())) == (7, 3)


def test_rules_may_change_values_that_are_passed_to_them() -> None:
    stash = kiln.custom_vjp(lambda box, x: x)

    def backward(box: Any, ct: Any) -> Any:
        box.set(ct)
        return None, ct

    stash.defvjp(lambda box, x: (x, box), backward)
    box = Box(jnp.float32(0))
    assert float(kiln.grad(lambda x: 2 * stash(box, 3 * x))(1.0)) == 6
    assert float(box.get()) == 2
    jitted = kiln.jit(lambda box, x: 3 * stash(box, x))
    for through in (lambda f: f, kiln.jit):
        assert float(through(kiln.grad(jitted, 1))(box, 1.0)) == 3
        assert float(box.get()) == 3
        box.set(jnp.float32(0))
    with pytest.raises(NotImplementedError, match="differentiate inside"):
        kiln.grad(lambda x: kiln.vmap(jitted, (None, 0))(box, x).sum())(jnp.ones(2))


def test_a_loop_in_a_jitted_function_may_change_a_value_by_its_own_means() -> None:
    box = Box(jnp.float32(1))

    class Direct(type(kiln.typeof(box))):  # type: ignore[misc]
        def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
            val._val = kiln.tree.unflatten(state.treedef, lo_vals)

    class DirectBox(Box):
        pass

    hijax.register_hitype(DirectBox, lambda box: Direct())
    box = DirectBox._new(jnp.float32(1))

    @kiln.jit
    def f() -> None:
        lax.fori_loop(0, 3, lambda i, _: box.set(box.get() * 2), None)

    f()
    f()
    assert float(box.get()) == 64


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_references_hold_values(through: Any) -> None:
    def f(x: Pair) -> tuple[Pair, Pair, Pair]:
        ref = kiln.new_ref(x)
        before = ref[...]
        lax.fori_loop(0, 2, lambda i, _: ref.set(grown(ref.get())), None)
        after = ref[...]
        ref[...] = Pair(after.small, after.large)
        return before, after, kiln.freeze(ref)

    found = through(f)(pair(1, 1))
    assert [(float(x.large), float(x.small)) for x in found] == [(1, 1), (4, 4), (4, 4)]
    empty = kiln.ref.empty_ref(kiln.typeof(pair(1, 2)))
    assert float(empty[...].large) == 0
    with pytest.raises(TypeError, match="is given one of"):
        empty[...] = jnp.float32(1)
    with pytest.raises(NotImplementedError, match="ref_get_to_lojax"):
        empty[()].large, kiln.new_ref(Scaled(jnp.ones((2, 2), jnp.int8), 1.0))[:, 0:1]


def test_parts_of_references_to_values_are_those_that_types_say() -> None:
    class Row:
        def __init__(self, x: Any) -> None:
            self.x = x

    @dataclasses.dataclass(frozen=True)
    class RowTy(hijax.HiType):
        shape: tuple[int, ...]

        def lo_ty(self) -> list[Any]:
            return [hijax.ShapedArray(self.shape, np.dtype(np.float32))]

        def lower_val(self, hi_val: Any) -> list[Any]:
            return [hi_val.x]

        def raise_val(self, *lo_vals: Any) -> Any:
            return Row(*lo_vals)

        def ref_get_to_lojax(self, ref: Any, idx: Any) -> Any:
            (part,) = idx.indices
            return Row(ref._refs.x[part.start : part.start + part.size])

        def ref_swap_to_lojax(self, ref: Any, val: Any, idx: Any) -> Any:
            (part,) = idx.indices
            return Row(ref._refs.x.swap(val.x, slice(part.start, part.start + part.size)))

    hijax.register_hitype(Row, lambda row: RowTy(row.x.shape))
    ref = kiln.new_ref(Row(jnp.arange(4.0)))
    assert ref[1:3].x.tolist() == [1, 2]
    ref[2:] = Row(jnp.array([7.0, 8.0]))
    assert ref[...].x.tolist() == [0, 1, 7, 8]
    with pytest.raises(NotImplementedError, match="slices with the step 1"):
        ref[0]


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_branches_and_loops_are_given_values_that_change(through: Any) -> None:
    def f(box: Any, x: Any) -> Any:
        lax.cond(x > 0, lambda box: box.set(box.get() + x), lambda box: None, box)
        lax.scan(lambda box, _: (box.set(box.get() * 2), (box, None))[1], box, None, length=3)
        return box.get()

    box = Box(jnp.float32(1))
    assert float(through(f)(box, 2.0)) == 24
    assert float(box.get()) == 24


class Watched(hijax.HiPrimitive):
    """The identity, whose tangent is doubled, and kept in a box."""

    def abstract_eval(self, box: Any, x: Any) -> Any:
        return x, set()

    def to_lojax(self, box: Any, x: Any) -> Any:
        return x

    def jvp(self, primals: Any, tangents: Any) -> Any:
        box, x = primals
        assert type(tangents[0]) is hijax.Zero
        box.set(tangents[1])
        return watched_p.bind(box, x), 2 * tangents[1]


watched_p = Watched("watched")


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit, lambda f: kiln.jit(kiln.jit(f))])
def test_primitives_on_values_that_change_have_their_own_derivatives(through: Any) -> None:
    box = Box(jnp.float32(0))
    f = through(lambda box, x: jnp.sin(watched_p.bind(box, 3 * x)))
    out, moved = kiln.jvp(lambda x: f(box, x), (1.0,), (10.0,))
    assert float(box.get()) == 30
    np.testing.assert_allclose([out, moved], [np.sin(3), 60 * np.cos(3)], rtol=1e-6)
    assert float(f(box, 1.0)) == float(out)
    assert float(box.get()) == 30
    with pytest.raises(ValueError, match="under differentiation"):
        # The tangent is not there yet: the rule cannot keep it.
        kiln.grad(lambda x: f(box, x))(1.0)


LONGER: dict[str, Any] = {
    "scan": lambda step: lax.scan(lambda c, _: (step(), None), None, None, length=2),
    "fori_loop": lambda step: lax.fori_loop(0, 2, lambda i, _: step(), None),
    "while_loop": lambda step: lax.while_loop(lambda i: i < 2, lambda i: (step(), i + 1)[1], 0),
}


@pytest.mark.parametrize("name", LONGER)
def test_loops_leave_values_in_states_of_one_type(name: str) -> None:
    box = Box(jnp.ones(1))
    with pytest.raises(TypeError, match="type-changing mutations not allowed in loops"):
        LONGER[name](lambda: box.set(jnp.concatenate([box.get(), box.get()])))
    assert box.get().shape == (1,)
