"""Constants that meet in expressions: folded, divided by, and parts of an index."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.engines.engine import Program, engine
from kiln.core.staging import stage_pure
from kiln.engines.native.llvm.linking import host_target
from kiln.engines.native.llvm.target import named
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, SIGNED, UNSIGNED, Scope, Value, number
from kiln.engines.native.loop_ir.substitution import substituted
from kiln.ir.types import ShapedArray


def folded(build: Any) -> Value:
    """Return an expression of a load whose value becomes the constant 3."""
    scope = Scope()
    x = scope.node("load", "i32", (), None)
    (made,) = substituted([build(scope, x)], {}, {x: scope.constant(3, "i32")})
    return made


def test_expressions_of_constants_are_folded() -> None:
    for build, expected in (
        (lambda s, x: x * 2 + 1, 7),
        (lambda s, x: s.op("max", "i32", x, s.constant(5, "i32")), 5),
        (lambda s, x: x.eq(3).select(x + 1, 0), 4),
        (lambda s, x: x.convert("f32"), float(np.float32(3).view(np.uint32))),
        (lambda s, x: s.op("or", "i1", x.gt(9), x.gt(2)), 1),
    ):
        made = folded(build)
        assert (made.op, made.attr) == ("constant", expected)


def test_division_by_zero_is_not_folded() -> None:
    assert folded(lambda s, x: s.op("div", "i32", x, s.constant(0, "i32"))).op == "div"


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_division_by_a_power_of_two_is_a_multiplication(dtype: str) -> None:
    scope, kind = Scope(), NUMPY_TYPES[dtype]
    x, least = scope.node("load", dtype, (), None), np.finfo(kind).tiny
    for by in (2.0, -0.5, 4096.0, 1 / least, least, -1.0):
        made = x / scope.constant(by, dtype)
        assert made.op == "mul", by
        assert number(made.operands[1]) == 1 / kind.type(by)
    for by in (3.0, 0.0, np.inf, np.nan, 1.5, least / 2, 2 / least):
        assert (x / scope.constant(kind.type(by), dtype)).op == "div", by
    # The smallest numbers are rounded in the same way.
    small = (np.arange(1, 40) * np.finfo(kind).smallest_subnormal).astype(kind)
    for by in (2.0, -8.0):
        with kiln.enable_x64():
            found = np.asarray(kiln.jit(lambda x, by=by: x / by)(small))
        np.testing.assert_array_equal(found, small / kind.type(by))


def test_a_scalar_and_an_array_of_one_element_are_two_constants() -> None:
    one = jnp.asarray([2.5])
    # In a program derived from others, arrays that a rule closes over are constants.
    both = stage_pure(
        lambda x: [x * np.float32(2.5), jnp.broadcast_to(one[:, None], (1, 3))],
        [ShapedArray((1,), np.float32)],
    )
    made = engine("native").compiler.compile(Program(both, "f"))
    found = [np.asarray(x).view(np.float32).tolist() for x in made([np.ones(1, np.float32)])]
    assert found == [[2.5], [2.5, 2.5, 2.5]]


@pytest.mark.parametrize("dtype", SIGNED + UNSIGNED)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", None])
def test_quotients_by_constants(dtype: str, target: str | None, monkeypatch: Any) -> None:
    if target is not None:
        if host_target().triple != named(target).triple:
            pytest.skip("a level of other processors")
        monkeypatch.setenv("KILN_TARGET", target)
    kind = NUMPY_TYPES[dtype]
    least, most = np.iinfo(kind).min, np.iinfo(kind).max
    x = np.random.default_rng(0).integers(least, most, 67, kind, endpoint=True)
    x[:6] = [least, most, 0, 1, least + 1, most - 1]
    divisors = [d for d in (1, 2, 3, 7, 10, 64, 127, -1, -2, -7, most, least, 0) if d >= least]

    def quotients(x: Any) -> list[Any]:
        made = []
        for d in divisors:
            y = np.asarray(d, kind)
            made += [lax.div(x, y), lax.rem(x, y), x // y, x % y]
        return made

    with kiln.enable_x64(True):
        with override(engine="reference"):
            expected = kiln.jit(lambda x: quotients(x))(x)
        with override(engine="native", check=True):
            found = kiln.jit(lambda x: quotients(x))(x)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_index_that_becomes_a_constant() -> None:
    def picked(x: Any) -> Any:
        return x[jnp.asarray(2)] + x[jnp.minimum(jnp.asarray(7), 1)]

    x = np.arange(5, dtype=np.float32)
    with override(engine="native", check=True):
        assert kiln.jit(picked)(x) == 3


def test_parts_of_constant_numbers_are_those_parts() -> None:
    z = np.complex64(1 + 2j)
    parts = kiln.jit(lambda: (jnp.real(z), jnp.imag(z), jnp.conj(z), jnp.imag(z[None, None]).T + 1))
    real, imag, conjugate, moved = kiln.tree.map(np.asarray, parts())
    assert (real, imag, conjugate) == (1, 2, 1 - 2j)
    np.testing.assert_array_equal(moved, [[3]])
