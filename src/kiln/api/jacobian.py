"""Jacobians and Hessians: a derivative applied to a basis, all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.api.arguments import differentiated, require_callable
from kiln.api.linear import jvp, vjp
from kiln.api.vmap import vmap
from kiln.base.source import api_boundary
from kiln.base.tree import tree_flatten, tree_leaves, tree_map, tree_structure, tree_unflatten
from kiln.core.array import from_host
from kiln.core.trace import aval_of
from kiln.ir.sizes import product
from kiln.ops.shape import reshape
from kiln.ops.slicing import slice_in_dim


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
        stacks.append(from_host(unit.reshape(shape), aval.with_(shape=shape)))
        offset += size
    return tree_unflatten(treedef, stacks)


def _unstack(stack: Any, leaves: Sequence[Any], treedef: Any, axis: int) -> Any:
    """Cut the basis axis of a stack into the leaves' shapes, placed at `axis`."""
    from_shapes = [aval_of(x).shape for x in leaves]
    out, offset = [], 0
    for shape in from_shapes:
        size = int(product(shape))
        piece = slice_in_dim(stack, offset, offset + size, axis=axis)
        full_shape = (*stack.shape[:axis], *shape, *stack.shape[axis + 1 :])
        out.append(reshape(piece, full_shape) if full_shape != piece.shape else piece)
        offset += size
    return tree_unflatten(treedef, out)


def jacfwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fun`, column by column (forward mode).

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    """
    require_callable(fun, "jacfwd")

    @functools.wraps(fun, updated=())
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, leaves, tree = differentiated(
            fun, "jacfwd", argnums, args, kwargs, holomorphic=holomorphic, allow_int=False
        )
        values = tree_unflatten(tree, leaves)

        def push(*tangents: Any) -> Any:
            out = jvp(partial, values, tangents, has_aux=has_aux)
            return out[1:] if has_aux else out[1]

        basis = _basis(values)
        if has_aux:
            stacked, aux = vmap(push, out_axes=(-1, None))(*basis)
        else:
            stacked, aux = vmap(push, out_axes=-1)(*basis), None
        single = isinstance(argnums, (int, np.integer))
        inner = tree_structure(values[0]) if single else tree
        jac = tree_map(lambda s: _unstack(s, leaves, inner, s.ndim - 1), stacked)
        return (jac, aux) if has_aux else jac

    return jacobian_of


def jacrev(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
    allow_int: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Jacobian of `fun`, row by row (reverse mode).

    Shapes: for an output of shape S and an argument of shape A, (*S, *A).
    """
    require_callable(fun, "jacrev")

    @functools.wraps(fun, updated=())
    @api_boundary
    def jacobian_of(*args: Any, **kwargs: Any) -> Any:
        partial, leaves, tree = differentiated(
            fun, "jacrev", argnums, args, kwargs, holomorphic=holomorphic, allow_int=allow_int
        )
        result = vjp(partial, *tree_unflatten(tree, leaves), has_aux=has_aux)
        value, pull, *aux = result
        rows = vmap(pull)(_basis(value))
        out_leaves, out_tree = tree_flatten(value)
        pieces = [_unstack(r, out_leaves, out_tree, 0) for r in tree_leaves(rows)]
        transposed = [
            tree_unflatten(tree, [tree_leaves(p)[i] for p in pieces])
            for i in range(len(out_leaves))
        ]
        single = isinstance(argnums, (int, np.integer))
        jac = tree_unflatten(out_tree, [t[0] if single else t for t in transposed])
        return (jac, aux[0]) if has_aux else jac

    return jacobian_of


jacobian = jacrev


def hessian(
    fun: Callable[..., Any],
    argnums: int | Sequence[int] = 0,
    has_aux: bool = False,
    holomorphic: bool = False,
) -> Callable[..., Any]:
    """Return a function that returns the Hessian of `fun`.

    Shapes: for a scalar function of an argument of shape A, (*A, *A).
    """
    return jacfwd(
        jacrev(fun, argnums, has_aux=has_aux, holomorphic=holomorphic),
        argnums,
        has_aux=has_aux,
        holomorphic=holomorphic,
    )
