"""Programs of one equation whose lowering a test writes down, and how to run them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.core.engines.engine import Program, engine
from kiln.core.primitive import Primitive
from kiln.engines.xla import lowerings
from kiln.engines.xla.engine import XlaEngine
from kiln.engines.xla.launches.executable import XlaExecutable
from kiln.ir.effects import NO_EFFECTS, Effects
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.types import ShapedArray

XLA: XlaEngine = engine("xla")  # type: ignore[assignment]


def aval(*shape: int, dtype: Any = np.float32) -> ShapedArray:
    return ShapedArray(shape, dtype if not isinstance(dtype, type) else np.dtype(dtype))


class Lowered(Primitive):
    """A primitive that is nothing but its lowering."""

    multiple = True


def one_equation(
    primitive: Primitive,
    ins: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
    effects: Effects = NO_EFFECTS,
    **params: Any,
) -> Program:
    invars, outvars = [Var(a) for a in ins], [Var(a) for a in outs]
    eqn = Eqn(primitive, invars, outvars, params, effects)
    return Program(Jaxpr([], invars, [eqn], outvars), primitive.name)


def compiled(
    lowering: Callable[..., Any],
    ins: Sequence[ShapedArray],
    outs: Sequence[ShapedArray],
    effects: Effects = NO_EFFECTS,
    name: str = "test",
) -> XlaExecutable:
    """Compile a program of one equation that `lowering(b, out, *operands)` writes."""
    primitive = Lowered(name)
    lowerings.LOWERINGS[primitive] = lowering
    try:
        return XLA.compiler.compile(one_equation(primitive, ins, outs, effects))
    finally:
        del lowerings.LOWERINGS[primitive]


def run(executable: XlaExecutable, *args: Any) -> list[np.ndarray]:
    memory = XLA.memory
    return [memory.get(out) for out in executable([memory.put(np.asarray(a)) for a in args])]


def apply(primitive: Primitive, *arrays: Any, **params: Any) -> np.ndarray:
    """Run one primitive on host data."""
    values = [np.asarray(a) for a in arrays]
    avals = [ShapedArray(a.shape, a.dtype) for a in values]
    out = primitive.infer(*avals, **params)
    program = one_equation(primitive, avals, [out], **params)
    return run(XLA.compiler.compile(program), *values)[0]
