"""Windows: operations and cumulative reductions are recognized, adjoints of pooling too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

X = np.float32(np.random.RandomState(0).randint(-9, 9, (4, 5)))


def windows(name: str, start: str, after: str, attributes: str):
    """Return a reduction of windows by an operation."""
    return stored(
        "%x: tensor<4x5xf32>",
        f"tensor<{after}xf32>",
        f"%s = stablehlo.constant dense<{start}> : tensor<f32> "
        f'%r = "stablehlo.reduce_window"(%x, %s) <{{{attributes}}}> '
        "({ ^bb0(%a: tensor<f32>, %b: tensor<f32>): "
        f"%c = stablehlo.{name} %a, %b : tensor<f32> stablehlo.return %c : tensor<f32> }}) : "
        f"(tensor<4x5xf32>, tensor<f32>) -> tensor<{after}xf32> return %r : tensor<{after}xf32>",
    )


def along(axis: int, size: int, low: int, high: int) -> str:
    """Return the attributes of windows along one axis."""
    sizes, pads = [1, 1], [[0, 0], [0, 0]]
    sizes[axis], pads[axis] = size, [low, high]
    return (
        f"window_dimensions = array<i64: {sizes[0]}, {sizes[1]}>, "
        f"padding = dense<{pads}> : tensor<2x2xi64>"
    )


STARTS = {"add": "0.0", "multiply": "1.0", "maximum": "0xFF800000", "minimum": "0x7F800000"}
NAMES = {"add": "cumsum", "multiply": "cumprod", "maximum": "cummax", "minimum": "cummin"}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("axis", "low", "high"), [(0, 3, 0), (1, 0, 4)])
def test_cumulative_reductions(name, axis, low, high):
    size = X.shape[axis]
    program = windows(name, STARTS[name], "4x5", along(axis, size, low, high))
    check(program, X)
    assert names_of(jaxpr_of(program)) == [NAMES[name]]


@pytest.mark.parametrize(
    ("start", "after", "attributes"),
    [
        ("2.0", "4x5", along(1, 5, 4, 0)),
        ("0.0", "4x5", along(1, 5, 3, 1)),
        ("0.0", "4x4", along(1, 5, 3, 0)),
        ("0.0", "4x5", along(1, 3, 2, 0)),
        ("0.0", "2x5", along(0, 4, 3, 0) + ", window_strides = array<i64: 2, 1>"),
        ("0.0", "3x5", along(0, 2, 0, 0)),
        ("0.0", "4x9", along(1, 2, 0, 1) + ", base_dilations = array<i64: 1, 2>"),
        ("0.0", "2x5", along(0, 2, 0, 0) + ", window_dilations = array<i64: 2, 1>"),
    ],
)
def test_other_windows_stay_windows(start, after, attributes):
    program = windows("add", start, after, attributes)
    check(program, X)
    assert "reduce_window_sum" in names_of(jaxpr_of(program))


def test_products_of_windows():
    check(windows("multiply", "1.0", "3x5", along(0, 2, 0, 0)), X)


def selected(direction: str, name: str = "add", start: str = "0.0"):
    """Return the adjoint of pooling: a source is scattered to the extremes of windows."""
    flag = "(tensor<f32>, tensor<f32>) -> tensor<i1>"
    return stored(
        "%x: tensor<4x5xf32>, %u: tensor<2x2xf32>",
        "tensor<4x5xf32>",
        f"%s = stablehlo.constant dense<{start}> : tensor<f32> "
        '%r = "stablehlo.select_and_scatter"(%x, %u, %s) <{window_dimensions = array<i64: 3, 2>, '
        "window_strides = array<i64: 2, 2>, padding = dense<[[0, 1], [0, 0]]> : tensor<2x2xi64>}> "
        f"({{ ^bb0(%a: tensor<f32>, %b: tensor<f32>): %c = stablehlo.compare {direction}, %a, %b, "
        f"FLOAT : {flag} stablehlo.return %c : tensor<i1> }}, "
        f"{{ ^bb0(%d: tensor<f32>, %e: tensor<f32>): %f = stablehlo.{name} %d, %e : tensor<f32> "
        "stablehlo.return %f : tensor<f32> }) : (tensor<4x5xf32>, tensor<2x2xf32>, tensor<f32>) -> "
        "tensor<4x5xf32> return %r : tensor<4x5xf32>",
    )


@pytest.mark.parametrize("direction", ["GE", "LE"])
def test_adjoints_of_pooling(direction):
    check(selected(direction), X, np.float32([[1, 2], [3, 4]]))


@pytest.mark.parametrize("how", [("GT",), ("GE", "maximum"), ("GE", "add", "1.0")])
def test_other_adjoints_are_refused(how):
    with pytest.raises(NotImplementedError, match=r"stablehlo\.select_and_scatter that does not"):
        jaxpr_of(selected(*how))
