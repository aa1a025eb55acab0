"""`jvp`, `vjp`, `linearize`, `linear_transpose`: derivatives as linear functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.api.arguments import FlatFunction, array_of, leaves_of, require_callable, value_of
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import Partial, tree_flatten, tree_leaves, tree_structure, tree_unflatten
from kiln.core.absent import Zero
from kiln.core.array import from_host
from kiln.core.trace import Tracer, aval_of
from kiln.ir.types import ShapedArray
from kiln.jit.struct import type_of_struct
from kiln.ops.conversion import convert_element_type
from kiln.ops.shape import full
from kiln.transforms import reverse
from kiln.transforms.jvp import jvp as jvp_flat


@api_boundary
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Return the value of `fun` at the primals and its directional derivative along the tangents.

    Raises: TypeError for tangents of another structure or dtype, ValueError of another shape.
    """
    require_callable(fun, "jvp")
    _check_trees(fun, "jvp", primals, tangents)
    leaves, tree = leaves_of(fun, "jvp", tuple(primals))
    moved = _check_tangents(fun, "jvp", leaves, tree_leaves(tuple(tangents)))
    moved = [_as_weak_as(p, t) for p, t in zip(leaves, moved, strict=True)]
    flat = FlatFunction(fun, "jvp", tree, has_aux)
    outs, out_tangents = jvp_flat(flat, leaves, moved)
    value = flat.outputs([array_of(x) for x in outs])
    tangent = flat.outputs([value_of(t) for t in out_tangents])
    return (value, tangent, flat.aux(outs)) if has_aux else (value, tangent)


@api_boundary
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """Return the value of `fun` and a function from a cotangent of it to those of the primals.

    Raises: ValueError if the cotangent's structure, shapes or dtypes are not those of the value.
    """
    require_callable(fun, "vjp")
    if reduce_axes:
        raise NotImplementedError(
            three_lines(
                f"vjp of {name_of(fun)} with reduce_axes={reduce_axes!r} at {current_source()}",
                "the reduce_axes argument to vjp is deprecated and does nothing",
                "sum over the mapped axis with lax.psum where the function needs it",
            )
        )
    leaves, tree = leaves_of(fun, "vjp", primals)
    flat = FlatFunction(fun, "vjp", tree, has_aux)
    outs, whole = reverse.linearize(flat, leaves)
    program = whole.first(flat.count)
    meta = _PullMeta(program, tree, flat.out_tree, name_of(fun))
    pull = Partial(functools.partial(_pull, meta), *program.residuals)
    value = flat.outputs([array_of(x) for x in outs])
    return (value, pull, flat.aux(outs)) if has_aux else (value, pull)


class _PullMeta:
    """What a vjp function knows beside its residuals, which are leaves of a pytree."""

    def __init__(
        self, program: reverse.LinearProgram, in_tree: Any, out_tree: Any, name: str
    ) -> None:
        self.linear = program.with_residuals([])
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.name = name


@api_boundary
def _pull(meta: _PullMeta, *args: Any) -> Any:
    *residuals, cotangent = args
    leaves, tree = tree_flatten(cotangent)
    if tree != meta.out_tree:
        raise ValueError(
            three_lines(
                f"vjp function of {meta.name} at {current_source()}",
                f"unexpected tree structure of argument to vjp function: got {tree}, "
                f"but expected to match {meta.out_tree}",
                "give a cotangent of the structure of the function's value",
            )
        )
    checked: list[Any] = []
    for ct, aval in zip(leaves, meta.linear.out_avals, strict=True):
        want = aval.tangent()
        if want.dtype == dtypes.float0:
            checked.append(Zero(want))
            continue
        got = aval_of(ct)
        if got.shape != want.shape or (got.dtype != want.dtype and not got.weak_type):
            raise ValueError(
                three_lines(
                    f"vjp function of {meta.name} at {current_source()}",
                    f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                    f"{got.str_short(short_dtypes=False)}, but expected {want}",
                    "give a cotangent of the type of the function's value",
                )
            )
        if got.dtype != want.dtype and not isinstance(ct, Tracer):
            ct = from_host(np.asarray(ct, dtype=want.dtype))
        checked.append(ct if isinstance(ct, Tracer) else array_of(ct))
    pulled = meta.linear.with_residuals(residuals).pull(checked)
    return tree_unflatten(meta.in_tree, [value_of(ct) for ct in pulled])


@api_boundary
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and the function from tangents to its derivative there.

    Raises: TypeError for tangents of another structure than the primals, ValueError of other types.
    """
    require_callable(fun, "linearize")
    leaves, tree = leaves_of(fun, "linearize", primals)
    flat = FlatFunction(fun, "linearize", tree, has_aux)
    outs, whole = reverse.linearize(flat, leaves)
    program = whole.first(flat.count)

    @api_boundary
    def push(*tangents: Any) -> Any:
        _check_trees(fun, "linearize", primals, tangents)
        moved = _check_tangents(fun, "linearize", leaves, tree_leaves(tangents))
        return flat.outputs([value_of(t) for t in program.push(moved)])

    value = flat.outputs([array_of(x) for x in outs])
    return (value, push, flat.aux(outs)) if has_aux else (value, push)


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all its arguments.

    Only the types of the primals matter; they may be ShapeDtypeStructs.
    """
    leaves, tree = tree_flatten(primals)
    avals = [type_of_struct(x) or aval_of(x) for x in leaves]
    zeros = [full(a.shape, 0, a.dtype) for a in avals]
    _, pull = vjp(fun, *tree_unflatten(tree, zeros))

    def transposed(cotangent: Any) -> tuple[Any, ...]:
        return pull(cotangent)  # type: ignore[no-any-return]

    return transposed


def _as_weak_as(primal: Any, tangent: Any) -> Any:
    if type(tangent) is Zero:
        return tangent
    aval = aval_of(primal)
    return convert_element_type(tangent, aval.dtype, weak_type=aval.weak_type)


def _check_tangents(
    fun: Any, what: str, primals: Sequence[Any], tangents: Sequence[Any]
) -> list[Any]:
    # The tangents of `linearize` come later, to a function that knows their types.
    wrong_dtype = ValueError if what == "linearize" else TypeError
    checked: list[Any] = []
    for p, t in zip(primals, tangents, strict=True):
        want = aval_of(p).tangent()
        if want.dtype == dtypes.float0:
            if getattr(t, "dtype", None) != dtypes.float0:
                raise wrong_dtype(_tangent_message(fun, what, p, t, want, "dtypes"))
            checked.append(Zero(want))
            continue
        got = aval_of(t)
        if got.shape != want.shape:
            raise ValueError(_tangent_message(fun, what, p, t, want, "shapes"))
        if got.dtype != want.dtype and not got.weak_type:
            raise wrong_dtype(_tangent_message(fun, what, p, t, want, "dtypes"))
        if isinstance(t, Tracer) and got.dtype == want.dtype:
            checked.append(t)
        else:
            value = array_of(t)
            if got.dtype != want.dtype:
                value = from_host(np.asarray(value).astype(want.dtype))
            checked.append(value)
    return checked


def _tangent_message(fun: Any, what: str, p: Any, t: Any, want: ShapedArray, kind: str) -> str:
    got = getattr(t, "dtype", type(t)) if kind == "dtypes" else np.shape(t)
    return three_lines(
        f"{what} of {name_of(fun)} at {current_source()}",
        f"primal and tangent arguments to jvp must have equal {kind}: a primal of type "
        f"{aval_of(p)} needs a tangent of type {want}, got {got}",
        f"give a tangent of type {want}",
    )


def _check_trees(fun: Any, what: str, primals: Any, tangents: Any) -> None:
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    f"{name} must be a tuple or list, got {type(value)}",
                    f"write ({name},)",
                )
            )
    if tree_structure(tuple(primals)) != tree_structure(tuple(tangents)):
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} at {current_source()}",
                "primal and tangent arguments to jvp must have the same tree structure, got "
                f"{tree_structure(tuple(primals))} and {tree_structure(tuple(tangents))}",
                "give one tangent per primal",
            )
        )
