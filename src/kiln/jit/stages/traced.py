"""Ahead-of-time stages: trace, lower, compile; each can be inspected.

`compiled.py` has the last stage, which can be called.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kiln.base.errors import three_lines
from kiln.base.lazy import stage_html, whole_program
from kiln.base.options.config import options
from kiln.base.source import api_boundary, current_source
from kiln.core.engines.engine import Compiler, Placement, Program
from kiln.execution.engine_choice import compiler_of, engine_for, is_host_compiler
from kiln.execution.placement import Placer
from kiln.ir.jaxpr import ClosedJaxpr, takes_refs
from kiln.ir.own_effects import OwnEffect
from kiln.ir.sizes.size import Size
from kiln.ir.sizes.values import evaluate
from kiln.jit.compiler_options import merged, settings_of
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import CallForm
from kiln.jit.stages.compiled import Compiled
from kiln.jit.stages.stage import Committed, Stage
from kiln.jit.stages.target import platform_of

if TYPE_CHECKING:
    from kiln.jit.stages.whole_program import DividedProgram, WholeProgram


class Traced(Stage):
    """A function traced for given types of arguments."""

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """The program; where axes have names, the one for all sizes."""
        jaxpr, n = self._recording.general or self._recording.jaxpr, len(self._consts)
        return ClosedJaxpr(
            jaxpr.with_(constvars=jaxpr.invars[:n], invars=jaxpr.invars[n:], arg_names=()),
            self._consts,
        )

    @property
    def arg_names(self) -> tuple[str, ...]:
        """The names of the program's inputs in the user's terms, such as `d['a'][0]`."""
        return (self._recording.general or self._recording.jaxpr).arg_names[len(self._consts) :]

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """The names of the parameters that take arrays by position."""
        return self._form.parameters

    @api_boundary
    def lower(self, *, lowering_platforms: Sequence[str] | None = None) -> Lowered:
        """Translate the program for the engine, and for the platform it will be compiled for.

        `lowering_platforms` names one platform, such as `("cuda",)`: `cpu`, `cuda`, `gpu`, `tpu`.

        Raises: ValueError for several platforms, or an unknown one.
        """
        platform = None
        if lowering_platforms is not None:
            platform = platform_of(lowering_platforms, self.fun_name)
        recording, consts = self._recording, self._consts
        return Lowered(recording, consts, self._placer, self._places, self._form, platform)

    def whole_program(self) -> WholeProgram:
        """Return the program with its constants inside, for the leaves of `(args, kwargs)`.

        Raises: NotImplementedError for a program that takes or closes over references.
        """
        self._refuse_refs("export")
        made: WholeProgram = whole_program.whole_program(
            self._placer, self._consts, self._form.order, self._places
        )
        return made

    def divided_program(self) -> DividedProgram:
        """Return the program that a call compiles, and its closed-over arrays.

        Its arguments are numbered as the leaves of `(args, kwargs)`.

        Raises: NotImplementedError for a program that takes or closes over references.
        """
        self._refuse_refs("the program")
        made: DividedProgram = whole_program.divided_program(self._placer, self._consts)
        places = {bound: i for i, bound in enumerate(self._form.order)}
        arguments = tuple([places[i] for i in made.arguments])
        return dataclasses.replace(made, arguments=arguments)

    def _refuse_refs(self, asked: str) -> None:
        if takes_refs(self._recording.jaxpr):
            raise NotImplementedError(
                three_lines(
                    f"{asked} of {self.fun_name} at {current_source()}",
                    "a program that takes or closes over references is not exported",
                    "pass what they hold, and return what it becomes",
                )
            )

    def _repr_html_(self) -> str:
        shown: str = stage_html.lowered_html(*self._shown(), self.jaxpr.jaxpr, "Traced")
        return shown


class Lowered(Stage):
    """A program in its engine's input language."""

    def __init__(
        self,
        recording: Recording,
        consts: Sequence[Any],
        placer: Placer,
        committed: Committed,
        form: CallForm,
        platform: str | None = None,
    ) -> None:
        super().__init__(recording, consts, placer, committed, form)
        self._platform = platform
        self._place = placer.place(committed)
        self._program = placer.program(self._place)
        self._compiler = engine_for(placer.jaxpr, self._place, options()).engine.compiler
        if any(isinstance(effect, OwnEffect) for effect in placer.jaxpr.effects):
            # Runs the lowering rules of other libraries, so that their errors are raised now.
            self.as_text("stablehlo")

    @property
    def _for_all_sizes(self) -> Program | None:
        """The program for all sizes, if one executable is compiled for all of them."""
        return None if self._platform else self._placer.program_for_all_sizes(self._place)

    def _program_for(self, compiler: Compiler) -> Program:
        """Return what a compiler would compile: one program for all sizes, if it can."""
        if self._placer.sizes and is_host_compiler(compiler):
            return self._for_all_sizes or self._program
        return self._program

    @api_boundary
    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the program's text: `stablehlo`, `hlo`, `loops`, `llvm`, `asm`, `html` or `jaxpr`.

        By default it is StableHLO, or the language of the engine that was chosen by name.

        With `debug_info` it names the source line of each operation.

        Raises: ValueError for an unknown dialect.
        """
        if dialect == "jaxpr":
            return str((self._for_all_sizes or self._program).jaxpr)
        compiler = compiler_of(dialect, self._compiler)
        program = self._program_for(compiler)
        return compiler.text(program, dialect, locations=debug_info)

    @api_boundary
    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the program as an object of the engine's compiler; a jaxpr as a `Jaxpr`.

        Raises: ValueError for an unknown dialect.
        """
        if dialect == "jaxpr":
            return (self._for_all_sizes or self._program).jaxpr
        return self._compiler.compiler_ir(self._program_for(self._compiler), dialect)

    @api_boundary
    def cost_analysis(self) -> dict[str, float] | None:
        """Return the costs before optimization, such as `flops` and `bytes accessed`.

        None if the engine makes no estimates.
        """
        found = self._compiler.cost(self._program_for(self._compiler))
        sizes = self._placer.sizes or {}
        return found and {
            name: float(evaluate(cost, sizes)) if isinstance(cost, Size) else cost
            for name, cost in found.items()
        }

    def explain_memory(self) -> str:
        """Return a report of the memory that the compiled program needs: see `Compiled`."""
        return self.compile().explain_memory()

    def _repr_html_(self) -> str:
        program = (self._for_all_sizes or self._program).jaxpr
        shown: str = stage_html.lowered_html(*self._shown(), program, "Lowered")
        return shown

    @api_boundary
    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """Compile the program.

        `compiler_options` are added to those of `jit`, and win where both set an option.

        Raises: JaxRuntimeError naming an option that the compiler does not have; TypeError unless
            given a dict from names to strings, numbers and bools.
        """
        asked = f"compile() of {self.fun_name} at {current_source()}"
        placer, place = self._placer, self._place
        settings = merged(placer.compiler_options, settings_of(compiler_options, asked))
        if self._platform is not None:
            place = Placement(self._compiler.described_devices(self._platform)[:1])
        if settings != placer.compiler_options:
            request = placer.request
            placer = self._recording.new_placer(request, placer.keep_unused, settings)
        return Compiled(self._recording, self._consts, placer, self._places, self._form, place)
