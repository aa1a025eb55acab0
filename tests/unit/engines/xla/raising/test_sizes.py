"""Modules whose sizes are computed are raised for named sizes, and compute what XLA computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, lax
from kiln.control.exported_call import PortableProgram, expanded
from kiln.engines.xla.raising.raiser import Sizes, array_of
from kiln.engines.xla.stablehlo.mlir import to_artifact
from kiln.export.exported import portable
from kiln.ir.types import ShapedArray

N = export.symbolic_shape("n")[0]
F32 = np.dtype(np.float32)
PROGRAMS = {
    "shape": lambda x: x.reshape(-1)[:, None] * jnp.ones((2 * x.shape[0], 2)).T.ravel(),
    "quotient": lambda x: jnp.arange(x.shape[0] // 2 + 1) + x.shape[0] % 3,
    "concatenation": lambda x: jnp.concatenate([x, 2 * x, x[:1]])[1 : 2 * x.shape[0]],
    "padding": lambda x: jnp.pad(x, ((1, x.shape[0]), (0, 0)), constant_values=3),
    "loop": lambda x: lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0]),
    "scan": lambda x: lax.scan(lambda c, row: (c + row, c * row), x[0], x)[1],
    "gather": lambda x: x[:, jnp.array([1, 0, 1])],
    "running": lambda x: jnp.cumsum(x, 0),
}


def _expanded(program: PortableProgram, *shape: Any) -> Any:
    return expanded(program, [ShapedArray(shape, F32)])


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_of_named_sizes(name: str) -> None:
    run = PROGRAMS[name]
    struct = kiln.ShapeDtypeStruct((N, 2), F32)
    loaded = export.deserialize(export.export(kiln.jit(run))(struct).serialize())
    raised = _expanded(portable(loaded), N, 2)
    assert raised.in_avals == [ShapedArray((N, 2), F32)]
    jitted = kiln.jit(loaded.call, abstracted_axes=("n",))
    before = dict(kiln.fallback_counts())
    for n in (1, 2, 5):
        x = np.linspace(-1, 3, 2 * n, dtype=F32).reshape(n, 2)
        np.testing.assert_allclose(jitted(x), run(jnp.asarray(x)), rtol=1e-6, atol=1e-6)
    assert kiln.fallback_counts() == before


def _module(body: str, results: str = "tensor<?xf32>", out: Any = (N,)) -> PortableProgram:
    """Return a program of a row of named size, of which `%n` is the size."""
    size = "%n = stablehlo.get_dimension_size %x, dim = 0 : (tensor<?xf32>) -> tensor<i32>"
    text = f"func.func public @main(%x: tensor<?xf32>) -> ({results}) {{ {size} {body} }}"
    types = (ShapedArray((N,), F32),)
    outs = (ShapedArray(out, F32),)
    artifact = to_artifact(f"module {{ {text} }}")
    return PortableProgram("f", artifact, types, outs, ("x",), (0,), ("cpu",), is_refined=True)


CHOICE = """
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %low = stablehlo.compare LT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %yes = stablehlo.not %low : tensor<i1>
  %size = stablehlo.select %yes, %n, %zero : tensor<i1>, tensor<i32>
  %shape = stablehlo.reshape %size : (tensor<i32>) -> tensor<1xi32>
  %y = stablehlo.dynamic_reshape %x, %shape : (tensor<?xf32>, tensor<1xi32>) -> tensor<?xf32>
  return %y : tensor<?xf32>
"""
UNDECIDED = CHOICE.replace("dense<0>", "dense<5>")


def test_comparisons_that_hold_for_all_sizes_are_decided() -> None:
    assert [eqn.primitive.name for eqn in _expanded(_module(CHOICE), N).eqns] == []


def test_a_shape_that_depends_on_which_size_it_is_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="a shape that is computed from elements"):
        _expanded(_module(UNDECIDED), N)


def test_a_shape_that_depends_on_elements_is_refused() -> None:
    body = """
      %one = "stablehlo.slice"(%x) {start_indices = array<i64: 0>, limit_indices = array<i64: 1>,
        strides = array<i64: 1>} : (tensor<?xf32>) -> tensor<1xf32>
      %shape = stablehlo.convert %one : (tensor<1xf32>) -> tensor<1xi32>
      %y = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      return %y : tensor<?xf32>
    """
    with pytest.raises(NotImplementedError, match="a shape that is computed from elements"):
        _expanded(_module(body), N)


def test_results_have_the_sizes_that_are_written() -> None:
    body = """
      %two = stablehlo.constant dense<2> : tensor<i32>
      %more = stablehlo.add %n, %two : tensor<i32>
      %shape = stablehlo.reshape %more : (tensor<i32>) -> tensor<1xi32>
      %y = stablehlo.dynamic_iota %shape, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
      return %y : tensor<?xf32>
    """
    jaxpr = _expanded(_module(body, out=(N + 2,)), N)
    assert jaxpr.out_avals == [ShapedArray((N + 2,), F32)]
    with pytest.raises(ValueError, match="it returns"):
        _expanded(_module(body), N)


def test_sizes_are_numbers_that_a_program_reads() -> None:
    body = """
      %number = stablehlo.convert %n : (tensor<i32>) -> tensor<f32>
      return %number : tensor<f32>
    """
    jaxpr = _expanded(_module(body, "tensor<f32>", ()), N)
    assert "size_value" in [eqn.primitive.name for eqn in jaxpr.eqns]


def test_known_sizes_are_constants() -> None:
    found = array_of(Sizes([[1, 2], [3, 4]], np.int32))
    np.testing.assert_array_equal(np.asarray(found), [[1, 2], [3, 4]])
    assert Sizes([N, 2], np.int32).numbers() is None
