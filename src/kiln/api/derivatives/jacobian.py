"""Jacobians and Hessians: a derivative mapped over a basis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, Literal, ParamSpec, TypeVar, overload

import numpy as np

from kiln.api.derivatives.arguments import Auxiliary, check_output, differentiated, require_callable
from kiln.api.derivatives.linear import jvp, vjp
from kiln.api.derivatives.signatures import Jacobian
from kiln.api.mapping.vmap import vmap
from kiln.base import dtypes
from kiln.base.keywords import known_keywords
from kiln.base.source import api_boundary
from kiln.base.tree import tree_flatten, tree_leaves, tree_structure, tree_unflatten
from kiln.base.wrapping import wraps
from kiln.core.arrays.array import from_host
from kiln.core.trace import aval_of
from kiln.ir.sizes.size import product
from kiln.ir.types import ShapedArray, plain
from kiln.ops.indexing.slicing import slice_in_dim
from kiln.ops.shape import reshape, zeros_of

P = ParamSpec("P")
A = TypeVar("A", bound=Any)
R = TypeVar("R")


def _basis(tree: Any) -> Any:
    """Return, per leaf, the unit vectors of the whole tree's space, stacked in front."""
    leaves, treedef = tree_flatten(tree)
    sizes = [int(aval_of(x).size) for x in leaves]
    total = sum(sizes)
    offset = 0
    stacks = []
    for x, size in zip(leaves, sizes, strict=True):
        aval = aval_of(x)
        unit = np.zeros((total, size), aval.dtype)
        unit[offset : offset + size] = np.eye(size, dtype=aval.dtype)
        shape = (total, *aval.shape)
        stacks.append(from_host(unit.reshape(shape), plain(aval).with_(shape=shape)))
        offset += size
    return tree_unflatten(treedef, stacks)


def _unstack(stack: Any, leaves: Sequence[Any], treedef: Any, axis: int) -> Any:
    """Split the basis axis of a stack into the leaves' shapes, placed at `axis`."""
    from_shapes = [aval_of(x).shape for x in leaves]
    out, offset = [], 0
    for shape in from_shapes:
        size = int(product(shape))
        piece = slice_in_dim(stack, offset, offset + size, axis=axis)
        full_shape = (*stack.shape[:axis], *shape, *stack.shape[axis + 1 :])
        out.append(reshape(piece, full_shape) if full_shape != piece.shape else piece)
        offset += size
    return tree_unflatten(treedef, out)


@overload
def jacfwd(
    fun: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
) -> Jacobian[A, P, R]: ...
@overload
def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, Any]: ...


@known_keywords
def jacfwd(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of `fun` column by column (forward mode).

    Cheaper than `jacrev` if there are fewer inputs than outputs.

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    Example:
        >>> kiln.jacfwd(lambda x: x**2)(jnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [0., 4.]], dtype=float32)
        >>> kiln.jacfwd(lambda x: {"sum": x.sum(), "twice": 2 * x})(jnp.ones(2))
        {'sum': Array([1., 1.], dtype=float32), 'twice': Array([[2., 0.],
               [0., 2.]], dtype=float32)}
    """
    require_callable(fun, "jacfwd")

    @wraps(fun)
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, leaves, tree = differentiated(
            fun, "jacfwd", argnums, args, kwargs, holomorphic=holomorphic, allow_int=False
        )
        values = tree_unflatten(tree, leaves)
        auxiliary = Auxiliary()
        results: list[ShapedArray] = []

        def push(*tangents: Any) -> Any:
            value, tangent, *aux = jvp(partial, values, tangents, has_aux=has_aux)
            results[:] = [aval_of(x) for x in tree_leaves(value)]
            return tangent, [auxiliary.take(x) for x in aux]

        stacked, aux = vmap(push, out_axes=(-1, None))(*_basis(values))
        for aval in results:
            check_output(fun, "jacfwd", aval, holomorphic=holomorphic)
        inner = tree_structure(values[0]) if isinstance(argnums, (int, np.integer)) else tree
        columns, out_tree = tree_flatten(stacked)
        pieces = [
            _unstack(_tangents_as(s, aval), leaves, inner, len(aval.shape))
            for s, aval in zip(columns, results, strict=True)
        ]
        jac = tree_unflatten(out_tree, pieces)
        return (jac, auxiliary.rebuilt(aux[0])) if has_aux else jac

    return jacobian_of


def _tangents_as(stack: Any, aval: ShapedArray) -> Any:
    """Return a stack of tangents or cotangents; those of integers become integers."""
    if stack.dtype != dtypes.float0 or dtypes.is_extended(aval.dtype):
        return stack
    return zeros_of(plain(aval).with_(shape=stack.shape))


@overload
def jacrev(
    fun: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Jacobian[A, P, R]: ...
@overload
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
    allow_int: bool = ...,
) -> Callable[P, Any]: ...


@known_keywords
def jacrev(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[P, Any]:
    """Return a function that computes the Jacobian of `fun` row by row (reverse mode).

    Cheaper than `jacfwd` if there are fewer outputs than inputs.

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    Example:
        >>> kiln.jacrev(lambda x: x[0] * x)(jnp.array([1.0, 2.0]))
        Array([[2., 0.],
               [2., 1.]], dtype=float32)
        >>> kiln.jacrev(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0)
        (Array(3., dtype=float32, weak_type=True), Array(2., dtype=float32, weak_type=True))
    """
    require_callable(fun, "jacrev")

    @wraps(fun)
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, leaves, tree = differentiated(
            fun, "jacrev", argnums, args, kwargs, holomorphic=holomorphic, allow_int=allow_int
        )
        result = vjp(partial, *tree_unflatten(tree, leaves), has_aux=has_aux)
        value, pull, *aux = result
        for x in tree_leaves(value):
            check_output(fun, "jacrev", aval_of(x), holomorphic=holomorphic)
        rows = vmap(pull)(_basis(value))
        out_leaves, out_tree = tree_flatten(value)
        pieces = [
            _unstack(_tangents_as(r, aval_of(x)), out_leaves, out_tree, 0)
            for r, x in zip(tree_leaves(rows), leaves, strict=True)
        ]
        transposed = [
            tree_unflatten(tree, [tree_leaves(p)[i] for p in pieces])
            for i in range(len(out_leaves))
        ]
        single = isinstance(argnums, (int, np.integer))
        jac = tree_unflatten(out_tree, [t[0] if single else t for t in transposed])
        return (jac, aux[0]) if has_aux else jac

    return jacobian_of


jacobian = jacrev


@overload
def hessian(
    fun: Callable[Concatenate[A, P], R],
    argnums: Literal[0] = ...,
    has_aux: Literal[False] = ...,
    holomorphic: bool = ...,
) -> Jacobian[A, P, R]: ...
@overload
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = ...,
    has_aux: bool = ...,
    holomorphic: bool = ...,
) -> Callable[P, Any]: ...


@known_keywords
def hessian(
    fun: Callable[P, Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[P, Any]:
    """Return a function that computes the Hessian of `fun`.

    Shapes: for a scalar function of an argument of shape A, (*A, *A).
    Example:
        >>> kiln.hessian(lambda x: x[0] * x[1])(jnp.array([1.0, 2.0]))
        Array([[0., 1.],
               [1., 0.]], dtype=float32)
        >>> kiln.hessian(lambda x: jnp.sum(x**3))(jnp.array([1.0, 2.0])).diagonal()
        Array([ 6., 12.], dtype=float32)
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
