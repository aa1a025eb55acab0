"""Ahead-of-time stages: trace, lower, compile, call, with an inspection at each step.

Every stage knows the types of arguments and results, arranged as in the call: `in_tree` is the
structure of `(args, kwargs)` without the static arguments. `Compiled` is the hot path here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from kiln.base.config import options
from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import (
    PyTreeDef,
    equality_errors,
    keystr,
    settled,
    tree_structure,
    tree_unflatten,
)
from kiln.core.array import ConcreteArray, PlacedArray
from kiln.core.engine import Placement, default_sharding
from kiln.core.memory_text import explained
from kiln.core.topology import DescribedDevice
from kiln.core.trace import Tracer
from kiln.execution.engine_choice import compiler_of, engine_for
from kiln.execution.nonfinite import check_program, kept_for_search
from kiln.execution.placement import Placer, Run
from kiln.ir.jaxpr import ClosedJaxpr
from kiln.ir.sharding import Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray
from kiln.jit.argument_binding import CallForm, flatten_call, in_tree_of, respelled
from kiln.jit.argument_types import leaf_type
from kiln.jit.compiler_options import merged, settings_of
from kiln.jit.entry import Recording
from kiln.jit.struct import struct_of
from kiln.jit.target import platform_of

_ARRAYS = {ConcreteArray}

Committed = tuple[Sharding | None, ...]
"""Where the inputs of a program were put on purpose, closed-over constants first."""


class ArgInfo(Record):
    """The type of one argument, and whether it is donated."""

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype is weak."""
        return self._aval.weak_type


class Stage:
    """The types and structures of arguments and results, common to all stages."""

    def __init__(
        self,
        recording: Recording,
        consts: Sequence[Any],
        placer: Placer,
        committed: Committed,
        form: CallForm,
    ) -> None:
        self._recording = recording
        self._consts = consts
        self._placer = placer
        self._places = committed
        self._form = form

    def _in_avals(self) -> list[ShapedArray]:
        return self._recording.jaxpr.in_avals[len(self._consts) :]

    def _arranged(self, leaves: Sequence[Any]) -> Any:
        return tree_unflatten(self.in_tree, [leaves[i] for i in self._form.order])

    def _results(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(self._recording.out_tree, leaves)

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self._recording.name

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of `(args, kwargs)` as the call was made, static arguments left out."""
        return self._form.in_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as `(args, kwargs)`."""
        return self._arranged(self._in_avals())

    @property
    def args_info(self) -> Any:
        """Shape, dtype and donation of the arguments, as `(args, kwargs)`."""
        donated, hidden = self._placer.request.donated, len(self._consts)
        avals = enumerate(self._in_avals(), hidden)
        return self._arranged([ArgInfo(a, i in donated) for i, a in avals])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the leaves of the arguments that are donated."""
        donated, hidden = self._placer.request.donated, len(self._consts)
        return tuple([at for at, i in enumerate(self._form.order) if i + hidden in donated])

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the results."""
        tree: PyTreeDef = self._recording.out_tree
        return tree

    @property
    def out_avals(self) -> Any:
        """The types of the results."""
        return self._results(self._recording.jaxpr.out_avals)

    @property
    def out_info(self) -> Any:
        """The types of the results, as ShapeDtypeStructs."""
        return self._results(struct_of(a) for a in self._recording.jaxpr.out_avals)

    def __repr__(self) -> str:
        types = ", ".join(map(str, self._in_avals()))
        return f"<{type(self).__name__} {self.fun_name}({types})>"


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

    @api_boundary
    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """Return the program's text: `stablehlo`, `hlo`, `loops`, `llvm`, `asm`, `html` or `jaxpr`.

        By default it is StableHLO, or the language of the engine that was chosen by name.

        With `debug_info` it names the source line of each operation.

        Raises: ValueError for an unknown dialect.
        """
        if dialect == "jaxpr":
            return str(self._program.jaxpr)
        compiler = compiler_of(dialect, self._compiler)
        return compiler.text(self._program, dialect, locations=debug_info)

    @api_boundary
    def compiler_ir(self, dialect: str | None = None) -> Any:
        """Return the program as an object of the engine's compiler; a jaxpr as a `Jaxpr`.

        Raises: ValueError for an unknown dialect.
        """
        if dialect == "jaxpr":
            return self._program.jaxpr
        return self._compiler.compiler_ir(self._program, dialect)

    @api_boundary
    def cost_analysis(self) -> dict[str, float] | None:
        """Return the costs before optimization, such as `flops` and `bytes accessed`.

        None if the engine makes no estimates.
        """
        return self._compiler.cost(self._program)

    def explain_memory(self) -> str:
        """Return what memory a call of the compiled program needs: see `Compiled`."""
        return self.compile().explain_memory()

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


class Compiled(Stage):
    """An executable program for fixed types of arguments."""

    def __init__(
        self,
        recording: Recording,
        consts: Sequence[Any],
        placer: Placer,
        committed: Committed,
        form: CallForm,
        place: Placement | None,
    ) -> None:
        super().__init__(recording, consts, placer, committed, form)
        self._place = place
        self._program = placer.compiled(place)
        # Whoever compiled ahead of time does not want to wait for it a second time.
        self._program.pin()
        self._run: Run = placer.run
        if place is not None and isinstance(place.devices[0], DescribedDevice):
            self._run = self._program
        elif place is not None:
            self._run = placer.run_at(place, placer.is_chosen(committed, place))
        self._wanted = self._in_avals()
        self._accepted = self._wanted
        self._tree = settled(form.tree)
        self._is_flat = form.tree == tree_structure((0,) * len(self._wanted))
        self._out_tree = None if recording.out_tree.is_leaf else recording.out_tree

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program; static arguments are left out.

        Raises: TypeError for other types or another structure than compiled for, and for tracers.
        """
        if kwargs:
            args, kwargs = respelled(args, kwargs, self._tree, self._form.parameters)
        leaves: Sequence[Any] = args
        tree = None
        if kwargs or not self._is_flat:
            leaves, tree = flatten_call(args, kwargs)
        if {*map(type, leaves)} == _ARRAYS and (tree is None or tree == self._tree):
            # Lists of the very same types are compared without a call of Python's.
            avals = [x.aval for x in leaves]
            if avals != self._accepted:
                self._check(args, avals)
        else:
            leaves = self._leaves(args, kwargs)
        values = [*self._consts, *leaves] if self._consts else leaves
        if options().checks_values:
            outs = self._run_and_look(values)
        else:
            outs = self._run(values)
        out_tree = self._out_tree
        return outs[0] if out_tree is None else tree_unflatten(out_tree, outs)

    call = __call__

    def _run_and_look(self, values: Sequence[Any]) -> Sequence[Any]:
        """Run the program; raise FloatingPointError for results that are not finite."""
        kept = kept_for_search(values) if self.donate_argnums else values
        outs = self._run(values)
        check_program(self.fun_name, self._recording.jaxpr, kept, outs)
        return outs

    @api_boundary
    def _leaves(self, args: Sequence[Any], kwargs: dict[str, Any]) -> list[Any]:
        leaves, tree = flatten_call(args, kwargs)
        if tree != self._tree:
            self._refuse_structure(tree)
        avals = []
        for i, x in enumerate(leaves):
            if isinstance(x, Tracer):
                self._refuse_tracer(x, self._names()[i])
            try:
                aval = leaf_type(x)
            except OverflowError as error:
                raise OverflowError(
                    three_lines(
                        f"call of the compiled function {self.fun_name} with {self._names()[i]} = "
                        f"{x} at {current_source()}",
                        f"{str(error).splitlines()[1]}: "
                        f"the argument {self._names()[i]} does not fit its type, "
                        f"{self._wanted[i]}",
                        "pass a smaller number, or compile for a wider type",
                    )
                ) from None
            if aval is None:
                self._refuse_value(x, self._names()[i])
            avals.append(aval)
        self._check(args, avals)
        self._check_places(leaves)
        return leaves

    def _check_places(self, leaves: Sequence[Any]) -> None:
        """Raise ValueError if committed arrays are not where the program takes them."""
        placed = [(i, x) for i, x in enumerate(leaves) if type(x) is PlacedArray and x.committed]
        if not placed:
            return
        hidden, wanted = len(self._consts), self._in_shardings()
        used = self._placer.used
        found = [
            f"argument {self._names()[i]} of type {x.aval} is at {x.sharding}, and the program "
            f"takes it at {wanted[i]}"
            for i, x in placed
            if used[i + hidden] and not x.sharding.is_equivalent_to(wanted[i], x.ndim)
        ]
        if found:
            raise ValueError(
                three_lines(
                    f"call of the compiled function {self.fun_name} at {current_source()}",
                    "Computation was compiled for input shardings that disagree with the shardings "
                    f"of arguments passed to it: {'; '.join(found)}",
                    "move them with kiln.device_put(x, sharding), or compile for where they are",
                )
            )

    def _names(self) -> Sequence[str]:
        return self._recording.jaxpr.arg_names[len(self._consts) :]

    @api_boundary
    def _check(self, args: Sequence[Any], avals: list[ShapedArray]) -> None:
        """Check the types, and remember them as valid.

        Raises: TypeError naming the arguments whose types differ in more than weakness.
        """
        if len(avals) != len(self._wanted):
            self._refuse_structure(tree_structure(args))
        found = zip(self._names(), self._wanted, avals, strict=True)
        wrong = [(n, w, a) for n, w, a in found if not a.same_type(w)]
        if wrong:
            self._refuse_types(wrong)
        self._accepted = avals

    def _refuse_structure(self, tree: PyTreeDef) -> NoReturn:
        found = [
            f"at {_place(path)}, {before} before and {now} now: {how}"
            for path, before, now, how in equality_errors(in_tree_of(self._tree), in_tree_of(tree))
        ]
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} at {current_source()}",
                "Function compiled with another input pytree structure than it was called with: "
                + "; ".join(found),
                "pass arguments of the structure compiled for, without the static ones",
            )
        )

    def _refuse_types(self, wrong: Sequence[tuple[str, ShapedArray, ShapedArray]]) -> NoReturn:
        by_width = all(
            w.shape == a.shape and getattr(w.dtype, "kind", 0) == getattr(a.dtype, "kind", 1)
            for _, w, a in wrong
        )
        differences = "; ".join(
            f"argument {n} compiled with {w} and called with {a}" for n, w, a in wrong
        )
        remedy = "convert the argument, or compile again for its type"
        if by_width:
            remedy += "; enable_x64 must be set as it was for lowering"
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} at {current_source()}",
                f"Argument types differ from those compiled for: {differences}",
                remedy,
            )
        )

    def _refuse_value(self, x: Any, name: str) -> NoReturn:
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} with argument {name} = {x!r:.60} "
                f"at {current_source()}",
                f"the value of type {type(x)} at path {name} is not a valid JAX type",
                "pass an array or a number, and leave static arguments out",
            )
        )

    def _refuse_tracer(self, x: Tracer, name: str) -> NoReturn:
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} with tracer {name} ({x.aval}) at "
                f"{current_source()}",
                "Cannot apply JAX transformations to a function that was lowered and compiled for "
                "given types: it is no longer a program to transform, but machine code",
                "transform first, as in jit(grad(f)).lower(...), and compile the result",
            )
        )

    @property
    def input_shardings(self) -> Any:
        """The shardings in which the program takes its arguments, as `(args, kwargs)`."""
        return self._arranged(self._in_shardings())

    def _in_shardings(self) -> Sequence[Sharding]:
        place = self._place
        if place is not None and place.in_shardings:
            return place.in_shardings[len(self._consts) :]
        return [self._alone()] * len(self._wanted)

    @property
    def output_shardings(self) -> Any:
        """The shardings of the results."""
        if self._place is not None:
            return self._results(self._program.executable.out_shardings())
        return self._results([self._alone()] * len(self._program.out_avals))

    def _alone(self) -> Sharding:
        place = self._place
        return default_sharding() if place is None else SingleDeviceSharding(place.devices[0])

    def as_text(self, stage: str | None = None) -> str:
        """Return the optimised program's text: `hlo`, or `loops`, `llvm`, `asm`, `html`, `profile`.

        By default it is the first of them that its engine has; `html` is a picture.

        Raises: ValueError for a stage that the engine does not have.
        """
        executable = self._program.executable
        return executable.as_text(stage or executable.final_stage)

    def cost_analysis(self) -> dict[str, float] | None:
        """Return the costs, such as `flops` and `bytes accessed`; None if not available."""
        return self._program.executable.cost_analysis()

    def memory_analysis(self) -> Any:
        """Return the sizes of what the program needs, in bytes; None if not available.

        Its fields are `argument_size_in_bytes`, `output_size_in_bytes`, `temp_size_in_bytes`,
        `alias_size_in_bytes` (donated), `generated_code_size_in_bytes`.
        """
        return self._program.executable.memory_analysis()

    @api_boundary
    def explain_memory(self) -> str:
        """Return what memory a call needs, as text.

        Three lines say how much. Of programs that are compiled for the host each buffer follows, by
        its name in `as_text("loops")`: its size, what shares its memory, which results lie where
        arguments were donated, and each copy that is made, with its reason.

        Raises: ValueError if the engine does not know.
        """
        program = self._program
        return explained(program.executable, self.fun_name, program.engine.name)

    def runtime_executable(self) -> Any:
        """Return the engine's own object."""
        return self._program.executable.runtime_executable()


def _place(path: Sequence[Any]) -> str:
    if not path:
        return "the arguments"
    return ("args" if path[0].idx == 0 else "kwargs") + keystr(tuple(path[1:]))
