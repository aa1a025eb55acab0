"""Running one operation as a program of its own, by the name in `jax.interpreters.xla`."""

from __future__ import annotations

from typing import Any

from kiln.core.primitive import Primitive
from kiln.execution.eager import EVAL


def apply_primitive(prim: Primitive, *args: Any, **params: Any) -> Any:
    """Compile an operation for operands and run it.

    `primitive.def_impl(functools.partial(xla.apply_primitive, primitive))` says that the operation
    is always run like this, which is also what kiln does if nothing is said.
    """
    return EVAL.run(prim, args, params)


__all__ = ["apply_primitive"]
