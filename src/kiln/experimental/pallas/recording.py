"""Kernels and index maps as jaxprs on references, recorded once for all programs of the grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.base.source import definition_of, name_of
from kiln.control.references.discharge import run_discharged, writes
from kiln.core.staging import check_may_trace, eval_jaxpr, stage_region
from kiln.ir.jaxpr import Jaxpr


class Recorded(NamedTuple):
    """A function as a jaxpr, which takes the values it closes over, then its arguments."""

    jaxpr: Jaxpr
    consts: list[Any]

    @property
    def writes(self) -> list[bool]:
        """Whether it may write to each argument that is a reference."""
        return writes(self.jaxpr)[len(self.consts) :]

    def run(self, args: Sequence[Any]) -> list[Any]:
        """Apply the program, which updates references among the arguments."""
        return run_discharged(self.jaxpr, [*self.consts, *args], _evaluated)


def _evaluated(jaxpr: Jaxpr, args: Sequence[Any]) -> list[Any]:
    return eval_jaxpr(jaxpr, (), *args)


def recorded(
    flat: Callable[..., Sequence[Any]], avals: Sequence[Any], user: Callable[..., Any]
) -> Recorded:
    """Record a function of arrays and references; messages name `user`.

    `flat` is called with arguments of types `avals`, and returns a flat sequence.
    Raises: the exceptions of the function.
    """
    check_may_trace(definition_of(user), "pallas_call")
    jaxpr, consts = stage_region(
        flat, avals, name=name_of(user), definition=definition_of(user), purpose="pallas_call"
    )
    return Recorded(jaxpr, consts)
