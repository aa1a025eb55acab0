"""Along which mesh axes results are unreduced, that is partial sums, and along which reduced.

A linear operation on partial sums gives partial sums of its result, without communication. A value
that is reduced along an axis is equal on all devices along it, and its cotangents are unreduced
along it: they are summed where the differentiated function says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.core.staging import refuse
from kiln.ir.shardings.mesh import axes_of
from kiln.ir.shardings.sums import NOWHERE, Sums, Varying

_ADD = "add the parts first: kiln.reshard(x, P(...)) without unreduced="


def _unreduced(x: Any) -> Varying:
    return getattr(x, "sums", Sums()).unreduced


def _reduced(x: Any) -> Varying:
    return getattr(x, "sums", Sums()).reduced


def _splitting(x: Any) -> Varying:
    return frozenset(name for entry in x.split for name in axes_of(entry)) | x.varying


def names_of(split: Sequence[Any], axes: Sequence[int]) -> Varying:
    """Return the mesh axes that split some axes."""
    return frozenset(name for axis in axes for name in axes_of(split[axis]))


def passed(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of results of a linear operation, which all operands share."""
    arrays = [x for x in xs if x.shape or x.sums != Sums()]
    found = arrays[0].sums
    for x in arrays:
        for kind, mine, first in (
            ("unreduced", x.sums.unreduced, found.unreduced),
            ("reduced", x.sums.reduced, found.reduced),
        ):
            if mine != first:
                refuse(
                    name,
                    xs,
                    f"All operands should be {kind} along the same mesh axes. Got "
                    f"{set(mine)} and {set(first)}",
                    _ADD,
                )
    return found


def along_reduced(name: str, xs: Sequence[Any]) -> Varying:
    """Return the axes along which the result of an elementwise operation is reduced.

    Operands without axes agree with all.
    """
    kinds = {_reduced(x) for x in xs if _reduced(x)}
    if not kinds:
        return NOWHERE
    if len(kinds) > 1:
        listed = ", ".join(str(set(kind)) for kind in kinds)
        refuse(name, xs, f"All inputs should be reduced across the same mesh axes. Got: {listed}")
    (found,) = kinds
    for x in xs:
        if not x.shape or _reduced(x) == found or _unreduced(x) == found:
            continue
        if found & _splitting(x):
            refuse(
                name,
                xs,
                "Inputs cannot be sharded/varying on the same axes that another input is reduced "
                f"on: {set(found)}",
                "shard the reduced one: kiln.reshard(x, P(...))",
            )
        refuse(
            name,
            xs,
            "Inputs cannot be replicated on the same axes that another input is reduced on: "
            f"{set(found)}",
            "say that it is reduced, too: kiln.reshard(x, P(..., reduced={...}))",
        )
    return found


def of_elements(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of a result of an elementwise operation that is not linear."""
    if any(map(_unreduced, xs)):
        refuse(name, xs, f"unreduced rule for {name} is not implemented", _ADD)
    return Sums(NOWHERE, along_reduced(name, xs))


def of_sum(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of a result that is the sum of two operands."""
    reduced = along_reduced(name, xs)
    x, y = map(_unreduced, xs)
    if x and y and x != y:
        refuse(
            name,
            xs,
            f"lhs and rhs to `{name}` must be unreduced along the same mesh axes. Got lhs="
            f"{set(x)}, rhs={set(y)}",
            _ADD,
        )
    if x != y:
        which = ("lhs", "rhs") if x else ("rhs", "lhs")
        refuse(
            name,
            xs,
            f"{which[0]} is unreduced while {which[1]} is not. `{name}` operation does not allow "
            "this because there will be implicit communication",
            _ADD,
        )
    return Sums(x, reduced)


def of_product(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of a result that is linear in each of two operands."""
    x, y = xs
    reduced = along_reduced(name, xs)
    if _unreduced(x) and _unreduced(y):
        refuse(
            name, xs, f"lhs and rhs to `{name}` cannot be unreduced since {name} is bilinear", _ADD
        )
    for (here, a), (there, b) in ((("LHS", x), ("RHS", y)), (("RHS", y), ("LHS", x))):
        parts = _unreduced(a)
        if parts and parts != _reduced(b):
            refuse(
                name,
                xs,
                f"{there} should be reduced along the same axes {here} is unreduced on. Got "
                f"{set(parts)} and {set(_reduced(b))}",
                _ADD,
            )
        if parts:
            return Sums(parts, NOWHERE)
    return Sums(NOWHERE, reduced)


def of_cases(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of elements selected from operands by the first operand."""
    which, *cases = xs
    if _unreduced(which):
        refuse(name, xs, f"unreduced rule for the choice of {name} is not implemented", _ADD)
    return passed(name, cases)


def of_quotient(name: str, xs: Sequence[Any]) -> Sums:
    """Return the sums of a result that is linear in the first of two operands."""
    return of_elements(name, xs) if _unreduced(xs[1]) else of_product(name, xs)


SUMS = {
    "add": of_sum,
    "sub": of_sum,
    "mul": of_product,
    "div": of_quotient,
    "select_n": of_cases,
    **dict.fromkeys(("neg", "real", "imag", "conj", "copy"), passed),
}
"""By the name of an elementwise operation, if it is linear."""


def check_contraction(x: Any, y: Any, numbers: Any, out_sharding: Any) -> None:
    """Raise ShardingTypeError unless a contraction can be left as sums along unreduced axes."""
    unreduced = _asked_of(out_sharding)
    if _unreduced(x) or _unreduced(y):
        refuse(
            "dot_general",
            [x, y],
            "lhs or rhs passed to dot_general cannot be unreduced",
            _ADD,
        )
    if not unreduced:
        return
    (left, right), _ = numbers
    a, b = [x.split[i] for i in left], [y.split[i] for i in right]
    summed = frozenset(name for entry in a for name in axes_of(entry))
    if a != b:
        refuse(
            "dot_general",
            [x, y],
            "lhs and rhs contracting dims should be sharded identically when out_sharding provided "
            f"to dot_general mentions unreduced axes. Got {tuple(a)} and {tuple(b)}",
        )
    if unreduced != summed:
        refuse(
            "dot_general",
            [x, y],
            "out_sharding's unreduced axes should be equal to the contracting specs. Got unreduced "
            f"axes={set(unreduced)} and contracting spec={tuple(a)}",
        )


def _asked_of(out_sharding: Any) -> Varying:
    """Return the unreduced axes of a sharding or spec."""
    spec = getattr(out_sharding, "spec", out_sharding)
    return getattr(spec, "unreduced", NOWHERE)


def check_reduction(x: Any, axes: Sequence[int], out_sharding: Any) -> None:
    """Raise ShardingTypeError unless a sum can be left as sums along unreduced axes."""
    unreduced = _asked_of(out_sharding)
    used = _unreduced(x).union(*[axes_of(x.split[axis]) for axis in axes])
    if unreduced - used:
        refuse(
            "reduce_sum",
            [x],
            "out_sharding's unreduced axes should be in operand's specs that were summed over. Got "
            f"{set(unreduced)} and {set(used)}",
        )
