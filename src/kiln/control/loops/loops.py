"""The loops that users call: `scan`, `while_loop`, `fori_loop`, `map`.

Each turns functions of pytrees into bodies and binds `scan` or `while`. A carry that the body
returns unchanged becomes a constant of the loop. With `jit` disabled, loops run as Python loops.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.lazy import ref_rows
from kiln.base.options.config import options
from kiln.base.source import api_boundary, current_source, definition_of
from kiln.base.tree import (
    PyTreeDef,
    keystr,
    tree_flatten,
    tree_flatten_with_path,
    tree_map,
    tree_structure,
    tree_unflatten,
    treedef_tuple,
)
from kiln.control.branches import known_value
from kiln.control.high.high_values import carrying, over_fori, over_scan, over_while
from kiln.control.loops.scan import scan_p, slice_type
from kiln.control.loops.scan_split import split_by_counts
from kiln.control.loops.while_loop import while_p
from kiln.control.regions.bodies import (
    Body,
    arrays_of,
    as_operand,
    as_result,
    check_callable,
    check_carry_structure,
    check_carry_types,
    converted,
    settle_carry,
    stage_body,
    unchanged,
)
from kiln.control.regions.held_refs import is_derivative
from kiln.control.regions.region import memoized, merge, select_by
from kiln.core.ref import Ref
from kiln.core.trace import aval_of, state
from kiln.ir.effects import HELD
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import Dim, Size, maximum
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import add, lt
from kiln.ops.indexing.static_slicing import concatenate, slice_in_dim
from kiln.ops.shape import mapped_at, reshape
from kiln.transforms.batching import MappedAxis, batch

Carry = TypeVar("Carry")
Y = TypeVar("Y")

LEAF = tree_structure(0)
_FLAG = ShapedArray((), np.dtype(np.bool_))
_INDEX = ShapedArray((), np.dtype(np.int32), weak_type=True)
Fun = Callable[..., Any]


@api_boundary
@carrying(over_scan)
@known_keywords
def scan(
    f: Callable[[Any, Any], tuple[Carry, Y]],
    init: Any,
    xs: Any = None,
    length: Any = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    _split_transpose: bool = False,
) -> tuple[Carry, Y]:
    """Run `carry, y = f(carry, x)` for each slice x of xs along the first axis.

    Return the final carry and the stacked ys. `xs` is a pytree, or None with a `length`. `reverse`
    iterates from the last slice to the first; `unroll` is the number of steps per compiled
    iteration (True: all of them).

    Raises: TypeError if the body does not return a pair, or the carry changes its type or
        structure; ValueError for lengths that differ or are missing.
    Source: the documentation of `jax.lax.scan`.
    Example:
        >>> lax.scan(lambda total, x: (total + x, total), 0, jnp.arange(1, 5))[1]
        Array([0, 1, 3, 6], dtype=int32, weak_type=True)
        >>> lax.scan(lambda x, _: (x / 2 + 1 / x, x), 1.0, length=3)[1].round(4)
        Array([1.    , 1.5   , 1.4167], dtype=float32, weak_type=True)
    """
    check_callable("scan", "f", f)
    carry, carry_tree = arrays_of("scan", "init", init)
    rows, rows_tree = arrays_of("scan", "xs", xs)
    count = _length(rows, xs, length)
    at_a_time = _unroll("scan", unroll, count)
    if any(type(x) is Ref for x in (*carry, *rows)):
        told = {"length": count, "reverse": reverse, "unroll": unroll}
        return ref_rows.scan_over_refs(scan, f, init, rows, rows_tree, **told)
    if not options().jit and type(count) is int and count:
        return ref_rows.scan_in_python(f, init, rows, rows_tree, count, reverse)
    slices = [slice_type(aval_of(x)) for x in rows]
    in_tree = treedef_tuple((carry_tree, rows_tree))
    n = len(carry)

    def step(state: Any, x: Any) -> Any:
        out: Any = f(state, x)
        if not (isinstance(out, (tuple, list)) and len(out) == 2):
            raise TypeError(
                three_lines(
                    f"scan: the body {definition_of(f)}, called at {current_source()}",
                    f"scan body output must be a pair (carry, y), got {_shown(out)}",
                    "return carry, y; with nothing to stack, return carry, None",
                )
            )
        return tuple(out)

    def record(avals: Sequence[ShapedArray]) -> tuple[Body, Sequence[ShapedArray]]:
        body = stage_body("scan", step, in_tree, [*avals, *slices], f)
        check_carry_structure("scan", f, carry_tree, body.out_tree.children()[0])
        body = body.varying_as(avals)
        return body, body.out_avals[:n]

    carry, body = settle_carry(carry, record)
    check_carry_types("scan", f, carry_tree, [aval_of(x) for x in carry], body.out_avals[:n])
    if HELD in body.jaxpr.effects and is_derivative(state.trace) and type(count) is int and count:
        # Rules that run later write to references, which exist only outside the loop.
        return ref_rows.scan_in_python(f, init, rows, rows_tree, count, reverse)
    outs = _bind_scan(body, carry, rows, count, bool(reverse), at_a_time)
    ys_tree = body.out_tree.children()[1]
    return tree_unflatten(carry_tree, outs[:n]), tree_unflatten(ys_tree, outs[n:])


def _bind_scan(
    body: Body, carry: Sequence[Any], rows: Sequence[Any], length: Dim, reverse: bool, unroll: int
) -> list[Any]:
    nc, n = len(body.consts), len(carry)
    fixed = unchanged(body.jaxpr, nc, n)
    constant, moved = select_by(fixed, carry), select_by(fixed, carry, False)
    outs = scan_p.bind(
        *(*body.consts, *constant, *moved, *rows),
        jaxpr=_with_fixed_first(body.jaxpr, nc, fixed, n),
        length=length,
        reverse=reverse,
        num_consts=nc + len(constant),
        num_carry=len(moved),
        unroll=unroll,
    )
    last, ys = outs[: len(moved)], outs[len(moved) :]
    return [*merge(fixed, [as_result(x) for x in constant], last), *ys]


def _with_fixed_first(jaxpr: Jaxpr, consts: int, fixed: Sequence[bool], returned: int) -> Jaxpr:
    """Move the carries that never change to the end of the consts.

    They are also dropped from the results, of which the first `returned` are the carry.
    """
    key = ("fixed first", consts, tuple(fixed), returned)
    return memoized(jaxpr, key, lambda: _made_fixed_first(jaxpr, consts, fixed, returned))


def _made_fixed_first(jaxpr: Jaxpr, consts: int, fixed: Sequence[bool], returned: int) -> Jaxpr:
    def reordered(items: Sequence[Any]) -> list[Any]:
        before, carry, after = split_by_counts(items, consts, len(fixed))
        return [*before, *select_by(fixed, carry), *select_by(fixed, carry, False), *after]

    outvars = jaxpr.outvars
    if returned:
        outvars = [*select_by(fixed, outvars[:returned], False), *outvars[returned:]]
    return jaxpr.with_(
        invars=reordered(jaxpr.invars),
        outvars=outvars,
        arg_names=reordered(jaxpr.arg_names) if jaxpr.arg_names else (),
    )


def _shown(out: Any) -> str:
    leaves, tree = tree_flatten(out)
    shown = [str(aval_of(x)) if as_operand(x) is not None else type(x).__name__ for x in leaves]
    return shown[0] if tree.is_leaf else f"{tree} of {', '.join(shown)}"


def _length(rows: Sequence[Any], xs: Any, length: Any) -> Dim:
    shapes = [aval_of(x).shape for x in rows]
    asked = f"scan at {current_source()}"
    if not rows and length is None:
        raise ValueError(
            three_lines(
                asked,
                "scan got no values to scan over and `length` not provided",
                "pass xs, or length=n",
            )
        )
    names = [f"xs{keystr(path)}" for path, _ in tree_flatten_with_path(xs)[0]]
    for name, shape in zip(names, shapes, strict=True):
        if not shape:
            raise ValueError(
                three_lines(
                    asked,
                    f"scan got a value with no leading axis to scan over: {name} is a scalar",
                    f"let the body close over it, or give {name} a leading axis",
                )
            )
    sizes = [shape[0] for shape in shapes]
    if any(size != sizes[0] for size in sizes):
        listed = ", ".join(f"{name} has {size}" for name, size in zip(names, sizes, strict=True))
        raise ValueError(
            three_lines(
                asked,
                f"scan got values with different leading axis sizes: {listed}",
                "slice the xs to one length",
            )
        )
    if length is None:
        return sizes[0]
    count: Dim = length if isinstance(length, Size) else operator.index(length)
    if sizes and count != sizes[0]:
        raise ValueError(
            three_lines(
                asked,
                f"scan got `length` argument of {count} which disagrees with leading axis sizes: "
                f"{names[0]} has {sizes[0]}",
                "leave length out: the xs say it",
            )
        )
    if type(count) is int and count < 0:
        raise ValueError(
            three_lines(
                asked,
                f"scan got a negative `length`: {count}",
                "pass the number of steps",
            )
        )
    return count


def _unroll(construct: str, unroll: Any, length: Dim) -> int:
    if isinstance(unroll, (bool, np.bool_)):
        return max(length, 1) if unroll and type(length) is int else 1
    if isinstance(unroll, (int, np.integer)) and unroll >= 0:
        return max(int(unroll), 1)
    raise ValueError(
        three_lines(
            f"{construct}(..., unroll={unroll!r}) at {current_source()}",
            "`unroll` must be a `bool` or a non-negative `int`",
            "pass the number of steps to make at a time, or True for all",
        )
    )


@api_boundary
@carrying(over_while)
@known_keywords
def while_loop(cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Y], init_val: Any) -> Y:
    """Run `val = body_fun(val)` as long as `cond_fun(val)` is true, and return the last value.

    It does not support reverse-mode differentiation; use `scan` or `fori_loop`.

    Raises: TypeError if the condition is not a boolean scalar, or the carry changes its type or
        structure.
    Example:
        >>> int(lax.while_loop(lambda n: n < 100, lambda n: 2 * n, 3))
        192
        >>> lax.while_loop(lambda s: s[1] > 0.1, lambda s: (s[0] + 1, s[1] / 2), (0, 1.0))[0].item()
        4
    """
    check_callable("while_loop", "cond_fun", cond_fun)
    check_callable("while_loop", "body_fun", body_fun)
    carry, tree = arrays_of("while_loop", "init_val", init_val)
    if not options().jit:
        val = tree_unflatten(tree, [as_result(x) for x in carry])
        goes_on = known_value(cond_fun(val))
        while goes_on:
            val = tree_map(as_result, body_fun(val))
            goes_on = known_value(cond_fun(val))
        if goes_on is not None:
            return val
        # From here on the condition differs between examples, or is traced.
        carry, tree = arrays_of("while_loop", "init_val", val)
    in_tree = treedef_tuple((tree,))

    def record(avals: Sequence[ShapedArray]) -> tuple[Body, Sequence[ShapedArray]]:
        body = stage_body("while_loop", body_fun, in_tree, avals)
        check_carry_structure("while_loop", body_fun, tree, body.out_tree)
        if state.tracked:
            # Members that run more iterations than others end with different values.
            again = stage_body("while_loop", cond_fun, in_tree, avals).varying
            avals = [a.with_(varying=a.varying | again) for a in avals]
        body = body.varying_as(avals)
        return body, body.out_avals

    carry, body = settle_carry(carry, record)
    avals = [aval_of(x) for x in carry]
    check_carry_types("while_loop", body_fun, tree, avals, body.out_avals)
    cond = stage_body("while_loop", cond_fun, in_tree, avals)
    _check_condition(cond_fun, cond)
    return tree_unflatten(tree, _bind_while(cond, body, carry))


def _check_condition(cond_fun: Fun, cond: Body) -> None:
    if cond.out_tree.is_leaf and cond.out_avals[0].same_type(_FLAG):
        return
    types = ", ".join([str(aval) for aval in cond.out_avals])
    found = types if cond.out_tree.is_leaf else f"pytree {cond.out_tree} of {types}"
    raise TypeError(
        three_lines(
            f"while_loop: the condition {definition_of(cond_fun)}, called at {current_source()}",
            f"cond_fun must return a boolean scalar, but got {found}",
            "compare something, and reduce it with .any() or .all()",
        )
    )


def _bind_while(cond: Body, body: Body, carry: Sequence[Any]) -> list[Any]:
    nc, nb = len(cond.consts), len(body.consts)
    fixed = unchanged(body.jaxpr, nb, len(carry))
    constant, moved = select_by(fixed, carry), select_by(fixed, carry, False)
    outs = while_p.bind(
        *(*cond.consts, *constant, *body.consts, *constant, *moved),
        cond_jaxpr=_with_fixed_first(cond.jaxpr, nc, fixed, 0),
        cond_nconsts=nc + len(constant),
        body_jaxpr=_with_fixed_first(body.jaxpr, nb, fixed, len(carry)),
        body_nconsts=nb + len(constant),
    )
    return merge(fixed, [as_result(x) for x in constant], outs)


@api_boundary
@carrying(over_fori)
@known_keywords
def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Y],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Y:
    """Run `val = body_fun(i, val)` for i from lower up to, but not including, upper.

    If the bounds are known while tracing, the loop is a scan and supports reverse mode; otherwise
    it is a while_loop.

    Raises: TypeError if the bounds are not integer scalars of one dtype, or the carry changes its
        type or structure; ValueError for `unroll` with unknown bounds.
    Example:
        >>> int(lax.fori_loop(1, 5, lambda i, x: x * i, 1))
        24
        >>> lax.fori_loop(0, 3, lambda i, x: x.at[i].set(i * i), jnp.zeros(4))
        Array([0., 1., 4., 0.], dtype=float32)
    """
    check_callable("fori_loop", "body_fun", body_fun)
    first, last, counter = _bounds(lower, upper)
    carry, tree = arrays_of("fori_loop", "init_val", init_val)
    length = _trip_count(first, last)
    if unroll is not None and length is None:
        raise ValueError(
            three_lines(
                f"fori_loop(..., unroll={unroll!r}) at {current_source()}",
                "Can only use `unroll` in `fori_loop` if the loop bounds are statically known",
                "pass Python ints as bounds, or leave unroll out",
            )
        )
    at_a_time = _unroll("fori_loop", 1 if unroll is None else unroll, length or 0)
    if not options().jit and type(length) is int:
        val = tree_unflatten(tree, [as_result(x) for x in carry])
        for i in range(length):
            val = tree_map(as_result, body_fun(as_result(add(first, i)), val))
        return val
    in_tree = treedef_tuple((LEAF, tree))

    def record(avals: Sequence[ShapedArray]) -> tuple[Body, Sequence[ShapedArray]]:
        body = stage_body(
            "fori_loop",
            lambda i, val: (add(i, 1), body_fun(i, val)),
            in_tree,
            [counter, *avals],
            body_fun,
        )
        check_carry_structure("fori_loop", body_fun, tree, body.out_tree.children()[1])
        carried = [a.with_(varying=a.varying | counter.varying) for a in avals]
        body = body.varying_as([counter, *carried])
        return body, body.out_avals[1:]

    carry, body = settle_carry(carry, record)
    avals = [aval_of(x) for x in carry]
    check_carry_types("fori_loop", body_fun, tree, avals, body.out_avals[1:])
    if length is not None:
        outs = _bind_scan(body, [first, *carry], [], length, False, at_a_time)
    else:
        goes_on = stage_body(
            "fori_loop, end", lambda i, val: lt(i, last), in_tree, [counter, *avals], body_fun
        )
        outs = _bind_while(goes_on, body, [first, *carry])
    return tree_unflatten(tree, outs[1:])


def _bounds(lower: Any, upper: Any) -> tuple[Any, Any, ShapedArray]:
    """Return the bounds in one dtype, and the type of the counter."""
    values: list[Any] = []
    for name, bound in (("lower", lower), ("upper", upper)):
        if isinstance(bound, Size):
            values.append(bound)
            continue
        value = as_operand(bound)
        if value is None or aval_of(value).shape:
            raise TypeError(
                _bad_bounds(
                    f"{name} is {type(bound).__name__ if value is None else aval_of(value)}"
                )
            )
        if not dtypes.issubdtype(aval_of(value).dtype, np.integer):
            raise TypeError(_bad_bounds(f"{name} is {aval_of(value)}"))
        values.append(value)
    types = [_INDEX if isinstance(v, Size) else aval_of(v) for v in values]
    counter = types[0]
    if types[0].dtype != types[1].dtype:
        weak = [t for t in types if t.weak_type]
        if len(weak) != 1:
            raise TypeError(_bad_bounds(f"got {types[0]} and {types[1]}"))
        counter = types[1] if types[0].weak_type else types[0]
    counter = counter.with_(varying=types[0].varying | types[1].varying)
    known = [None if isinstance(v, Size) else known_value(v) for v in values]
    if None not in known and counter.dtype == aval_of(0).dtype:
        # Known bounds of the usual type are treated like Python ints.
        return int(values[0]), int(values[1]), aval_of(0)
    first, last = (v if isinstance(v, Size) else converted(v, counter) for v in values)
    return first, last, counter


def _bad_bounds(found: str) -> str:
    return three_lines(
        f"fori_loop at {current_source()}",
        f"lower and upper arguments to fori_loop must have equal types, and be integer scalars: "
        f"{found}",
        "convert one bound with .astype",
    )


def _trip_count(first: Any, last: Any) -> Dim | None:
    start, stop = [x if isinstance(x, Size) else known_value(x) for x in (first, last)]
    if start is None or stop is None:
        return None
    named = isinstance(start, Size) or isinstance(stop, Size)
    return maximum(stop - start, 0) if named else max(0, int(stop) - int(start))


@api_boundary
@known_keywords
def map(f: Callable[[Any], Y], xs: Any, *, batch_size: int | None = None) -> Y:
    """Apply `f` to each slice of xs along the first axis, sequentially, and stack the results.

    With `batch_size`, that many slices are processed at a time, as by `vmap`; all of them, with 0.

    Raises: ValueError if the arrays of xs do not have the same length.
    Example:
        >>> lax.map(lambda x: x**2, jnp.arange(4))
        Array([0, 1, 4, 9], dtype=int32)
    """
    check_callable("map", "f", f)
    if batch_size is None:
        return scan(functools.wraps(f)(lambda _, x: ((), f(x))), (), xs)[1]
    rows, tree = arrays_of("map", "xs", xs)
    length, size = _length(rows, xs, None), operator.index(batch_size)
    if size < 0:
        asked = f"map(..., batch_size={batch_size!r}) at {current_source()}"
        remedy = "pass the number of slices to take at a time"
        raise ValueError(three_lines(asked, "batch_size must not be negative", remedy))
    size = size or operator.index(length) or 1
    trees: list[PyTreeDef] = []

    def flat(*leaves: Any) -> list[Any]:
        out, out_tree = arrays_of("map", "result", f(tree_unflatten(tree, leaves)))
        trees.append(out_tree)
        return out

    def together(count: int, stacks: Sequence[Any]) -> list[Any]:
        outs, at = batch(flat, MappedAxis(count), stacks, [0] * len(stacks))
        return [mapped_at(x, count, a, 0) for x, a in zip(outs, at, strict=True)]

    whole, rest = divmod(operator.index(length), size)
    parts = []
    if whole or not rest:
        heads = [slice_in_dim(x, 0, whole * size) for x in rows]
        heads = [reshape(x, (whole, size, *aval_of(x).shape[1:])) for x in heads]
        _, ys = scan(lambda _, stacks: ((), together(size, stacks)), (), heads)
        parts.append([reshape(y, (whole * size, *aval_of(y).shape[2:])) for y in ys])
    if rest:
        parts.append(together(rest, [slice_in_dim(x, whole * size, None) for x in rows]))
    joined = [y[0] if len(y) == 1 else concatenate(y, 0) for y in zip(*parts, strict=True)]
    return tree_unflatten(trees[0], joined)
