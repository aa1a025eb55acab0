"""Modules of StableHLO as text, raised to jaxprs, and run by all engines."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from kiln.base.options.config import override
from kiln.control.exported_call import PortableProgram, call_exported_p, expanded
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.xla.stablehlo.mlir import to_artifact
from kiln.engines.xla.stablehlo.text import dtype_of
from kiln.execution.compilation import compile_jaxpr
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray

_TENSOR = re.compile(r"tensor<((?:\d+x)*)([\w<>]+?)>(?=[,)\s]|$)")


def types_of(text: str) -> tuple[ShapedArray, ...]:
    """Return the types in a text such as `tensor<2x3xf32>, tensor<i32>`."""
    return tuple(
        [
            ShapedArray([int(n) for n in shape.split("x") if n], dtype_of(name))
            for shape, name in _TENSOR.findall(text)
        ]
    )


def stored(operands: str, results: str, body: str, others: str = "") -> PortableProgram:
    """Return a program: `operands` as `%x: tensor<f32>`, the types of results, its operations."""
    head = f"func.func public @main({operands}) -> ({results})"
    artifact = to_artifact(f"module {{ {head} {{ {body} }} {others} }}")
    types, outs = types_of(operands), types_of(results)
    kept = tuple(range(len(types)))
    names = tuple(f"args[{i}]" for i in kept)
    return PortableProgram("f", artifact, types, outs, names, kept, ("cpu",))


def jaxpr_of(program: PortableProgram) -> Jaxpr:
    """Return a program as a jaxpr."""
    return expanded(program, program.in_avals)


def names_of(jaxpr: Jaxpr) -> list[str]:
    """Return the names of the primitives of a jaxpr, in order."""
    return [eqn.primitive.name for eqn in jaxpr.eqns]


def results(program: PortableProgram, engine: str, *arrays: Any) -> list[np.ndarray]:
    """Return the results of a program on an engine."""
    given = [from_host(np.asarray(x)) for x in arrays]
    jaxpr = stage_pure(
        lambda *xs: call_exported_p.bind(*xs, program=program), [aval_of(x) for x in given]
    )
    with override(engine=engine):
        return [np.asarray(x) for x in compile_jaxpr(jaxpr, "f")(given)]


def check(program: PortableProgram, *arrays: Any, rtol: float = 1e-6) -> list[np.ndarray]:
    """Check that engines agree with XLA, which runs the StableHLO itself; return the results."""
    expected = results(program, "xla", *arrays)
    for engine in ("native", "reference"):
        for x, y in zip(results(program, engine, *arrays), expected, strict=True):
            assert x.dtype == y.dtype
            kind = np.float64 if y.dtype.kind != "c" else np.complex128
            np.testing.assert_allclose(x.astype(kind), y.astype(kind), rtol, 1e-6, err_msg=engine)
    return expected
