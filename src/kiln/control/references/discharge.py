"""References as values: a program that threads the content of each reference.

As `checkify` does with the state of checks, the contents of references become a state that regions
thread through their programs, by the same rule, `thread_state`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.references.primitives import (
    Changing,
    content_of,
    holding,
    new_ref_p,
    replace_content,
    swap_p,
    write_part,
)
from kiln.core.ref import Ref
from kiln.core.staging import stage_pure
from kiln.core.trace import state
from kiln.ir.effects import REFS
from kiln.ir.jaxpr import Eqn, Jaxpr, Var, has_refs
from kiln.ir.operation import Operation
from kiln.ir.ref_type import is_ref_type
from kiln.ir.types import ShapedArray

_NOTHING = ShapedArray((), np.dtype(np.bool_))
"""The type of the placeholder for a reference whose content is part of the state."""
Slots = tuple[int | None, ...]


def writes(jaxpr: Jaxpr) -> list[bool]:
    """Tell which of its inputs a program may write to."""
    found: list[bool] | None = jaxpr.memo.get(writes)
    if found is None:
        changed = {id(v) for eqn in jaxpr.eqns for v in _written(eqn)}
        found = jaxpr.memo[writes] = [id(v) in changed for v in jaxpr.invars]
    return found


def _written(eqn: Eqn) -> list[Any]:
    if isinstance(eqn.primitive, Changing):
        return [eqn.invars[0]]
    if eqn.effects.isdisjoint(REFS) or eqn.primitive.programs is None:
        return []
    pairs = eqn.primitive.programs(eqn.invars, **eqn.params)
    return [
        v
        for jaxpr, operands in pairs
        for v, written in zip(operands, writes(jaxpr), strict=True)
        if written
    ]


def discharged(jaxpr: Jaxpr, slots: Slots = (), types: tuple[ShapedArray, ...] = ()) -> Jaxpr:
    """Return the program without references; a state of these types precedes inputs and results.

    `slots` says where in the state the content of each input is stored. The content of a reference
    that is not in the state takes its place among the inputs.
    """
    slots = slots or (None,) * len(jaxpr.invars)
    key = (discharged, slots, types)
    found = jaxpr.memo.get(key)
    if found is None:
        found = jaxpr.memo[key] = _discharged(jaxpr, slots, types)
    return found


def _discharged(jaxpr: Jaxpr, slots: Slots, types: tuple[ShapedArray, ...]) -> Jaxpr:
    count = len(types)

    def run(*args: Any) -> list[Any]:
        contents = [holding(a, x) for a, x in zip(types, args[:count], strict=True)]
        inputs = [
            contents[slot] if slot is not None else _as_input(v.aval, x)
            for v, slot, x in zip(jaxpr.invars, slots, args[count:], strict=True)
        ]
        outs = _run(jaxpr, inputs)
        return [*[ref.content for ref in contents], *outs]

    avals = [
        _NOTHING if slot is not None else _content_type(v.aval)
        for v, slot in zip(jaxpr.invars, slots, strict=True)
    ]
    return stage_pure(run, [*types, *avals], name=jaxpr.name, purpose="references")


def _content_type(aval: Any) -> ShapedArray:
    return aval.inner_aval if is_ref_type(aval) else aval


def _as_input(aval: Any, x: Any) -> Any:
    return holding(aval.inner_aval, x) if is_ref_type(aval) else x


def _run(jaxpr: Jaxpr, inputs: Sequence[Any]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(jaxpr.invars, inputs, strict=True))
    used = {v for v in jaxpr.outvars if isinstance(v, Var)}
    used.update(v for eqn in jaxpr.eqns for v in eqn.invars if isinstance(v, Var))
    previous = state.source
    try:
        for eqn in jaxpr.eqns:
            state.source = eqn.source
            values = [v.val if v.is_literal else env[v] for v in eqn.invars]
            primitive = eqn.primitive
            if primitive is new_ref_p:
                result: Any = holding(eqn.invars[0].aval, values[0])
            elif primitive is swap_p and eqn.outvars[0] not in used:
                # The previous content is unused: do not read it, so that it is not checked either.
                ref, value, *arrays = values
                write_part(ref, value, eqn.params["index"], arrays)
                continue
            elif primitive.region and not eqn.effects.isdisjoint(REFS):
                result = bind_discharged(primitive, values, eqn.params)
            else:
                result = primitive.bind(*values, **eqn.params)
            outs = result if primitive.multiple else [result]
            env.update(zip(eqn.outvars, outs, strict=True))
    finally:
        state.source = previous
    return [v.val if v.is_literal else env[v] for v in jaxpr.outvars]


def bind_discharged(primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Apply a region to operands among which are references, whose contents are concrete.

    Raises: NotImplementedError for a region that does not thread a state.
    """
    if primitive.programs is None or primitive.thread_state is None:
        if any(type(x) is Ref for x in args):
            raise NotImplementedError(
                three_lines(
                    f"{primitive} with a reference at {current_source()}",
                    f"{primitive} passes no references on to the functions within it",
                    "pass what it holds, ref[...], and write the result outside",
                )
            )
        without = {name: _without_refs(value) for name, value in params.items()}
        return primitive.bind(*args, **without)
    pairs = primitive.programs(args, **params)
    changing = _changing(pairs)
    slots = {id(jaxpr): _slots(xs, changing) for jaxpr, xs in pairs}
    types = _types(changing)

    def extend(jaxpr: Jaxpr) -> Jaxpr:
        return discharged(jaxpr, slots[id(jaxpr)], types)

    contents = [content_of(ref) for ref in changing.values()]
    outs = primitive.thread_state(
        extend, contents, [_as_operand(x, changing) for x in args], **params
    )
    return _written_back(changing, outs)


def run_discharged(
    jaxpr: Jaxpr, args: Sequence[Any], run: Callable[[Jaxpr, Sequence[Any]], Sequence[Any]]
) -> list[Any]:
    """Apply a program with references by `run`, which gets one without them.

    References among `args` are updated after `run` has returned.
    """
    if not has_refs(jaxpr):
        return list(run(jaxpr, args))
    changing = _changing([(jaxpr, args)])
    program = discharged(jaxpr, _slots(args, changing), _types(changing))
    contents = [content_of(ref) for ref in changing.values()]
    outs = run(program, [*contents, *[_as_operand(x, changing) for x in args]])
    return _written_back(changing, outs)


def _changing(pairs: Sequence[tuple[Jaxpr, Sequence[Any]]]) -> dict[int, Ref]:
    """Return the references among the operands that programs write to."""
    return {
        id(x): x
        for jaxpr, operands in pairs
        for x, written in zip(operands, writes(jaxpr), strict=True)
        if written
    }


def _slots(operands: Sequence[Any], changing: dict[int, Ref]) -> Slots:
    numbers = {key: i for i, key in enumerate(changing)}
    return tuple(numbers.get(id(x)) for x in operands)


def _types(changing: dict[int, Ref]) -> tuple[ShapedArray, ...]:
    return tuple(ref.aval.inner_aval for ref in changing.values())


def _written_back(changing: dict[int, Ref], outs: Sequence[Any]) -> list[Any]:
    """Write the leading results into the references, and return the others."""
    for ref, new in zip(changing.values(), outs[: len(changing)], strict=True):
        replace_content(ref, new)
    return list(outs[len(changing) :])


def _as_operand(x: Any, changing: dict[int, Ref]) -> Any:
    if type(x) is not Ref:
        return x
    return False if id(x) in changing else content_of(x)


def _without_refs(value: Any) -> Any:
    if isinstance(value, Jaxpr):
        return discharged(value) if has_refs(value) else value
    if isinstance(value, tuple):
        return tuple(map(_without_refs, value))
    return value
