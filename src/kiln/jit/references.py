"""Calls of programs that take references: contents in, contents out, in the same memory.

A content that nothing else refers to is donated. The content that a program returns for a reference
is one, until it is read as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.control.references.discharge import discharged, writes
from kiln.control.references.primitives import content_of
from kiln.control.regions.region import memoized, select_by
from kiln.core.arrays.array import ConcreteArray
from kiln.core.ref import Ref, check_distinct
from kiln.execution.placement import PlacementRequest, Placer, Run
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.rewrite import drop_inputs
from kiln.jit.compiler_options import Settings


class OnContents:
    """A program over contents: first those of the references it changes, then its other inputs.

    `changed` says which inputs are references that it changes, and `own` which of their new
    contents are neither an input nor another result.
    """

    __slots__ = ("changed", "jaxpr", "name", "own", "placers")

    def __init__(self, jaxpr: Jaxpr, name: str) -> None:
        self.name = name
        self.changed = writes(jaxpr)
        count = self.changed.count(True)
        slots = _slots(jaxpr)
        types = tuple([v.aval.inner_aval for v in select_by(self.changed, jaxpr.invars)])
        whole = discharged(jaxpr, slots, types)
        self.jaxpr = drop_inputs(whole, [True] * count + [not c for c in self.changed])
        outs = [id(v) for v in self.jaxpr.outvars]
        ins = {id(v) for v in self.jaxpr.invars}
        self.own = [outs.count(v) == 1 and v not in ins for v in outs[:count]]
        self.placers: dict[tuple[tuple[int, ...], Settings], Placer] = {}

    def run(self, values: Sequence[Any], settings: Settings) -> Sequence[Any]:
        """Run the program on references and arrays, and return its results."""
        refs: list[Ref] = select_by(self.changed, values)
        others = select_by(self.changed, values, False)
        donated = tuple([i for i, ref in enumerate(refs) if ref.is_own])
        contents = [ref.content for ref in refs]
        for ref in refs:
            ref.is_own = False
        placer = self.placers.get((donated, settings))
        if placer is None:
            request = PlacementRequest(donated=donated)
            placer = Placer(self.jaxpr, self.name, request=request, compiler_options=settings)
            self.placers[donated, settings] = placer
        arrays = [content_of(x) if type(x) is Ref else x for x in others]
        outs = placer.run([*contents, *arrays])
        for ref, new, own in zip(refs, outs[: len(refs)], self.own, strict=True):
            ref.content, ref.is_own = new, own
        return outs[len(refs) :]


def in_order(jaxpr: Jaxpr) -> Jaxpr:
    """Return a program over contents in place of references; the changed ones are returned first.

    Unlike in `OnContents`, the inputs stay in the program's order.
    """
    changed, slots = writes(jaxpr), _slots(jaxpr)
    types = tuple([v.aval.inner_aval for v in select_by(changed, jaxpr.invars)])
    whole = discharged(jaxpr, slots, types)
    count = len(types)
    contents, others = whole.invars[:count], whole.invars[count:]
    given = iter(contents)
    return whole.with_(
        invars=[next(given) if c else v for c, v in zip(changed, others, strict=True)],
        arg_names=jaxpr.arg_names,
    )


def storing(run: Run, jaxpr: Jaxpr) -> Run:
    """Return a function that runs the program of `in_order` on references and updates them."""
    changed = writes(jaxpr)
    count = changed.count(True)

    def run_and_store(values: Sequence[Any]) -> list[ConcreteArray]:
        check_distinct(f"call of {jaxpr.name}", values, jaxpr.arg_names)
        outs = run([content_of(x) if type(x) is Ref else x for x in values])
        for ref, new in zip(select_by(changed, values), outs[:count], strict=True):
            ref.content, ref.is_own = new, False
        return outs[count:]

    return run_and_store


def _slots(jaxpr: Jaxpr) -> tuple[int | None, ...]:
    numbers = iter(range(len(jaxpr.invars)))
    return tuple([next(numbers) if changed else None for changed in writes(jaxpr)])


def on_contents(jaxpr: Jaxpr, name: str) -> OnContents:
    """Return the program over contents, made once."""
    found: OnContents = memoized(jaxpr, OnContents, lambda: OnContents(jaxpr, name))
    return found
