"""Primitives that are objects: what programs say of them, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.experimental import hijax
from tests.unit.control.hi_values import Scaled, ScaledTy

X = np.array([1.0, -0.5, 0.3], np.float32)


class Cube(hijax.VJPHiPrimitive):
    """The third power, whose derivative is doubled, so that it is seen whose it is."""

    def __init__(self, aval: Any, times: int = 1) -> None:
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"times": times}
        super().__init__()

    def expand(self, x: Any) -> Any:
        return self.params["times"] * x**3

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self(*args), args[0]

    def vjp_bwd_retval(self, res: Any, outgrad: Any, /) -> Any:
        return (6 * res**2 * outgrad,)

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        return dims[0]


class Forwards(Cube):
    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), 12 * primals[0] ** 2 * hijax.instantiate_zeros(tangents[0])


def cube(x: Any, kind: type[Cube] = Cube) -> Any:
    return kind(kiln.typeof(x))(x)


def test_programs_name_the_primitive_and_keep_its_rules() -> None:
    program = kiln.make_jaxpr(cube)(2.0)
    assert str(program) == "{ lambda ; a:f32[]. let b:f32[] = Cube[times=1] a in (b,) }"
    assert kiln.grad(kiln.jit(cube))(2.0) == 24.0


@pytest.mark.parametrize("engine", ["native", "xla", "reference"])
def test_engines(engine: str) -> None:
    with override(engine=engine):
        np.testing.assert_allclose(kiln.jit(cube)(X), X**3, rtol=1e-6)


def test_a_forward_rule_is_taken_in_both_directions() -> None:
    def f(x: Any) -> Any:
        return cube(x, Forwards)

    assert kiln.jvp(f, (2.0,), (1.0,)) == (8.0, 48.0)
    assert kiln.grad(f)(2.0) == 48.0
    assert kiln.jvp(kiln.vmap(f), (X,), (X,))[1].tolist() == pytest.approx((12 * X**3).tolist())


def test_without_a_forward_rule_there_is_no_forward_derivative() -> None:
    with pytest.raises(TypeError, match=r"vjp_bwd of Cube[\s\S]*forward-mode"):
        kiln.jvp(cube, (2.0,), (1.0,))


def test_rules_pass_through_loops_branches_and_checkpoints() -> None:
    for wrap in (
        kiln.checkpoint,
        lambda f: lambda x: kiln.lax.cond(x > 0, f, lambda x: x, x),
        lambda f: lambda x: kiln.lax.fori_loop(0, 1, lambda _, c: f(c), x),
    ):
        assert kiln.grad(wrap(cube))(2.0) == 24.0


def test_equal_primitives_are_one() -> None:
    aval = kiln.typeof(X)
    assert Cube(aval) == Cube(aval) and hash(Cube(aval)) == hash(Cube(aval))
    assert Cube(aval) != Cube(aval, 2) and Cube(aval) != Cube(kiln.typeof(1.0))
    assert Cube(aval) != Forwards(aval)
    assert repr(Cube(aval, 2)) == "Cube[{'times': 2}]"


def test_operands_of_another_structure_are_refused() -> None:
    with pytest.raises(TypeError, match="its `in_avals`") as caught:
        Cube(kiln.typeof(X))(X, X)
    assert len(str(caught.value).splitlines()) == 3


class Doubled(hijax.VJPHiPrimitive):
    """Linear, by a rule that says so."""

    def __init__(self, aval: Any) -> None:
        self.in_avals, self.out_aval, self.params = (aval, aval), aval, {}
        super().__init__()

    def expand(self, *args: Any) -> Any:
        return 2 * args[0] + args[1]

    def jvp(self, primals: Any, tangents: Any) -> Any:
        return self(*primals), self(*map(hijax.instantiate_zeros, tangents))

    def transpose(self, out_ct: Any, *maybe_accums: Any) -> None:
        maybe_accums[0].accum(20 * out_ct)
        maybe_accums[1].accum(None)


def test_linear_primitives_are_transposed_by_their_rule() -> None:
    def f(x: Any, y: Any) -> Any:
        return Doubled(kiln.typeof(x))(x, y)

    assert kiln.grad(f, (0, 1))(2.0, 3.0) == (20.0, 0.0)
    assert kiln.linear_transpose(lambda x: f(x, x), 2.0)(1.0) == (20.0,)


class Through(hijax.VJPHiPrimitive):
    """The high value itself."""

    def __init__(self) -> None:
        self.in_avals = self.out_aval = (ScaledTy((3,)),)
        self.params = {}
        super().__init__()

    def expand(self, *args: Any) -> Any:
        return args

    def vjp_fwd(self, nzs_in: Any, /, *args: Any) -> Any:
        return self(*args), None

    def batch_dim_rule(self, axis_data: Any, dims: Any, /) -> Any:
        return dims


def test_values_of_other_kinds() -> None:
    def f(x: Any) -> Any:
        (found,) = Through()(Scaled(jnp.ones(3, "int8"), x))
        return found.scale

    assert kiln.jit(f)(2.0) == 2.0
    with pytest.raises(NotImplementedError, match="consist of other arrays"):
        kiln.grad(f)(2.0)
    with pytest.raises(NotImplementedError, match="its type does not say along which axes"):
        kiln.vmap(f)(X)


def test_references_are_changed_by_what_it_expands_to() -> None:
    class Squared(hijax.VJPHiPrimitive):
        def __init__(self, aval: Any) -> None:
            self.in_avals, self.out_aval, self.params = (aval,), None, {}
            super().__init__()

        def expand(self, *args: Any) -> None:
            args[0][...] = args[0][...] ** 2

    ref = kiln.new_ref(3.0)
    kiln.jit(lambda ref: Squared(kiln.typeof(ref))(ref))(ref)
    assert ref[...] == 9.0


def test_specs_of_values_say_what_they_lack() -> None:
    class Spec(hijax.HiPspec):
        def to_lo(self) -> tuple[Any, ...]:
            return (kiln.P("x"),)

    assert Spec().to_lo() == (kiln.P("x"),)
    for method in ("to_tangent_spec", "to_ct_spec"):
        with pytest.raises(NotImplementedError, match=f"define `{method}` on Spec"):
            getattr(Spec(), method)()
