"""Programs compiled ahead of time: the hot path is a call of one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kiln.base.errors import three_lines
from kiln.base.lazy import compiled_sizes, discharge, memory_text, nonfinite, references, stage_html
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import Options, options
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import (
    PyTreeDef,
    equality_errors,
    keystr,
    settled,
    tree_structure,
    tree_unflatten,
)
from kiln.core.arrays.array import ConcreteArray, PlacedArray
from kiln.core.arrays.transfers import called, calling
from kiln.core.engines.engine import Placement, default_sharding
from kiln.core.engines.topology import DescribedDevice
from kiln.core.trace import Tracer
from kiln.execution.compilation import CachedProgram
from kiln.execution.execution_guards import check_execution
from kiln.execution.inspection import inspect_program
from kiln.execution.placement import Placer, Run
from kiln.execution.sized_programs import ProgramForSizes
from kiln.ir.jaxpr import takes_refs
from kiln.ir.ref_type import is_ref_type
from kiln.ir.shardings.formats import format_of
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import CallForm, flatten_call, in_tree_of, respelled
from kiln.jit.signatures.argument_types import leaf_type
from kiln.jit.stages.stage import Committed, Stage

if TYPE_CHECKING:
    from kiln.jit.stages.compiled_sizes import OtherSizes, RunForSizes

_ARRAYS = {ConcreteArray}


class Parts(NamedTuple):
    """The parts of a compiled function: recording, placer, constants, form of calls, place."""

    program: CachedProgram
    placer: Placer
    consts: Sequence[Any]
    form: CallForm
    place: Placement | None


class Compiled(Stage):
    """An executable program for fixed argument types, except for the sizes of named axes."""

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
        # A program that was compiled ahead of time must not be recompiled later.
        self._program.pin()
        self._run: Run = placer.run
        if place is not None and isinstance(place.devices[0], DescribedDevice):
            self._run = self._program
        elif place is not None:
            self._run = placer.run_at(place, placer.is_chosen(committed, place))
        self._takes_refs = takes_refs(recording.jaxpr)
        if self._takes_refs:
            self._run = references.storing(self._run, recording.jaxpr)
        self._other_sizes: OtherSizes | None = None
        if isinstance(self._program, ProgramForSizes):
            self._other_sizes = compiled_sizes.OtherSizes(recording, placer, len(consts))
        self._wanted = self._in_avals()
        self._accepted = self._wanted
        self._tree = settled(form.tree)
        self._is_flat = form.tree == tree_structure((0,) * len(self._wanted))
        self._out_tree = None if recording.out_tree.is_leaf else recording.out_tree

    @calling
    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the program; static arguments are left out, and named axes may have any size.

        Raises: TypeError for other types or another structure than compiled for, and for tracers.
        """
        if kwargs:
            args, kwargs = respelled(args, kwargs, self._tree, self._form.parameters)
        leaves: Sequence[Any] = args
        tree = None
        opts = options()
        if kwargs or not self._is_flat:
            leaves, tree = flatten_call(args, kwargs)
        if {*map(type, leaves)} == _ARRAYS and (tree is None or tree == self._tree):
            # Lists that hold identical types compare without a Python call.
            avals = [x.aval for x in leaves]
            sized = None if avals == self._accepted else self._accept(args, avals)
        else:
            leaves, sized = self._leaves(args, kwargs)
            if opts.guards_transfers:
                called(leaves)
        values = [*self._consts, *leaves] if self._consts else leaves
        if opts.checks_calls:
            outs = self._run_checked(values, sized, opts)
        elif sized is None:
            outs = self._run(values)
        else:
            outs = sized.run(values)
        out_tree = self._out_tree
        return outs[0] if out_tree is None else tree_unflatten(out_tree, outs)

    call = __call__

    def _run_checked(
        self, values: Sequence[Any], sized: RunForSizes | None, opts: Options
    ) -> Sequence[Any]:
        """Run the program with the checks of options: permission, transfers, finite results."""
        if opts.guards_execution:
            check_execution(self.fun_name, () if self._place is None else self._place.devices)
        if opts.guards_transfers and self._place is not None:
            self._placer.note_moves(values, self._place)
        if not opts.checks_values or self._takes_refs:
            return self._run(values) if sized is None else sized.run(values)
        kept = nonfinite.kept_for_search(values) if self.donate_argnums else values
        run, jaxpr = sized or (self._run, self._recording.jaxpr)
        outs = run(values)
        inspect_program(self.fun_name, jaxpr, kept, outs)
        return outs

    def _accept(self, args: Sequence[Any], avals: list[ShapedArray]) -> RunForSizes | None:
        """Check types that differ from the last call's; return a runner if it must differ too."""
        if self._other_sizes is not None:
            known = self._other_sizes.known(tuple(avals))
            if known is not None:
                return known
        return self._check(args, avals)

    @api_boundary
    def _leaves(
        self, args: Sequence[Any], kwargs: dict[str, Any]
    ) -> tuple[list[Any], RunForSizes | None]:
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
        sized = None if avals == self._accepted else self._accept(args, avals)
        self._check_places(leaves)
        return leaves, sized

    def _check_places(self, leaves: Sequence[Any]) -> None:
        """Raise ValueError if committed arrays are not where the program expects them."""
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
    def _check(self, args: Sequence[Any], avals: list[ShapedArray]) -> RunForSizes | None:
        """Check the types, and remember them as valid; return the runner if sizes differ.

        Raises: TypeError naming the arguments whose types differ in more than weakness.
        """
        if len(avals) != len(self._wanted):
            self._refuse_structure(tree_structure(args))
        wanted, others = self._wanted, self._other_sizes
        sizes = self._recording.sizes
        if others is not None:
            sizes = others.sizes(avals)
            wanted = others.types(sizes)
        found = zip(range(len(avals)), wanted, avals, strict=True)
        wrong = [
            (n, w, a) for n, w, a in found if is_ref_type(a) != is_ref_type(w) or not a.same_type(w)
        ]
        if wrong:
            self._refuse_types(wrong, sizes)
        if others is not None and sizes != self._recording.sizes:
            return others.run(tuple(avals), sizes)
        self._accepted = avals
        return None

    def _refuse_structure(self, tree: PyTreeDef) -> NoReturn:
        found = [
            f"at {_place(path)}, {before} before and {now} now: {how}"
            for path, before, now, how in equality_errors(in_tree_of(self._tree), in_tree_of(tree))
        ]
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} at {current_source()}",
                "Function compiled with input pytree does not match the input pytree it was called "
                "with: the input pytree structure differs " + "; ".join(found),
                "pass arguments of the structure compiled for, without the static ones",
            )
        )

    def _refuse_types(
        self, wrong: Sequence[tuple[int, ShapedArray, ShapedArray]], sizes: dict[str, int]
    ) -> NoReturn:
        names, others = self._names(), self._other_sizes
        by_width = all(
            w.shape == a.shape and getattr(w.dtype, "kind", 0) == getattr(a.dtype, "kind", 1)
            for _, w, a in wrong
        )
        differences = "; ".join(
            f"argument {names[n]} compiled with "
            f"{w if others is None else others.described(n, a, sizes)} and called with {a}"
            for n, w, a in wrong
        )
        remedy = "convert the argument, or compile again for its type"
        if by_width:
            remedy += "; enable_x64 must be set as it was for lowering"
        raise TypeError(
            three_lines(
                f"call of the compiled function {self.fun_name} at {current_source()}",
                "Argument types differ from the types for which this computation was compiled: "
                f"{differences}",
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
                "Cannot apply JAX transformations to a function lowered and compiled for a "
                "particular signature: it is no longer a program to transform, but machine code. "
                f"Detected argument of tracer type {type(x).__name__}",
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
        return self._results(self._out_shardings()[self._stored :])

    @property
    def _stored(self) -> int:
        """The number of leading results that are stored in references."""
        return discharge.writes(self._recording.jaxpr).count(True) if self._takes_refs else 0

    def _out_shardings(self) -> Sequence[Sharding]:
        if self._place is not None:
            return self._program.executable.out_shardings()
        return [self._alone()] * len(self._program.out_avals)

    @property
    def input_formats(self) -> Any:
        """The formats in which the program takes its arguments, as `(args, kwargs)`."""
        pairs = zip(self._wanted, self._in_shardings(), strict=True)
        return self._arranged([format_of(aval.shape, sharding) for aval, sharding in pairs])

    @property
    def output_formats(self) -> Any:
        """The formats of the results."""
        pairs = zip(self._program.out_avals, self._out_shardings(), strict=True)
        formats = [format_of(aval.shape, sharding) for aval, sharding in pairs]
        return self._results(formats[self._stored :])

    def _alone(self) -> Sharding:
        place = self._place
        return default_sharding() if place is None else SingleDeviceSharding(place.devices[0])

    def as_text(self, stage: str | None = None) -> str:
        """Return the optimized program's text: `hlo`, or `loops`, `llvm`, `asm`, `html`, `profile`.

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

        Three lines give the totals. For programs compiled for the host, each buffer follows under
        its name in `as_text("loops")`: its size, what shares its memory, which results reuse
        donated arguments, and each copy that is made, with its reason.

        Raises: ValueError if the engine does not know.
        """
        program = self._program
        text: str = memory_text.explained(program.executable, self.fun_name, program.engine.name)
        return text

    def _repr_html_(self) -> str:
        executable = self._program.executable
        facts = [("engine", self._program.engine.name)]
        for name, cost in (self.cost_analysis() or {}).items():
            if name in ("flops", "bytes accessed") and cost > 0:
                facts.append((name, stage_html.quantity(cost)))
        memory = self.memory_analysis()
        if memory is not None:
            facts.append(("workspace", stage_html.quantity(memory.temp_size_in_bytes, "B")))
        stage = executable.final_stage
        picture = self.as_text("html") if stage == "loops" else None
        shown: str = stage_html.compiled_html(
            *self._shown(), facts, (stage, self.as_text(stage)), picture
        )
        return shown

    def parts(self) -> Parts:
        """Return the parts of the program."""
        return Parts(self._program, self._placer, self._consts, self._form, self._place)

    def runtime_executable(self) -> Any:
        """Return the engine's own object."""
        return self._program.executable.runtime_executable()


def _place(path: Sequence[Any]) -> str:
    if not path:
        return "the arguments"
    return ("args" if path[0].idx == 0 else "kwargs") + keystr(tuple(path[1:]))
