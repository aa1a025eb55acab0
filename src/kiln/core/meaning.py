"""What a program means: each primitive's NumPy rule, equation by equation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.ir.jaxpr import Jaxpr


def meaning(jaxpr: Jaxpr, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a jaxpr without constants on NumPy arrays."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> np.ndarray:
        return np.asarray(atom.val, atom.aval.dtype) if atom.is_literal else env[atom]

    for eqn in jaxpr.eqns:
        result = eqn.primitive.numpy(*map(read, eqn.invars), **eqn.params)
        results = result if eqn.primitive.multiple else [result]
        for var, value in zip(eqn.outvars, results, strict=True):
            env[var] = _frozen(value, var.aval)
    return [_frozen(read(v), v.aval) for v in jaxpr.outvars]


def _frozen(value: Any, aval: Any) -> np.ndarray:
    out = np.asarray(value, aval.physical().dtype)
    if out.flags.writeable:
        out = out.view()
        out.flags.writeable = False
    return out
