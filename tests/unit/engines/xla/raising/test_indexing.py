"""gather and scatter: where the coordinates are, and how elements are combined."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, stored

X = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("indices", "axis"), [("5x1xi32", 1), ("5xi32", 1), ("1x5xi32", 0), ("1x5xui32", 0)]
)
def test_coordinates_on_any_axis(indices, axis):
    kind = f"tensor<{indices}>"
    program = stored(
        f"%x: tensor<4x3xf32>, %i: {kind}",
        "tensor<5x3xf32>",
        '%r = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<'
        "offset_dims = [1], "
        f"collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = {axis}>, "
        f"slice_sizes = array<i64: 1, 3>}}> : (tensor<4x3xf32>, {kind}) -> tensor<5x3xf32> "
        "return %r : tensor<5x3xf32>",
    )
    aval = program.in_avals[1]
    # Out of bounds they are clamped.
    check(program, X, np.array([3, 0, 9, 1, 1]).reshape(aval.shape).astype(aval.dtype))
    if aval.dtype.kind == "i":
        check(program, X, np.array([3, 0, -9, 1, 1]).reshape(aval.shape).astype(aval.dtype))


def scatter(body: str, kind: str = "f32", outside: str = ""):
    """Return a scatter of three rows by a function of %a, the old element, and %b."""
    rows, updates = f"tensor<4x3x{kind}>", f"tensor<3x3x{kind}>"
    return stored(
        f"%x: {rows}, %i: tensor<1x3xi32>, %u: {updates}",
        rows,
        f'{outside} %r = "stablehlo.scatter"(%x, %i, %u) <{{scatter_dimension_numbers = '
        "#stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0], index_vector_dim = 0>}> "
        f"({{ ^bb0(%a: tensor<{kind}>, %b: tensor<{kind}>): {body} }}) : "
        f"({rows}, tensor<1x3xi32>, {updates}) -> {rows} return %r : {rows}",
    )


def applied(name: str, kind: str = "f32", operands: str = "%a, %b") -> str:
    """Return a body that applies an operation."""
    kind = f"tensor<{kind}>"
    return f"%c = stablehlo.{name} {operands} : {kind} stablehlo.return %c : {kind}"


@pytest.mark.parametrize(
    "body",
    [
        "stablehlo.return %b : tensor<f32>",
        *[applied(n) for n in ("add", "subtract", "multiply", "minimum", "maximum")],
        applied("add", operands="%b, %a"),
    ],
)
def test_windows_out_of_bounds_are_dropped(body):
    updates = np.arange(9, dtype=np.float32).reshape(3, 3) - 3
    # Equal windows are written in an order that is not defined: these are not.
    check(scatter(body), X, np.int32([[3, -1, 1]]), updates)
    if "return %b" not in body:
        check(scatter(body), X, np.int32([[2, 7, 2]]), updates)


@pytest.mark.parametrize("name", ["or", "and", "add", "multiply"])
def test_booleans(name):
    flags = (X > 4), np.int32([[2, 0, 2]]), np.arange(9).reshape(3, 3) % 2 == 0
    check(scatter(applied(name, "i1"), "i1"), *flags)


@pytest.mark.parametrize(
    "body",
    [
        "stablehlo.return %a : tensor<f32>",
        applied("divide"),
        applied("subtract", operands="%b, %a"),
        applied("add", operands="%b, %b"),
        "%d = stablehlo.sine %a : tensor<f32> stablehlo.return %d : tensor<f32>",
    ],
)
def test_other_functions_are_refused(body):
    with pytest.raises(NotImplementedError, match=r"stablehlo\.scatter that combines elements by"):
        jaxpr_of(scatter(body))


def test_several_arrays_are_refused():
    rows = "tensor<4xf32>"
    program = stored(
        f"%x: {rows}, %i: tensor<1x1xi32>, %u: tensor<1xf32>",
        f"{rows}, {rows}",
        '%r:2 = "stablehlo.scatter"(%x, %x, %i, %u, %u) <{scatter_dimension_numbers = '
        "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
        "index_vector_dim = 1>}> ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<f32>, "
        "%d: tensor<f32>): stablehlo.return %c, %d : tensor<f32>, tensor<f32> }) : "
        f"({rows}, {rows}, tensor<1x1xi32>, tensor<1xf32>, tensor<1xf32>) -> ({rows}, {rows}) "
        f"return %r#0, %r#1 : {rows}, {rows}",
    )
    with pytest.raises(NotImplementedError, match="several arrays at once"):
        jaxpr_of(program)
