"""The cost of a function: operations and bytes, counted in its program."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kiln.api.make_jaxpr import make_jaxpr
from kiln.base.tree import tree_leaves
from kiln.experimental.pallas.specs import CostEstimate
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.types import ShapedArray

_SIMPLE = frozenset(
    ("add", "add_any", "sub", "mul", "div", "square", "neg", "min", "max")
    + ("or", "and", "xor", "not", "floor", "ceil", "round")
)
_TRANSCENDENTAL = frozenset(
    ("cos", "sin", "tan", "sinh", "cosh", "tanh", "acos", "asin", "atan", "logistic")
    + ("exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt")
)


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """Return the cost of calling a function with arrays or types of arrays.

    `flops` counts elementwise arithmetic, and two per multiplication of a matrix product;
    `transcendentals` functions such as exp; `bytes_accessed` the sizes of arguments and results.
    The body of a scan counts for each iteration, that of other loops once; of branches the most
    expensive one counts. Data movement, comparisons and reductions are free.

    Source: the documentation of `jax.experimental.pallas.estimate_cost`.
    Example:
        >>> from kiln.experimental import pallas as pl
        >>> pl.estimate_cost(lambda x: jnp.exp(x) + 1, jnp.ones(10))
        CostEstimate(flops=10, transcendentals=10, bytes_accessed=80, remote_bytes_transferred=0)
    """
    jaxpr = make_jaxpr(lambda *args: fun(*args, **kwargs))(*args).jaxpr
    flops, transcendentals = _of_program(jaxpr)
    arrays = [*jaxpr.in_avals, *jaxpr.out_avals]
    return CostEstimate(
        flops=flops,
        transcendentals=transcendentals,
        bytes_accessed=sum(math.prod(a.shape) * a.dtype.itemsize for a in arrays),
    )


def _of_program(jaxpr: Jaxpr) -> tuple[int, int]:
    costs = [_of_equation(eqn) for eqn in jaxpr.eqns]
    return sum(a for a, _ in costs), sum(b for _, b in costs)


def _of_equation(eqn: Eqn) -> tuple[int, int]:
    name, params = eqn.primitive.name, eqn.params
    inner = [_of_program(x) for x in tree_leaves(params) if isinstance(x, Jaxpr)]
    if inner:
        times = params["length"] if name == "scan" else 1
        flops, transcendentals = (
            max(inner) if name == "cond" else map(sum, zip(*inner, strict=True))
        )
        return times * flops, times * transcendentals
    out = eqn.outvars[0].aval if eqn.outvars else None
    if not isinstance(out, ShapedArray):
        return 0, 0
    count = math.prod(out.shape)
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        return 2 * count * math.prod(eqn.invars[0].aval.shape[i] for i in contracted), 0
    if name == "integer_pow":
        # Squarings, and a product for each further one bit.
        exponent = abs(params["y"])
        each = exponent.bit_length() - 1 + exponent.bit_count() if exponent > 1 else 0
        return each * count, 0
    return count * (name in _SIMPLE), count * (name in _TRANSCENDENTAL)
