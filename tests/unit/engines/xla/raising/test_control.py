"""Calls, loops, branches; what stands for an operation of CHLO."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

X = np.float32([0.5, -1.5, 2.0])
KIND = "tensor<3xf32>"


def branch(name: str) -> str:
    """Return a region that applies a function to a value from outside."""
    return f"{{ %c_{name} = stablehlo.{name} %x : {KIND} stablehlo.return %c_{name} : {KIND} }}"


@pytest.mark.parametrize("index", [0, 1, 2, 3, -1, 100])
def test_numbers_out_of_range_choose_the_last_branch(index):
    regions = ", ".join(map(branch, ("sine", "negate", "exponential")))
    program = stored(
        f"%i: tensor<i32>, %x: {KIND}",
        KIND,
        f'%r = "stablehlo.case"(%i) ({regions}) : (tensor<i32>) -> {KIND} return %r : {KIND}',
    )
    (found,) = check(program, np.int32(index), X)
    expected = (np.sin, np.negative, np.exp)[index if 0 <= index < 3 else 2](X)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("flag", [True, False])
def test_flags(flag):
    program = stored(
        f"%p: tensor<i1>, %x: {KIND}",
        KIND,
        f'%r = "stablehlo.if"(%p) ({branch("sine")}, {branch("negate")}) : (tensor<i1>) -> {KIND} '
        f"return %r : {KIND}",
    )
    (found,) = check(program, np.bool_(flag), X)
    np.testing.assert_allclose(found, np.sin(X) if flag else -X, rtol=1e-6)


def test_one_branch():
    program = stored(
        f"%i: tensor<i32>, %x: {KIND}",
        KIND,
        f'%r = "stablehlo.case"(%i) ({branch("sine")}) : (tensor<i32>) -> {KIND} '
        f"return %r : {KIND}",
    )
    check(program, np.int32(7), X)


def test_loops_read_values_around_them():
    flag = "(tensor<i32>, tensor<i32>) -> tensor<i1>"
    program = stored(
        f"%n: tensor<i32>, %x: {KIND}",
        f"tensor<i32>, {KIND}",
        "%zero = stablehlo.constant dense<0> : tensor<i32> "
        "%one = stablehlo.constant dense<1> : tensor<i32> "
        f"%r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, {KIND} "
        f"cond {{ %p = stablehlo.compare LT, %i, %n, SIGNED : {flag} "
        "stablehlo.return %p : tensor<i1> } "
        f"do {{ %j = stablehlo.add %i, %one : tensor<i32> %z = stablehlo.add %y, %x : {KIND} "
        f"stablehlo.return %j, %z : tensor<i32>, {KIND} }} "
        f"return %r#0, %r#1 : tensor<i32>, {KIND}",
    )
    for count in (0, 1, 5):
        at, found = check(program, np.int32(count), X)
        assert at == count
        np.testing.assert_allclose(found, X * (count + 1))


HALF = (
    f"func.func private @half(%a: {KIND}) -> {KIND} {{ %b = stablehlo.add %a, %a : {KIND} "
    f"%c = stablehlo.sine %b : {KIND} return %c : {KIND} }}"
)


def test_functions_are_raised_once():
    program = stored(
        f"%x: {KIND}",
        KIND,
        f"%a = func.call @half(%x) : ({KIND}) -> {KIND} %b = func.call @half(%a) : ({KIND}) -> "
        f"{KIND} return %b : {KIND}",
        HALF,
    )
    check(program, X)
    first, second = jaxpr_of(program).eqns
    assert first.primitive.name == second.primitive.name == "jit"
    assert first.params["jaxpr"] is second.params["jaxpr"]


@pytest.mark.parametrize(("name", "expected"), [("chlo.sinh", "sinh"), ("other.sinh", "jit")])
def test_composites(name, expected):
    program = stored(
        f"%x: {KIND}",
        KIND,
        f'%a = stablehlo.composite "{name}" %x {{decomposition = @half}} : ({KIND}) -> {KIND} '
        f"return %a : {KIND}",
        HALF,
    )
    assert names_of(jaxpr_of(program)) == [expected]


def test_barriers():
    program = stored(
        f"%x: {KIND}",
        f"{KIND}, {KIND}",
        f"%a:2 = stablehlo.optimization_barrier %x, %x : {KIND}, {KIND} "
        f"return %a#0, %a#1 : {KIND}, {KIND}",
    )
    check(program, X)
