"""`grad` and `value_and_grad`: the gradient of a scalar function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

import numpy as np

from kiln.api.derivatives.arguments import (
    FlatFunction,
    array_of,
    check_output,
    check_reduce_axes,
    differentiated,
    require_callable,
    value_of,
)
from kiln.api.derivatives.signatures import Gradient, GradientAndAux, ValueAndGradient
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.lazy import high_derivatives
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import tree_structure, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.core.hitypes import HighOperand
from kiln.core.trace import aval_of
from kiln.ops.shape import scalar
from kiln.transforms import reverse

P = ParamSpec("P")
R = TypeVar("R")
A = TypeVar("A", bound=Any)
Aux = TypeVar("Aux")


@overload
def value_and_grad(
    fun: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> ValueAndGradient[A, P, R]: ...
@overload
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, tuple[R, Any]]: ...


@known_keywords
def value_and_grad(
    fun: Callable[P, R],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, tuple[R, Any]]:
    """Return a function that computes the value of `fun` and its gradient.

    Shapes: the gradient has the structure and shapes of the arguments `argnums`.
    Raises: TypeError for non-scalar, integer or complex outputs, for integer inputs, for argnums
        out of range, and for a missing auxiliary output; NotImplementedError for `reduce_axes`.
    Source: the documentation of `jax.value_and_grad`.
    Example:
        >>> value, slope = kiln.value_and_grad(lambda x: x**2)(3.0)
        >>> float(value), float(slope)
        (9.0, 6.0)
        >>> def loss(w, x):
        ...     error = w * x - 1
        ...     return error**2, error
        >>> (value, error), slope = kiln.value_and_grad(loss, has_aux=True)(2.0, 3.0)
        >>> float(value), float(error), float(slope)
        (25.0, 5.0, 30.0)
    """
    check_reduce_axes(fun, "value_and_grad", reduce_axes)
    return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "value_and_grad")


def _value_and_grad(
    fun: Callable[P, R],
    argnums: Any,
    has_aux: bool,
    holomorphic: bool,
    allow_int: bool,
    what: str,
) -> Callable[P, tuple[R, Any]]:
    require_callable(fun, what)

    def both_of(fun: Callable[..., Any]) -> Callable[..., Any]:
        return _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, what)

    @wraps(fun)
    @api_boundary
    def both(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        try:
            partial, leaves, tree = differentiated(
                fun, what, argnums, args, kwargs, holomorphic=holomorphic, allow_int=allow_int
            )
        except HighOperand:
            found: tuple[Any, Any] = high_derivatives.value_and_grad(both_of, fun, args, kwargs)
            return found
        flat = FlatFunction(partial, what, tree, has_aux)
        outs, program = reverse.linearize(flat, leaves)
        _check_scalar(fun, what, flat, outs)
        aval = aval_of(outs[0])
        check_output(fun, what, aval, holomorphic=holomorphic)
        one = scalar(1, aval)
        pulled = [value_of(ct) for ct in program.first(1).pull([one])]
        grads = tree_unflatten(tree, pulled)
        grad_result = grads[0] if isinstance(argnums, (int, np.integer)) else grads
        value = array_of(outs[0])
        if has_aux:
            return (value, flat.aux(outs)), grad_result
        return value, grad_result

    return both


@overload
def grad(
    fun: Callable[Concatenate[A, P], tuple[Any, Aux]],
    argnums: Literal[0] = ...,
    *,
    has_aux: Literal[True],
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> GradientAndAux[A, P, Aux]: ...
@overload
def grad(
    fun: Callable[Concatenate[A, P], Any],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Gradient[A, P]: ...
@overload
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
    reduce_axes: Sequence[Any] = ...,
) -> Callable[P, Any]: ...


@known_keywords
def grad(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
    reduce_axes: Sequence[Any] = (),
) -> Callable[P, Any]:
    """Return a function that computes the gradient of the scalar function `fun`.

    `argnums` selects the arguments to differentiate with respect to: for a single number the
    gradient has the structure of that argument, for several it is a tuple. If `has_aux`, `fun`
    returns (value, aux), and the result is (gradient, aux).

    Raises: as `value_and_grad`.
    Source: the documentation of `jax.grad`.
    Example:
        >>> kiln.grad(lambda x: x**3)(2.0)
        Array(12., dtype=float32, weak_type=True)
        >>> kiln.grad(lambda x, y: jnp.sum(x * y), argnums=1)(jnp.arange(3.0), jnp.ones(3))
        Array([0., 1., 2.], dtype=float32)
    """
    check_reduce_axes(fun, "grad", reduce_axes)
    both = _value_and_grad(fun, argnums, has_aux, holomorphic, allow_int, "grad")

    @wraps(fun)
    @api_boundary
    def gradient(*args: Any, **kwargs: Any) -> Any:
        value, grads = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads

    return gradient


def _check_scalar(fun: Any, what: str, flat: FlatFunction, outs: Sequence[Any]) -> None:
    if not flat.out_tree.is_leaf:
        found = "was None" if flat.out_tree == _NONE else f"had structure {flat.out_tree}"
        remedy = "return one scalar, or (value, aux) with has_aux=True"
    elif aval_of(outs[0]).shape != ():
        found = f"had shape: {aval_of(outs[0]).shape}"
        remedy = "reduce the output to a scalar (sum, mean), or use jacrev or vjp"
    else:
        return
    raise TypeError(
        three_lines(
            f"{what} of {name_of(fun)} at {current_source()}",
            f"Gradient only defined for scalar-output functions. Output {found}.",
            remedy,
        )
    )


_NONE = tree_structure(None)
