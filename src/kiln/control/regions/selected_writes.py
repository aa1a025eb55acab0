"""Conditional writes into a carried array.

`where(flag, x.at[i].set(value), x)` at each step of a loop copies the array. Where a flag, or one
per example, selects between a carry and an updated carry, the program becomes: if the flag does not
hold, rewrite what is there. Then the cost of a step is that of the windows, and the array is
updated in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.control.regions.guarded import WRITES, guarded_write
from kiln.control.regions.region import memoized
from kiln.core.staging import stage_pure
from kiln.core.trace import state
from kiln.ir.jaxpr import Eqn, Jaxpr, Var
from kiln.ir.sharded_types import has_sharding
from kiln.ops.elements.elementwise import not_p, select_n_p
from kiln.ops.indexing.indexing import scatter_p
from kiln.ops.shape import broadcast_in_dim_p


class _Choice(NamedTuple):
    """The operands of a `select_n`: writes, the last one first, or the array before them.

    `if_true` says whether a true flag selects the writes, `axes` which axes of the array it has.
    """

    flag: Any
    axes: tuple[int, ...]
    if_true: bool
    writes: tuple[Eqn, ...]


def without_copies(body: Jaxpr) -> Jaxpr:
    """Return an equal program with conditional writes in place; the same object if it has none."""
    if body.effects or not any(eqn.primitive in WRITES for eqn in body.eqns):
        return body
    return memoized(body, "without copies", lambda: _without_copies(body))


def _without_copies(body: Jaxpr) -> Jaxpr:
    choices = _choices(body)
    if not choices or has_sharding(body.in_avals):
        return body
    made = stage_pure(
        lambda *xs: _run(body, xs, choices), body.in_avals, name=body.name, purpose="a loop"
    )
    return made.with_(arg_names=body.arg_names) if made.out_avals == body.out_avals else body


def _choices(body: Jaxpr) -> dict[int, _Choice]:
    """Return the selections by the ids of their equations."""
    made = {v: eqn for eqn in body.eqns if eqn.primitive in WRITES for v in eqn.outvars}
    uses: dict[Any, int] = {}
    for atom in (*[v for eqn in body.eqns for v in eqn.invars], *body.outvars):
        if atom in made:
            uses[atom] = uses.get(atom, 0) + 1
    carried = set(body.invars)
    spread: dict[Any, tuple[Any, tuple[int, ...]]] = {
        eqn.outvars[0]: (eqn.invars[0], tuple(eqn.params["broadcast_dimensions"]))
        for eqn in body.eqns
        if eqn.primitive is broadcast_in_dim_p and len(eqn.invars) == 1
    }
    found = {}
    for eqn in body.eqns:
        if eqn.primitive is not select_n_p or len(eqn.invars) != 3:
            continue
        which = eqn.invars[0]
        flag, axes = spread.get(which, (which, tuple(range(len(which.aval.shape)))))
        for kept, written in ((1, 2), (2, 1)):
            writes: list[Eqn] = []
            atom, before = eqn.invars[written], eqn.invars[kept]
            while isinstance(atom, Var) and uses.get(atom) == 1:
                writes.append(made[atom])
                atom = made[atom].invars[0]
            if not (writes and atom is before and atom in carried and _are_windows(writes)):
                continue
            if all(_places(write, axes, flag.aval.shape) is not None for write in writes):
                found[id(eqn)] = _Choice(flag, axes, written == 2, tuple(writes))
    return found


def _places(write: Eqn, axes: Sequence[int], sizes: Sequence[Any]) -> list[int] | None:
    """Return which axes of an update correspond to those of a flag; None unless all do."""
    shape = write.outvars[0].aval.shape
    if any(shape[axis] != size for axis, size in zip(axes, sizes, strict=True)):
        return None
    if write.primitive is not scatter_p:
        update = write.invars[1].aval.shape
        return list(axes) if all(update[axis] == shape[axis] for axis in axes) else None
    numbers = write.params["dimension_numbers"]
    rank = len(write.invars[2].aval.shape)
    ours = [axis for axis in range(rank) if axis not in numbers.update_window_dims]
    at = dict(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims))
    return [ours[at[axis]] for axis in axes] if all(axis in at for axis in axes) else None


def _are_windows(writes: Sequence[Eqn]) -> bool:
    """Tell whether each write covers less than half of the array."""
    sizes = [(max(v.aval.size for v in eqn.invars[1:]), eqn.outvars[0].aval.size) for eqn in writes]
    return all(isinstance(n, int) and isinstance(m, int) and 2 * n < m for n, m in sizes)


def _run(body: Jaxpr, xs: Sequence[Any], choices: dict[int, _Choice]) -> list[Any]:
    env: dict[Any, Any] = dict(zip(body.invars, xs, strict=True))
    late = {id(write) for choice in choices.values() for write in choice.writes}

    def read(atom: Any) -> Any:
        return atom.val if atom.is_literal else env[atom]

    previous = state.source
    try:
        for eqn in body.eqns:
            if id(eqn) in late:
                continue
            operands = [read(v) for v in eqn.invars if id(eqn) not in choices]
            choice = choices.get(id(eqn))
            if choice is None:
                state.source = eqn.source
                result = eqn.primitive.bind(*operands, **eqn.params)
                env.update(zip(eqn.outvars, result if eqn.primitive.multiple else [result]))
                continue
            flag = read(choice.flag)
            flag = flag if choice.if_true else not_p.bind(flag)
            for write in reversed(choice.writes):
                state.source = write.source
                places = _places(write, choice.axes, choice.flag.aval.shape)
                values = [read(v) for v in write.invars]
                made = guarded_write(write, flag, values, places or ())
                env[write.outvars[0]] = env[eqn.outvars[0]] = made
    finally:
        state.source = previous
    return [read(v) for v in body.outvars]
