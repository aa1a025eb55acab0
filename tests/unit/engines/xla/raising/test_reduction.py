"""Reductions: sums and positions are recognized; other functions are kept."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

X = np.float32([[3, np.nan, -1, 7], [2, 2, 2, 2], [-np.inf, 0, -0.0, -np.inf]])


def reduced(name: str, start: str, body: str = ""):
    """Return a reduction of rows by an operation."""
    body = body or f"%c = stablehlo.{name} %a, %b : tensor<f32> stablehlo.return %c : tensor<f32>"
    return stored(
        "%x: tensor<3x4xf32>",
        "tensor<3xf32>",
        f"%s = stablehlo.constant dense<{start}> : tensor<f32> "
        f'%r = "stablehlo.reduce"(%x, %s) <{{dimensions = array<i64: 1>}}> '
        f"({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): {body} }}) : "
        "(tensor<3x4xf32>, tensor<f32>) -> tensor<3xf32> return %r : tensor<3xf32>",
    )


@pytest.mark.parametrize(
    ("name", "start", "expected"),
    [
        ("add", "0.0", ["reduce_sum"]),
        ("add", "2.0", ["reduce_sum", "add"]),
        ("multiply", "1.0", ["reduce_prod"]),
        ("maximum", "0xFF800000", ["reduce_max"]),
        ("minimum", "0x7F800000", ["reduce_min"]),
    ],
)
def test_operations(name, start, expected):
    program = reduced(name, start)
    check(program, X)
    assert names_of(jaxpr_of(program)) == expected


def test_other_functions():
    body = (
        "%m = stablehlo.abs %b : tensor<f32> %c = stablehlo.add %a, %m : tensor<f32> "
        "stablehlo.return %c : tensor<f32>"
    )
    program = reduced("", "0.0", body)
    # Not associative for its first operand, which is never negative here.
    check(program, np.abs(X[1:2].repeat(3, 0)))
    assert "reduce" in names_of(jaxpr_of(program))


def position(direction: str, start: str, *, tested: bool = True, returns: str = "%r#1", at="LT"):
    """Return the position of an extreme along rows."""
    flag = "(tensor<f32>, tensor<f32>) -> tensor<i1>"
    nan = "%w = stablehlo.or %p, %n : tensor<i1>" if tested else ""
    wins = "%w" if tested else "%p"
    out = "tensor<3xi32>" if returns == "%r#1" else "tensor<3xf32>, tensor<3xi32>"
    return stored(
        "%x: tensor<3x4xf32>",
        out,
        f"%s = stablehlo.constant dense<{start}> : tensor<f32> "
        "%z = stablehlo.constant dense<0> : tensor<i32> "
        "%i = stablehlo.iota dim = 1 : tensor<3x4xi32> "
        '%r:2 = "stablehlo.reduce"(%x, %i, %s, %z) <{dimensions = array<i64: 1>}> '
        "({ ^bb0(%a: tensor<f32>, %j: tensor<i32>, %b: tensor<f32>, %k: tensor<i32>): "
        f"%p = stablehlo.compare {direction}, %a, %b, FLOAT : {flag} "
        f"%n = stablehlo.compare NE, %a, %a, FLOAT : {flag} {nan} "
        f"%e = stablehlo.compare EQ, %a, %b, FLOAT : {flag} "
        f"%l = stablehlo.compare {at}, %j, %k, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1> "
        f"%t = stablehlo.and %e, %l : tensor<i1> %q = stablehlo.or {wins}, %t : tensor<i1> "
        f"%f = stablehlo.select {wins}, %a, %b : tensor<i1>, tensor<f32> "
        "%g = stablehlo.select %q, %j, %k : tensor<i1>, tensor<i32> "
        "stablehlo.return %f, %g : tensor<f32>, tensor<i32> }) : (tensor<3x4xf32>, "
        "tensor<3x4xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>) "
        f"return {returns} : {out}",
    )


@pytest.mark.parametrize(
    ("direction", "start", "expected"),
    [("GT", "0xFF800000", "argmax"), ("LT", "0x7F800000", "argmin")],
)
def test_positions(direction, start, expected):
    program = position(direction, start)
    check(program, X)
    assert expected in names_of(jaxpr_of(program))


@pytest.mark.parametrize(
    "how", [{"start": "0.0"}, {"returns": "%r#0, %r#1"}, {"at": "GT"}, {"direction": "GE"}]
)
def test_what_is_not_the_first_position_stays_a_reduction(how):
    program = position(**{"direction": "GT", "start": "0xFF800000", **how})
    assert "reduce" in names_of(jaxpr_of(program))
    check(program, np.float32([[3, 1, 9, 4], [2, 5, 3, 1], [8, 7, 6, 5]]))


def test_positions_without_a_test_for_nan():
    program = position("GT", "0xFF800000", tested=False)
    check(program, X[1:].repeat(2, 0)[:3])
