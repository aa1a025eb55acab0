"""From a program to a StableHLO module as text.

`lower` writes one module: `@main`, and one private function for each jaxpr that is called.
`lowerings/` lower equations; `builder.py` writes operations. The text has no source locations
unless requested, so equal programs give equal texts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.control.exported_call import PortableProgram
from kiln.core.engines.engine import Placement
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.builder import (
    TOKEN,
    Builder,
    Lowering,
    Staged,
    Value,
    is_ordered,
    numbers,
    record,
    type_of,
)
from kiln.engines.xla.stablehlo.callbacks import HostCallback
from kiln.engines.xla.stablehlo.imported import Imported, imported
from kiln.engines.xla.stablehlo.partition import Partition
from kiln.engines.xla.stablehlo.sized_builder import SizedBuilder, size_name
from kiln.engines.xla.stablehlo.sized_main import SIZED_MAIN, sized_main
from kiln.engines.xla.stablehlo.writer import PLATFORM
from kiln.ir.effects import must_keep
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.size import is_constant, names
from kiln.ir.types import ShapedArray


@dataclasses.dataclass(frozen=True)
class LoweredModule:
    """A module's text, with the metadata that its executable needs.

    With `effects`, the first result of main is a token; with `ordered`, so is its first argument.
    """

    text: str
    callbacks: Sequence[HostCallback]
    ordered: bool
    effects: bool

    def at(self, level: int) -> LoweredModule:
        """Return the module for a level of nested callbacks."""
        calls = [callback.at(level) for callback in self.callbacks]
        return LoweredModule(self.text, calls, self.ordered, self.effects)


class Export(Record):
    """The parameters of a module for export: its platforms, and its named sizes.

    With several platforms, its first argument is the number of the one it runs on.
    """

    platforms: tuple[str, ...]
    sizes: tuple[str, ...] = ()

    @property
    def is_refined(self) -> bool:
        """Whether sizes or the platform are determined when the module is compiled."""
        return len(self.platforms) > 1 or bool(self.sizes)

    def leading(self) -> list[str]:
        """Return the arguments before those of the program."""
        if len(self.platforms) == 1:
            return []
        return [f'{PLATFORM}: tensor<i32> {{jax.global_constant = "_platform_index"}}']

    def attributes(self) -> str:
        """Return the attributes of the module, each with a comma."""
        return f"jax.uses_shape_polymorphism = {'true' if self.is_refined else 'false'}, "


class Module:
    """A module under construction."""

    def __init__(
        self,
        lowerings: Mapping[Any, Lowering],
        *,
        locations: bool = False,
        placement: Placement | None = None,
        export: Export | None = None,
    ) -> None:
        self._export = export
        self.lowerings = lowerings
        self.locations = locations
        self.partition = Partition(placement)
        self._placement = placement
        self.callbacks: list[HostCallback] = []
        self._bodies: list[str] = []
        # Jaxprs are kept with their names: an id is only valid while its object is alive.
        self._functions: dict[int, tuple[str, Jaxpr]] = {}
        self._symbols: set[str] = {"main"}
        self._staged: dict[Any, Staged] = {}
        self._imported: dict[Any, Imported] = {}

    @property
    def platforms(self) -> tuple[str, ...]:
        """The target platforms: by default that of the devices it is compiled for."""
        if self._export is not None:
            return self._export.platforms
        placement = self._placement
        return (str(placement.devices[0].platform) if placement else "cpu",)

    def imported(
        self,
        program: PortableProgram,
        types: Sequence[ShapedArray],
        results: Sequence[ShapedArray],
    ) -> Imported:
        """Return the function of a stored program for such operands, emitting it on first use.

        Raises: ValueError for a program for other platforms, or if sizes do not match.
        """
        key = (program, tuple(types))
        found = self._imported.get(key)
        if found is None:
            prefix = f"exported_{len(self._imported)}_"
            found = self._imported[key] = imported(program, types, results, prefix, self.platforms)
            self._bodies += found.functions
        return found

    def main(self, jaxpr: Jaxpr, aliases: Mapping[int, int], donors: Collection[int]) -> None:
        """Write the entry function.

        `aliases` maps donated inputs to outputs; for `donors` XLA chooses the outputs.
        """
        token = has_effects(jaxpr)
        inputs = [*jaxpr.constvars, *jaxpr.invars]
        heads = [[attribute] for attribute in self.partition.inputs([v.aval.ndim for v in inputs])]
        for i, output in aliases.items():
            heads[i].append(f"tf.aliasing_output = {output + token} : i32")
        for i in donors:
            heads[i].append("jax.buffer_donor = true")
        tails = [
            [attribute]
            for attribute in self.partition.outputs([v.aval.ndim for v in jaxpr.outvars])
        ]
        if self._export is None or not self._export.sizes:
            self._write("public", "main", jaxpr, heads, tails, with_token=token)
            return
        sizes = self._export.sizes
        inner = f"{SIZED_MAIN}_{text.symbol(jaxpr.name)}" if jaxpr.name else SIZED_MAIN
        self._symbols.add(inner)
        avals = [v.aval for v in inputs]
        leading, outs = self._export.leading(), jaxpr.out_avals
        attributes = (list(map(_attributes, heads)), list(map(_attributes, tails)))
        self._bodies.append(sized_main(self, inner, sizes, avals, outs, leading, attributes))
        self._write("private", inner, jaxpr, (), (), with_token=token)

    def function(self, jaxpr: Jaxpr, name: str) -> str:
        """Return the symbol of the function for a jaxpr, emitting it on first use."""
        known = self._functions.get(id(jaxpr))
        if known is not None:
            return known[0]
        wanted = symbol = text.symbol(name)
        count = 0
        while symbol in self._symbols:
            count += 1
            symbol = f"{wanted}_{count}"
        self._symbols.add(symbol)
        self._functions[id(jaxpr)] = (symbol, jaxpr)
        self._write("private", symbol, jaxpr, (), (), with_token=is_ordered(jaxpr))
        return symbol

    def _write(
        self,
        visibility: str,
        symbol: str,
        jaxpr: Jaxpr,
        heads: Sequence[Sequence[str]],
        tails: Sequence[Sequence[str]],
        *,
        with_token: bool,
    ) -> None:
        export = self._export
        sizes = export.sizes if export is not None else ()
        is_refined = export is not None and export.is_refined
        builder = SizedBuilder(self, numbers()) if is_refined else Builder(self, numbers())
        ordered = is_ordered(jaxpr)
        if ordered:
            builder.token = Value("%token", TOKEN)
        inputs = [*jaxpr.constvars, *jaxpr.invars]
        args = [Value(f"%arg{i}", v.aval) for i, v in enumerate(inputs)]
        place = len(self._bodies)
        self._bodies.append("")
        outs = builder.inline(jaxpr, args)
        if with_token:
            outs = [builder.token or builder.new_token(), *outs]
        around = _attributes([self.partition.repeated(0)]) if visibility == "public" else ""
        head = [f"%token: {type_of(TOKEN)}{around}"] if ordered else []
        head = [*[f"{size_name(name)}: tensor<i32>" for name in sizes], *head]
        if export is not None:
            head = [*export.leading(), *head]
        for i, arg in enumerate(args):
            head.append(f"{arg}: {type_of(arg.aval)}{_attributes(heads[i]) if heads else ''}")
        notes = [around] * with_token + [_attributes(tail) for tail in tails]
        if not tails:
            notes += [""] * (len(outs) - len(notes))
        results = ", ".join(type_of(v.aval) + note for v, note in zip(outs, notes, strict=True))
        types = ", ".join(type_of(v.aval) for v in outs)
        end = f" {', '.join(map(str, outs))} : {types}" if outs else ""
        self._bodies[place] = "\n".join(
            [
                f"  func.func {visibility} @{symbol}({', '.join(head)}) -> ({results}) {{",
                *builder.lines,
                f"    return{end}",
                "  }",
            ]
        )

    def add_callback(self, callback: HostCallback) -> int:
        """Register a host function; return its number."""
        self.callbacks.append(callback)
        return len(self.callbacks) - 1

    def staged(
        self, fun: Callable[..., Any], avals: Sequence[ShapedArray], params: dict[str, Any]
    ) -> Staged:
        """Record a function of kiln's operations, once for equal types and parameters."""
        try:
            key = (fun, tuple(avals), tuple(params.items()))
            found = self._staged.get(key)
        except TypeError:
            return record(fun, avals, params)
        if found is None:
            found = self._staged[key] = record(fun, avals, params)
        return found

    def text(self, name: str) -> str:
        """Return the module's text."""
        attributes = "" if self._export is None else self._export.attributes()
        head = (
            f"module @{text.symbol('jit_' + name)} attributes "
            f"{{{attributes}mhlo.num_partitions = {self.partition.count} : i32, "
            "mhlo.num_replicas = 1 : i32} {"
        )
        return "\n".join([head, *self.partition.lines(), *self._bodies, "}", ""])


def _attributes(texts: Sequence[str]) -> str:
    found = ", ".join(text for text in texts if text)
    return f" {{{found}}}" if found else ""


def lower(
    jaxpr: Jaxpr,
    name: str,
    lowerings: Mapping[Any, Lowering],
    *,
    aliases: Mapping[int, int] | None = None,
    donors: Collection[int] = (),
    placement: Placement | None = None,
    locations: bool = False,
    export: Export | None = None,
) -> LoweredModule:
    """Lower a jaxpr without constants to a module.

    Raises: UnsupportedPrimitive, naming the primitive and the source line.
    """
    if export is None:
        _check_sizes(jaxpr)
    module = Module(lowerings, locations=locations, placement=placement, export=export)
    module.main(jaxpr, aliases or {}, donors)
    return LoweredModule(module.text(name), module.callbacks, is_ordered(jaxpr), has_effects(jaxpr))


def _check_sizes(jaxpr: Jaxpr) -> None:
    for var in jaxpr.invars:
        if not is_constant(var.aval.shape):
            raise NotImplementedError(
                three_lines(
                    f"a program with a value of type {var.aval}",
                    "the xla engine needs constant sizes, and "
                    f"{', '.join(names(*var.aval.shape))} is a name",
                    "call the function without abstracted_axes",
                )
            )


def has_effects(jaxpr: Jaxpr) -> bool:
    """Tell whether a jaxpr does something besides computing."""
    return must_keep(jaxpr.effects) or is_ordered(jaxpr)
