"""`jvp`, `vjp`, `linearize`, `linear_transpose`: derivatives as linear functions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.api.derivatives.arguments import (
    FlatFunction,
    array_of,
    check_reduce_axes,
    leaves_of,
    require_callable,
    value_of,
)
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.lazy import high_derivatives
from kiln.base.source import api_boundary, current_source, name_of
from kiln.base.tree import (
    GetAttrKey,
    Partial,
    register_pytree_with_keys,
    tree_flatten,
    tree_leaves,
    tree_structure,
    tree_unflatten,
)
from kiln.content.fingerprint import read_partial, readable
from kiln.control.references.refs import addupdate
from kiln.core.absent import Zero
from kiln.core.hitypes import HighOperand, RefOperand
from kiln.core.ref import Ref
from kiln.core.trace import aval_of
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.argument_types import leaf_type
from kiln.jit.signatures.struct import type_of_struct
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.shape import filled
from kiln.transforms import reverse
from kiln.transforms.jvp import jvp as jvp_flat


@api_boundary
@known_keywords
def jvp(
    fun: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], has_aux: bool = False
) -> Any:
    """Return `fun(*primals)` and its directional derivative along the tangents (forward mode).

    If `has_aux`, `fun` returns (value, aux), and the result is (value, derivative, aux).

    Raises: TypeError if the tangents differ from the primals in structure or dtype, ValueError if
        they differ in shape.
    Source: the documentation of `jax.jvp`.
    Example:
        >>> kiln.jvp(lambda x: x**2, (3.0,), (1.0,))
        (Array(9., dtype=float32, weak_type=True), Array(6., dtype=float32, weak_type=True))
        >>> x, y = jnp.ones(2), jnp.array([2.0, 3.0])
        >>> kiln.jvp(jnp.dot, (x, y), (jnp.array([1.0, 0.0]), jnp.zeros(2)))[1]
        Array(2., dtype=float32)
    """
    require_callable(fun, "jvp")
    _check_trees(fun, "jvp", primals, tangents)
    try:
        leaves, tree = leaves_of(fun, "jvp", tuple(primals))
    except HighOperand:
        return high_derivatives.jvp(jvp, fun, primals, tangents, has_aux)
    moved = [
        _as_weak_as(p, _tangent(name_of(fun), "jvp", aval_of(p), t))
        for p, t in zip(leaves, tree_leaves(tuple(tangents)), strict=True)
    ]
    flat = FlatFunction(fun, "jvp", tree, has_aux)
    outs, out_tangents = jvp_flat(flat, leaves, moved)
    value = flat.outputs([array_of(x) for x in outs])
    tangent = flat.outputs([value_of(t) for t in out_tangents])
    return (value, tangent, flat.aux(outs)) if has_aux else (value, tangent)


@api_boundary
@known_keywords
def vjp(
    fun: Callable[..., Any], *primals: Any, has_aux: bool = False, reduce_axes: Any = ()
) -> Any:
    """Return the value, and the pullback from its cotangent to those of the primals (reverse mode).

    If `has_aux`, `fun` returns (value, aux), and the result is (value, pullback, aux). A reference
    among the primals is passed on to `fun`; its cotangent is None.

    Raises: ValueError if the cotangent's structure, shapes or dtypes are not those of the value.
    Source: the documentation of `jax.vjp`.
    Example:
        >>> value, pullback = kiln.vjp(lambda x, y: x * y, 2.0, 5.0)
        >>> [float(ct) for ct in pullback(1.0)]
        [5.0, 2.0]
        >>> _, pullback, count = kiln.vjp(lambda x: (x.sum(), x.size), jnp.ones(3), has_aux=True)
        >>> pullback(2.0), count
        ((Array([2., 2., 2.], dtype=float32, weak_type=True),), 3)
    """
    require_callable(fun, "vjp")
    check_reduce_axes(fun, "vjp", reduce_axes)
    try:
        leaves, tree = leaves_of(fun, "vjp", primals)
    except (HighOperand, RefOperand):
        return high_derivatives.vjp(vjp, fun, primals, has_aux)
    flat = FlatFunction(fun, "vjp", tree, has_aux)
    outs, whole = reverse.linearize(flat, leaves)
    program = whole.first(flat.count)
    meta = _Meta(program, tree, flat.out_tree, name_of(fun))
    pull = Pullback(functools.partial(_pull, meta), program.residuals)
    value = flat.outputs([array_of(x) for x in outs])
    return (value, pull, flat.aux(outs)) if has_aux else (value, pull)


class Pullback(Partial[Any]):
    """The function that `vjp` returns, from the cotangent of a value to those of the primals."""

    def with_refs(self, *maybe_ct_refs: Any) -> Callable[..., Any]:
        """Return a function that adds cotangents to references instead of returning them.

        Each primal has an argument of its structure, whose leaves are references or anything else.
        For a reference the function returns None, for anything else the cotangent.

        Raises: ValueError if the structure is not that of the primals.
        Example:
            >>> total = kiln.new_ref(1.0)
            >>> _, pullback = kiln.vjp(lambda x, y: x * y, 2.0, 5.0)
            >>> pullback.with_refs(total, None)(1.0), total
            ((None, Array(2., dtype=float32, weak_type=True)), Ref(6., dtype=float32))
        """
        return functools.partial(_pull_into, self, maybe_ct_refs)


register_pytree_with_keys(
    Pullback,
    lambda p: (((GetAttrKey("args"), p.args), (GetAttrKey("keywords"), p.keywords)), p.func),
    lambda func, children: Pullback(func, *children[0], **children[1]),
    lambda p: ((p.args, p.keywords), p.func),
)


readable(Pullback, read_partial)


@api_boundary
def _pull_into(pull: Pullback, refs: tuple[Any, ...], *cotangents: Any) -> Any:
    leaves, tree = tree_flatten(pull(*cotangents))
    given, found = tree_flatten(refs, is_leaf=lambda x: x is None)
    if found != tree:
        raise ValueError(
            three_lines(
                f"with_refs of a vjp function at {current_source()}",
                f"the references have the structure {found}, and the primals {tree}",
                "give each primal an argument of its structure, of references or None",
            )
        )
    for i, (ref, ct) in enumerate(zip(given, leaves, strict=True)):
        if isinstance(ref, Ref):
            addupdate(ref, ..., ct)
            leaves[i] = None
    return tree_unflatten(tree, leaves)


class _Meta:
    """The static data of a linear function; its residuals are leaves of a pytree."""

    def __init__(
        self, program: reverse.LinearProgram, in_tree: Any, out_tree: Any, name: str
    ) -> None:
        self.linear = program.with_residuals([])
        self.in_tree = in_tree
        self.out_tree = out_tree
        self.name = name

    def __repr__(self) -> str:
        return f"{self.name}: {self.linear.jaxpr}"


@api_boundary
def _pull(meta: _Meta, residuals: Sequence[Any], *cotangents: Any) -> Any:
    if len(cotangents) != 1:
        raise TypeError(
            three_lines(
                f"vjp function of {meta.name} at {current_source()}",
                f"the vjp function that was made when vjp was applied to {meta.name} was called "
                f"with {len(cotangents)} arguments, but takes one, a cotangent of the structure of "
                "the function's value",
                "pass the cotangents of several results as one tuple: pull((ct1, ct2))",
            )
        )
    leaves = _leaves_as(meta, "vjp function", meta.out_tree, cotangents[0], ValueError)
    checked = [
        _cotangent(meta, ct, aval) for ct, aval in zip(leaves, meta.linear.out_avals, strict=True)
    ]
    pulled = meta.linear.with_residuals(residuals).pull(checked)
    return tree_unflatten(meta.in_tree, [value_of(ct) for ct in pulled])


def _leaves_as(
    meta: _Meta, what: str, wanted: Any, given: Any, error: type[Exception]
) -> Sequence[Any]:
    """Return the leaves of a linear function's argument, which must have this structure."""
    leaves, tree = tree_flatten(given)
    if tree != wanted:
        raise error(
            three_lines(
                f"{what} of {meta.name} at {current_source()}",
                f"unexpected tree structure of argument to {what}: got {tree}, "
                f"but expected to match {wanted}",
                f"give a value of the structure {wanted}",
            )
        )
    return leaves


def _cotangent(meta: _Meta, ct: Any, aval: ShapedArray) -> Any:
    want = aval.tangent()
    if type(ct) is Zero and ct.aval.same_type(want):
        return ct
    got = _type_of("vjp function", meta.name, ct)
    # If the value has no tangent, any cotangent of its shape is accepted.
    fits = want.dtype == dtypes.float0 or got.dtype == want.dtype
    if got.shape != want.shape or not fits:
        raise ValueError(
            three_lines(
                f"vjp function of {meta.name} at {current_source()}",
                f"unexpected JAX type (e.g. shape/dtype) for argument to vjp function: got "
                f"{got.str_short(short_dtypes=False)}, but expected {want}",
                "give a cotangent of the type of the function's value",
            )
        )
    return Zero(want) if want.dtype == dtypes.float0 else array_of(ct)


@api_boundary
@known_keywords
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return `fun(*primals)` and its derivative there, as a linear function of tangents.

    Unlike with `jvp`, the value is computed only once, however often the derivative is applied.

    Raises: TypeError if the tangents' structure is not that of the primals, ValueError if their
        types are not.
    Example:
        >>> value, push = kiln.linearize(lambda x: x**3, 2.0)
        >>> float(push(1.0)), float(push(0.5))
        (12.0, 6.0)
    """
    require_callable(fun, "linearize")
    try:
        leaves, tree = leaves_of(fun, "linearize", primals)
    except HighOperand:
        return high_derivatives.linearize(linearize, fun, primals, has_aux)
    flat = FlatFunction(fun, "linearize", tree, has_aux)
    outs, whole = reverse.linearize(flat, leaves)
    program = whole.first(flat.count)
    meta = _Meta(program, tree, flat.out_tree, name_of(fun))
    push = Partial(functools.partial(_push, meta), program.residuals)
    value = flat.outputs([array_of(x) for x in outs])
    return (value, push, flat.aux(outs)) if has_aux else (value, push)


@api_boundary
def _push(meta: _Meta, residuals: Sequence[Any], *tangents: Any) -> Any:
    given = _leaves_as(meta, "linearized function", meta.in_tree, tangents, TypeError)
    moved = [
        _tangent(meta.name, "linearize", aval, t)
        for aval, t in zip(meta.linear.in_avals, given, strict=True)
    ]
    pushed = meta.linear.with_residuals(residuals).push(moved)
    return tree_unflatten(meta.out_tree, [value_of(t) for t in pushed])


@api_boundary
def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[[Any], tuple[Any, ...]]:
    """Return the transpose of a function that is linear in all its arguments.

    Only the types of the primals matter; they may be ShapeDtypeStructs.

    Raises: TypeError unless all arguments and results are inexact, or all are integers;
        NotImplementedError if the function is not linear.
    Example:
        >>> pull = kiln.linear_transpose(lambda x: 3 * x, 0.0)
        >>> pull(2.0)
        (Array(6., dtype=float32),)
    """
    require_callable(fun, "linear_transpose")
    leaves, tree = tree_flatten(primals)
    name = name_of(fun)
    avals = [type_of_struct(x) or _type_of("linear_transpose", name, x) for x in leaves]
    flat = FlatFunction(fun, "linear_transpose", tree, has_aux=False)
    program = reverse.linear_program(flat, [a.with_(weak_type=False) for a in avals])
    _check_linear(name, program)
    meta = _Meta(program, tree, flat.out_tree, name)
    return Partial(functools.partial(_transposed, meta), program.residuals)


@api_boundary
def _transposed(meta: _Meta, residuals: Sequence[Any], cotangent: Any) -> Any:
    leaves = _leaves_as(meta, "linear_transpose", meta.out_tree, cotangent, TypeError)
    for ct, aval in zip(leaves, meta.linear.out_avals, strict=True):
        got = _type_of("linear_transpose", meta.name, ct)
        if not got.same_type(aval):
            raise TypeError(
                three_lines(
                    f"linear_transpose of {meta.name} at {current_source()}",
                    f"cotangent type does not match function output, expected {aval} but got {got}",
                    "give a cotangent of the type of the function's value",
                )
            )
    pulled = meta.linear.with_residuals(residuals).pull(list(map(array_of, leaves)))
    return tree_unflatten(meta.in_tree, [array_of(filled(ct)) for ct in pulled])


def _check_linear(name: str, program: reverse.LinearProgram) -> None:
    found = [a.dtype for a in [*program.in_avals, *program.out_avals]]
    if not any(all(dtypes.issubdtype(d, kind) for d in found) for kind in (np.inexact, np.integer)):
        kinds = [", ".join(map(str, avals)) for avals in (program.in_avals, program.out_avals)]
        raise TypeError(
            three_lines(
                f"linear_transpose of {name} at {current_source()}",
                "linear_transpose only supports functions from floats or complex numbers to such, "
                f"and from integers to integers, but got {kinds[0]} -> {kinds[1]}",
                "convert arguments and results to one kind with .astype",
            )
        )


def _type_of(what: str, name: str, x: Any) -> ShapedArray:
    """Return the type of an argument of a linear function.

    Raises: TypeError if it is not an array.
    """
    aval = aval_of(x) if getattr(x, "dtype", None) == dtypes.float0 else leaf_type(x)
    if aval is None:
        raise TypeError(
            three_lines(
                f"{what} of {name} at {current_source()}",
                f"the value {x!r:.60} of type {type(x)} is not a valid JAX type",
                "pass arrays and numbers",
            )
        )
    return aval


def _as_weak_as(primal: Any, tangent: Any) -> Any:
    if type(tangent) is Zero:
        return tangent
    aval = aval_of(primal)
    return convert_element_type(tangent, aval.dtype, weak_type=aval.weak_type)


def _tangent(name: str, what: str, primal: ShapedArray, t: Any) -> Any:
    """Return a tangent of a primal of this type, checked."""
    # Tangents for `linearize` are passed later, to a function that has fixed types.
    wrong_dtype = ValueError if what == "linearize" else TypeError
    said = "primal and tangent arguments to jax.jvp"
    if what == "linearize":
        said = (
            "linearized function called on tangent values inconsistent with the original primal "
            "values: they"
        )
    want = primal.tangent()
    got = t.aval if type(t) is Zero else _type_of(what, name, t)
    for kind, error, differs in (
        ("dtypes", wrong_dtype, got.dtype != want.dtype),
        ("shapes", ValueError, got.shape != want.shape),
    ):
        if differs:
            raise error(
                three_lines(
                    f"{what} of {name} at {current_source()}",
                    f"{said} must have equal {kind}: a primal of type {primal} needs a tangent of "
                    f"type {want}, got {got}",
                    f"give a tangent of type {want}",
                )
            )
    return Zero(want) if want.dtype == dtypes.float0 or type(t) is Zero else array_of(t)


def _check_trees(fun: Any, what: str, primals: Any, tangents: Any) -> None:
    for name, value in (("primals", primals), ("tangents", tangents)):
        if not isinstance(value, (tuple, list)):
            raise TypeError(
                three_lines(
                    f"{what} of {name_of(fun)} at {current_source()}",
                    "primal and tangent arguments to jax.jvp must be tuples or lists; found "
                    f"{type(primals).__name__} and {type(tangents).__name__}.",
                    f"write ({name},)",
                )
            )
    if tree_structure(tuple(primals)) != tree_structure(tuple(tangents)):
        raise TypeError(
            three_lines(
                f"{what} of {name_of(fun)} at {current_source()}",
                "primal and tangent arguments to jax.jvp must have the same tree structure, got "
                f"{tree_structure(tuple(primals))} and {tree_structure(tuple(tangents))}",
                "give one tangent per primal",
            )
        )
