"""Programs as data: variables, literals, equations, jaxprs.

Nothing here runs or traces. A jaxpr is immutable once built; `memo` holds programs derived from it
(its jvp, its batched form), which therefore live exactly as long as it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.lazy import display, jaxpr_html
from kiln.base.source import Source
from kiln.ir.effects import NO_EFFECTS, REF_READ, REFS, Effects, union
from kiln.ir.operation import Operation
from kiln.ir.printing.printer import eqn_to_text, to_text
from kiln.ir.ref_type import is_ref_type
from kiln.ir.source_info import NameStack, SourceInfo
from kiln.ir.types import ShapedArray


class Var:
    """A variable, bound once; compared by identity."""

    __slots__ = ("aval",)
    is_literal = False

    def __init__(self, aval: ShapedArray) -> None:
        self.aval = aval

    def __repr__(self) -> str:
        return f"Var:{self.aval.str_short()}"


class Literal:
    """A constant in the program.

    `val` is a Python scalar if the type is weak or it is a bool, else a NumPy scalar or, in
    programs derived by transformations, a read-only NumPy array.
    """

    __slots__ = ("aval", "val")
    is_literal = True

    def __init__(self, val: Any, aval: ShapedArray) -> None:
        self.val = val
        self.aval = aval

    def __repr__(self) -> str:
        return f"{self.val}:{self.aval.str_short()}"


Atom = Var | Literal


class Eqn:
    """One application of a primitive."""

    __slots__ = ("effects", "invars", "outvars", "params", "primitive", "source")

    def __init__(
        self,
        primitive: Operation,
        invars: Sequence[Atom],
        outvars: Sequence[Var],
        params: dict[str, Any],
        effects: Effects = NO_EFFECTS,
        source: Source | None = None,
    ) -> None:
        self.primitive = primitive
        self.invars = invars
        self.outvars = outvars
        self.params = params
        self.effects = effects
        self.source = source

    @property
    def source_info(self) -> SourceInfo:
        """The line that the equation comes from, with the names of scopes around it."""
        return SourceInfo(self.source, NameStack(self.source.scopes if self.source else ()))

    def with_(self, **changes: Any) -> Eqn:
        """Return a copy of the equation with some parts replaced."""
        parts = {name: getattr(self, name) for name in self.__slots__}
        return Eqn(**{**parts, **changes})

    replace = with_

    def __repr__(self) -> str:
        return eqn_to_text(self)


class Jaxpr:
    """A function of arrays: constants and inputs in, equations, outputs.

    `arg_names` are the user's names of the inputs (`x`, `d['a'][0]`), for messages only.
    """

    __slots__ = (
        "__weakref__",
        "arg_names",
        "constvars",
        "effects",
        "eqns",
        "invars",
        "memo",
        "name",
        "outvars",
    )

    def __init__(
        self,
        constvars: Sequence[Var],
        invars: Sequence[Var],
        eqns: Sequence[Eqn],
        outvars: Sequence[Atom],
        *,
        name: str = "",
        arg_names: Sequence[str] = (),
    ) -> None:
        self.constvars = list(constvars)
        self.invars = list(invars)
        self.eqns = list(eqns)
        self.outvars = list(outvars)
        self.effects = union(eqn.effects for eqn in eqns)
        for var in (*constvars, *invars):
            if is_ref_type(var.aval):
                self.effects |= {REF_READ}
        self.name = name
        self.arg_names = tuple(arg_names)
        self.memo: dict[Any, Any] = {}

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs."""
        return [v.aval for v in self.invars]

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outputs."""
        return [v.aval for v in self.outvars]

    def with_(self, **changes: Any) -> Jaxpr:
        """Return a copy of the jaxpr with some parts replaced."""
        parts: dict[str, Any] = {
            "constvars": self.constvars,
            "invars": self.invars,
            "eqns": self.eqns,
            "outvars": self.outvars,
            "name": self.name,
            "arg_names": self.arg_names,
        }
        return Jaxpr(**{**parts, **changes})

    replace = with_

    @property
    def jaxpr(self) -> Jaxpr:
        """The program itself: inner programs have no constants, and pass for closed ones."""
        return self

    @property
    def consts(self) -> list[Any]:
        """The values of its constants, of which it has none.

        Raises: AttributeError if it has constants, whose values a `ClosedJaxpr` holds.
        """
        if self.constvars:
            raise AttributeError("consts of a Jaxpr with constants: a ClosedJaxpr has their values")
        return []

    literals = consts

    def __repr__(self) -> str:
        return to_text(self)

    def _repr_html_(self) -> str:
        shown: str = jaxpr_html.to_html(self)
        return shown

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        display.pretty(repr(self), printer)


class ClosedJaxpr:
    """A jaxpr together with the values of its constants."""

    __slots__ = ("__weakref__", "consts", "jaxpr")

    def __init__(self, jaxpr: Jaxpr, consts: Sequence[Any] = ()) -> None:
        self.jaxpr = jaxpr
        self.consts = list(consts)

    @property
    def eqns(self) -> list[Eqn]:
        """The equations."""
        return self.jaxpr.eqns

    @property
    def in_avals(self) -> list[ShapedArray]:
        """The types of the inputs."""
        return self.jaxpr.in_avals

    @property
    def out_avals(self) -> list[ShapedArray]:
        """The types of the outputs."""
        return self.jaxpr.out_avals

    @property
    def effects(self) -> Effects:
        """The effects of the program."""
        return self.jaxpr.effects

    @property
    def literals(self) -> list[Any]:
        """The values of its constants."""
        return self.consts

    def replace(self, **changes: Any) -> ClosedJaxpr:
        """Return a copy with the jaxpr or the constants replaced."""
        return ClosedJaxpr(**{"jaxpr": self.jaxpr, "consts": self.consts, **changes})

    def __repr__(self) -> str:
        return to_text(self.jaxpr)

    def _repr_html_(self) -> str:
        return self.jaxpr._repr_html_()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        display.pretty(repr(self), printer)


def has_refs(jaxpr: Jaxpr) -> bool:
    """Tell whether a program takes, makes or uses references."""
    return not jaxpr.effects.isdisjoint(REFS)


def takes_refs(jaxpr: Jaxpr) -> bool:
    """Tell whether some input of a program is a reference."""
    return any(is_ref_type(v.aval) for v in jaxpr.invars)
