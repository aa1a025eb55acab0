"""Ahead of time: trace, look, lower, look, compile, call."""

from __future__ import annotations

import dataclasses
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import api_boundary
from kiln.base.tree import tree_unflatten
from kiln.core import compilation
from kiln.core.engine import default_engine
from kiln.core.placement import Placer
from kiln.core.trace import Tracer, aval_of
from kiln.ir.jaxpr import ClosedJaxpr
from kiln.jit.cache import Entry
from kiln.jit.spelling import flatten_call, respelled, shown
from kiln.jit.struct import struct_of


@dataclasses.dataclass(frozen=True)
class Traced:
    """A function traced for given types of arguments."""

    entry: Entry
    keep_unused: bool
    names: tuple[str, ...] = ()
    """The parameters that take arrays by position."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; where axes have names, the one for all sizes."""
        jaxpr, n = self.entry.general or self.entry.jaxpr, len(self.entry.consts)
        return ClosedJaxpr(
            jaxpr.with_(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:], arg_names=()),
            self.entry.consts,
        )

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self.entry.name

    @property
    def out_info(self) -> Any:
        """The types of the results, in the results' structure."""
        structs = [struct_of(a) for a in self.entry.jaxpr.out_avals]
        return tree_unflatten(self.entry.out_tree, structs)

    def lower(self) -> Lowered:
        """Translate the program for the engine."""
        return Lowered(self.entry, self.keep_unused, self.names)


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A program in its engine's language."""

    entry: Entry
    keep_unused: bool
    names: tuple[str, ...] = ()
    """The parameters that take arrays by position."""

    def as_text(self, dialect: str | None = None) -> str:
        """Return the program's text.

        Raises: ValueError for an unknown dialect.
        """
        if dialect == "jaxpr":
            return str(self.entry.jaxpr)
        if dialect not in (None, "stablehlo"):
            raise ValueError(
                three_lines(
                    f"as_text({dialect!r})", "there is no such dialect", "use 'stablehlo', 'jaxpr'"
                )
            )
        return default_engine().lower(self.entry.placer_for(self.keep_unused).program())

    @api_boundary
    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile the program."""
        chosen = tuple(sorted((compiler_options or {}).items()))
        placer = Placer(
            self.entry.jaxpr,
            self.entry.name,
            wishes=self.entry.wishes,
            keep_unused=self.keep_unused,
            compiler_options=chosen,
        )
        compiled = placer.compiled()
        # Whoever compiled ahead of time does not want to wait for it a second time.
        compiled.pin()
        return Compiled(self.entry, compiled, placer, self.names)


@dataclasses.dataclass(frozen=True)
class Compiled:
    """An executable program for fixed types of arguments."""

    entry: Entry
    compiled: compilation.Compiled
    placer: Placer
    names: tuple[str, ...] = ()

    def as_text(self) -> str:
        """Return the optimised program's text."""
        return self.compiled.executable.as_text("hlo")

    @api_boundary
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program; static arguments are left out.

        Raises: TypeError for other types or another structure than compiled for.
        """
        if kwargs:
            args, kwargs = respelled(args, kwargs, self.entry.in_tree, self.names)
        leaves, tree = flatten_call(args, kwargs)
        if tree != self.entry.in_tree:
            raise TypeError(
                three_lines(
                    f"call of the compiled function {self.entry.name}",
                    f"Function compiled with input pytree {shown(self.entry.in_tree)} "
                    f"and called with {shown(tree)}",
                    "pass arguments of the same structure, without the static ones",
                )
            )
        expected = self.entry.jaxpr.in_avals[len(self.entry.consts) :]
        names = self.entry.jaxpr.arg_names[len(self.entry.consts) :]
        for x, want, name in zip(leaves, expected, names, strict=True):
            if isinstance(x, Tracer):
                raise TypeError(
                    three_lines(
                        f"call of the compiled function {self.entry.name} with tracer {name}",
                        "Cannot apply a transform to a function that was compiled ahead of time",
                        "transform the function before compiling it",
                    )
                )
            if not aval_of(x).same_type(want):
                raise TypeError(
                    three_lines(
                        f"call of the compiled function {self.entry.name}",
                        f"argument {name} compiled with {want} and called with {aval_of(x)}",
                        "convert the argument, or compile again for its type",
                    )
                )
        outs = self.placer.run([*self.entry.consts, *leaves])
        return tree_unflatten(self.entry.out_tree, outs)
