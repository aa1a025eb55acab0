"""Reading and building programs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import Source, current_source
from kiln.core.staging import eval_jaxpr
from kiln.ir.analysis.checker import check
from kiln.ir.effects import NO_EFFECTS, Effects
from kiln.ir.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var
from kiln.ir.operation import Operation
from kiln.ir.source_info import SourceInfo
from kiln.ir.types import ShapedArray


class DebugInfo(NamedTuple):
    """What a program was recorded from, for messages."""

    traced_for: str
    func_src_info: str
    arg_names: tuple[str, ...] | None
    result_paths: Any


class DropVar(Var):
    """A result without use. kiln's programs have none: such a result is a variable like others."""


def jaxpr_as_fun(closed_jaxpr: ClosedJaxpr) -> Callable[..., list[Any]]:
    """Return a program as a function from arrays to a list of arrays.

    `closed_jaxpr` has its constants; the function evaluates it equation by equation.
    """
    return functools.partial(eval_jaxpr, closed_jaxpr.jaxpr, closed_jaxpr.consts)


def jaxprs_in_params(params: dict[str, Any]) -> Iterator[Jaxpr]:
    """Yield the programs among an equation's parameters.

    `params` is a dict by name; a value may be a program, or a tuple with some.
    """
    for value in params.values():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (Jaxpr, ClosedJaxpr)):
                yield item.jaxpr


def subjaxprs(jaxpr: Jaxpr) -> Iterator[Jaxpr]:
    """Yield the programs that a program's equations hold.

    `jaxpr` itself is not among them, nor are those inside its own.
    """
    for eqn in jaxpr.eqns:
        yield from jaxprs_in_params(eqn.params)


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Check that each variable is bound once, before its uses, and each equation well typed.

    Raises: JaxprTypeError with the equation.
    """
    check(jaxpr)


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Operation,
    params: dict[str, Any],
    effects: Effects = NO_EFFECTS,
    source_info: SourceInfo | Source | None = None,
    ctx: Any = None,
) -> Eqn:
    """Return an equation.

    The arguments are its fields; its `source_info` is by default the line of user code that is
    running, and `ctx` has no effect.
    """
    if isinstance(source_info, SourceInfo):
        source_info = source_info.traceback
    source = source_info or current_source()
    return Eqn(primitive, list(invars), list(outvars), params, effects, source)


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """Return a function that returns a new variable of a type.

    `suffix` has no effect: variables have no names.
    """
    return Var


def mapped_aval(size: Any, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """Return the type of an element of a stack along an axis; the same type if that is None.

    `aval` is the type of the stack; `size` has no effect, since the axis has it.
    """
    if axis is None:
        return aval
    return aval.without_axis(axis)


def unmapped_aval(
    size: Any, axis: int | None, aval: ShapedArray, explicit_mesh_axis: Any = None
) -> ShapedArray:
    """Return the type of a stack along a new axis; the same type if that is None.

    `aval` is the type of an element, `size` the length of the stack; `explicit_mesh_axis` has no
    effect.
    """
    if axis is None:
        return aval
    return aval.with_axis(axis, size)


def primal_dtype_to_tangent_dtype(primal_dtype: Any) -> Any:
    """Return the dtype of tangents of a dtype: the same if inexact, else float0.

    `primal_dtype` is anything that `jnp.dtype` takes.
    """
    return ShapedArray((), dtypes.as_dtype(primal_dtype)).tangent().dtype
