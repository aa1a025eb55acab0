"""`cond` and `switch`: functions of pytrees as the branches of one `cond` equation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.keywords import known_keywords
from kiln.base.options.config import options
from kiln.base.source import api_boundary, current_source, definition_of
from kiln.base.tree import equality_errors, keystr, tree_flatten_with_path, tree_unflatten
from kiln.control.cond import cond_p
from kiln.control.high.high_values import carrying, over_branches
from kiln.control.regions.bodies import (
    Body,
    arrays_of,
    as_operand,
    check_callable,
    stage_body,
    with_common_consts,
    with_varying,
)
from kiln.control.regions.held_refs import check_apart
from kiln.control.regions.region import memoized, select_by
from kiln.core.ref import Ref
from kiln.core.staging import eval_jaxpr, stage_pure
from kiln.core.trace import Tracer, aval_of, state
from kiln.ir.jaxpr import Jaxpr, Var
from kiln.ir.sharded_types import is_split_alike
from kiln.ir.shardings.sums import Varying
from kiln.ir.types import ShapedArray
from kiln.ops.collective import varied
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import clamp, ne

A = TypeVar("A")
B = TypeVar("B")

_ABSENT: Any = object()


@api_boundary
@carrying(over_branches)
@known_keywords
def cond(
    pred: Any,
    true_fun: Callable[..., A],
    false_fun: Callable[..., B],
    *operands: Any,
    operand: Any = _ABSENT,
) -> A | B:
    """Return `true_fun(*operands)` if the scalar `pred` is true, else `false_fun(*operands)`.

    Under `jit` both branches are traced, and one of them runs. The older form `cond(pred, x,
    true_fun, y, false_fun)` is `true_fun(x)` or `false_fun(y)`.

    Raises: TypeError if the predicate is not a scalar, or the branches return different types.
    Example:
        >>> float(lax.cond(True, lambda x: x + 1, lambda x: x - 1, 10.0))
        11.0
        >>> f = lambda x: lax.cond(x > 0, jnp.sqrt, jnp.zeros_like, x)
        >>> kiln.vmap(f)(jnp.array([-1.0, 4.0]))
        Array([0., 2.], dtype=float32)
    """
    if _is_older_form(true_fun, false_fun, operands):
        x, true_fun, (y, false_fun) = true_fun, false_fun, operands  # type: ignore[assignment]
        true_fun, false_fun, operands = _of_operand(0, true_fun), _of_operand(1, false_fun), (x, y)
    if operand is not _ABSENT:
        if operands:
            raise TypeError(
                three_lines(
                    f"cond(..., operand=...) at {current_source()}",
                    "operands were given both by position and by the keyword `operand`",
                    "pass them by position only",
                )
            )
        operands = (operand,)
    check_callable("cond", "true_fun", true_fun)
    check_callable("cond", "false_fun", false_fun)
    flag = _predicate(pred)
    value = known_value(flag)
    if not options().jit and value is not None:
        return (true_fun if value else false_fun)(*operands)
    index = convert_element_type(flag, np.dtype(np.int32))
    return _branch("cond", index, ("false_fun", "true_fun"), (false_fun, true_fun), operands)


@api_boundary
@carrying(over_branches)
@known_keywords
def switch(
    index: Any,
    branches: Sequence[Callable[..., A]],
    *operands: Any,
    operand: Any = _ABSENT,
) -> A:
    """Return `branches[index](*operands)`; the index is clamped to the range of branches.

    Raises: ValueError if there are no branches; TypeError if the index is not an integer scalar, or
        the branches return different types.
    Example:
        >>> branches = [jnp.sin, jnp.negative, jnp.square]
        >>> float(lax.switch(2, branches, 3.0))
        9.0
    """
    if operand is not _ABSENT:
        operands = (*operands, operand)
    branches = tuple(branches)
    if not branches:
        raise ValueError(
            three_lines(
                f"switch at {current_source()}",
                "Empty branch sequence: there is nothing to choose from",
                "pass at least one function",
            )
        )
    names = tuple(f"branches[{i}]" for i in range(len(branches)))
    for name, branch in zip(names, branches, strict=True):
        check_callable("switch", name, branch)
    chosen = _index(index, len(branches))
    if len(branches) == 1:
        return branches[0](*operands)
    value = known_value(chosen)
    if not options().jit and value is not None:
        return branches[int(value)](*operands)
    return _branch("switch", chosen, names, branches, operands)


def _is_older_form(first: Any, second: Any, rest: Sequence[Any]) -> bool:
    return not callable(first) and callable(second) and len(rest) == 2 and callable(rest[1])


def _of_operand(number: int, fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of two operands that calls `fun` with one of them."""

    @functools.wraps(fun, updated=())
    def branch(*operands: Any) -> Any:
        return fun(operands[number])

    return branch


def known_value(x: Any) -> Any:
    """Return a scalar's value if it is known while tracing, else None."""
    value = x.concrete() if isinstance(x, Tracer) else x
    return None if value is None else np.asarray(value)[()]


def _scalar(construct: str, what: str, x: Any) -> Any:
    value = as_operand(x)
    if value is None or aval_of(value).shape:
        found = f"type {type(x).__name__}" if value is None else f"type {aval_of(value)}"
        raise TypeError(
            three_lines(
                f"{construct}: argument {what} at {current_source()}",
                f"{what} must be a scalar, got {found}",
                "reduce it to one number with .any(), .all() or an index; to choose element by "
                "element use kiln.numpy.where",
            )
        )
    return value


def _predicate(pred: Any) -> Any:
    flag = _scalar("cond", "Pred", pred)
    dtype = aval_of(flag).dtype
    if dtype == np.bool_:
        return flag
    if not (dtypes.issubdtype(dtype, np.integer) or dtypes.issubdtype(dtype, np.floating)):
        raise TypeError(
            three_lines(
                f"cond: argument Pred at {current_source()}",
                f"Pred type must be either boolean or number, got {dtypes.long_name(dtype)}",
                "compare it with something",
            )
        )
    return ne(flag, 0)


def _index(index: Any, count: int) -> Any:
    chosen = _scalar("switch", "Branch index", index)
    dtype = aval_of(chosen).dtype
    if not dtypes.issubdtype(dtype, np.integer):
        raise TypeError(
            three_lines(
                f"switch: argument index at {current_source()}",
                f"Index type must be an integer, got {dtypes.long_name(dtype)}",
                "convert it: index.astype('int32')",
            )
        )
    wide = dtype.itemsize > 4 or dtype == np.uint32
    if wide:
        # Values of these dtypes may not fit in int32: clamp before converting.
        chosen = clamp(dtype.type(0), chosen, dtype.type(count - 1))
    chosen = convert_element_type(chosen, np.dtype(np.int32))
    return chosen if wide else clamp(np.int32(0), chosen, np.int32(count - 1))


def _branch(
    construct: str,
    index: Any,
    names: Sequence[str],
    branches: Sequence[Callable[..., Any]],
    operands: Sequence[Any],
) -> Any:
    values, in_tree = arrays_of(construct, "operands", tuple(operands))
    has_refs = any(type(x) is Ref for x in values)
    if has_refs:
        check_apart(construct, branches[-1], operands)
    # Members that take different branches cannot use collectives in them.
    choice = aval_of(index).varying
    values = [varied(x, choice) for x in values]
    avals = [aval_of(x) for x in values]
    # In the order that users write: for cond, the branch for True comes first.
    order = (1, 0) if construct == "cond" else tuple(range(len(branches)))
    staged = {i: stage_body(construct, branches[i], in_tree, avals) for i in order}
    bodies = [staged[i] for i in range(len(branches))]
    if has_refs:
        for fun, body in zip(branches, bodies, strict=True):
            check_apart(construct, fun, operands, body.consts)
    first = order[0]
    for other in order[1:]:
        _check_same(construct, [(names[i], branches[i], bodies[i]) for i in (first, other)])
    jaxprs, consts = with_common_consts(bodies)
    consts = [varied(x, choice) for x in consts]
    if state.tracked:
        jaxprs = _varying_alike(jaxprs, [*map(aval_of, consts), *avals], choice)
    given = [*consts, *values]
    handed_on = _handed_on(jaxprs)
    own = [at is None for at in handed_on]
    if not all(own):
        jaxprs = [_with_results(jaxpr, own) for jaxpr in jaxprs]
    outs = iter(cond_p.bind(index, *given, branches=tuple(jaxprs)))
    results = [next(outs) if at is None else _array(given[at]) for at in handed_on]
    return tree_unflatten(bodies[0].out_tree, results)


def _handed_on(jaxprs: Sequence[Jaxpr]) -> list[int | None]:
    """Return, for each result, which operand it is in all branches, by position; None for others.

    Such a result does not depend on the index: it is not mapped or unknown if only the index is.
    """
    places = {v: i for i, v in enumerate(jaxprs[0].invars)}
    found: list[int | None] = []
    for position, atom in enumerate(jaxprs[0].outvars):
        at = places.get(atom) if isinstance(atom, Var) else None
        if at is not None:
            alike = all(other.outvars[position] is other.invars[at] for other in jaxprs[1:])
            at = at if alike else None
        found.append(at)
    return found


def _array(x: Any) -> Any:
    aval = aval_of(x)
    return convert_element_type(x, aval.dtype, aval.weak_type)


def _with_results(jaxpr: Jaxpr, own: Sequence[bool]) -> Jaxpr:
    """Return a branch with only some of its results."""

    def make() -> Jaxpr:
        return jaxpr.with_(outvars=select_by(own, jaxpr.outvars))

    return memoized(jaxpr, ("with results", tuple(own)), make)


def _varying_alike(
    jaxprs: Sequence[Jaxpr], avals: Sequence[ShapedArray], choice: Varying
) -> list[Jaxpr]:
    """Give all branches these operands, and results that vary along the axes of any of them."""
    own = [
        jaxpr if jaxpr.in_avals == list(avals) else _of_types(jaxpr, tuple(avals))
        for jaxpr in jaxprs
    ]
    outs = [[aval.varying for aval in jaxpr.out_avals] for jaxpr in own]
    wanted = [choice.union(*each) for each in zip(*outs, strict=True)]
    return [with_varying(jaxpr, wanted) for jaxpr in own]


def _of_types(jaxpr: Jaxpr, avals: tuple[ShapedArray, ...]) -> Jaxpr:
    def make() -> Jaxpr:
        return stage_pure(lambda *xs: eval_jaxpr(jaxpr, (), *xs), avals, name=jaxpr.name)

    return memoized(jaxpr, ("of types", avals), make)


def _check_same(construct: str, pair: Sequence[tuple[str, Callable[..., Any], Body]]) -> None:
    (a, fun_a, body_a), (b, fun_b, body_b) = pair
    asked = (
        f"{construct}: {a} is {definition_of(fun_a)}, {b} is {definition_of(fun_b)}, called at "
        f"{current_source()}"
    )
    if body_a.out_tree != body_b.out_tree:
        found = [
            f"the result{keystr(path)} of {a} is {x} and that of {b} is {y}, {why}"
            for path, x, y, why in equality_errors(body_a.out_tree, body_b.out_tree)
        ]
        raise TypeError(
            three_lines(
                asked,
                f"{construct} branch outputs must have the same pytree structure, but they "
                f"differ: {'; '.join(found)}",
                f"return the same structure from both: {body_a.out_tree} or {body_b.out_tree}",
            )
        )
    wrong = [
        (i, x, y)
        for i, (x, y) in enumerate(zip(body_a.out_avals, body_b.out_avals, strict=True))
        if not (x.same_type(y) and is_split_alike(x, y))
    ]
    if wrong:
        example = tree_unflatten(body_a.out_tree, range(body_a.out_tree.num_leaves))
        paths = [keystr(path) for path, _ in tree_flatten_with_path(example)[0]]
        found = [
            f"the result{paths[i]} of {a} has type {x} and that of {b} has type {y}"
            for i, x, y in wrong
        ]
        raise TypeError(
            three_lines(
                asked,
                f"{construct} branches must have equal output types, but they differ: "
                f"{'; '.join(found)}",
                "convert the results to one dtype with .astype, to one shape, and to one sharding "
                "with kiln.reshard",
            )
        )
