"""Where a program runs: decided by its arguments and by the options of `jit`.

Committed arrays decide, and must agree; all others are moved. Closed-over arrays decide only if
nothing else does and they agree. A `Placer` keeps one executable form of a program per decision.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import Options, options
from kiln.base.source import current_source
from kiln.core.arrays.array import ConcreteArray, PlacedArray
from kiln.core.arrays.placement import unplaced
from kiln.core.arrays.transfers import moved
from kiln.core.engines.engine import DividedExecutable, Placement, Program, default_sharding
from kiln.execution.compilation import (
    CachedProgram,
    WrongDevice,
    compile_jaxpr,
)
from kiln.execution.donation import Donation
from kiln.execution.engine_choice import engine_for
from kiln.execution.execution_guards import check_execution
from kiln.execution.over_constants import Bound, may_keep_more
from kiln.execution.programs import program_of, shardings_of_results
from kiln.execution.sized_programs import compile_for_sizes, program_for_sizes
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import (
    NamedSharding,
    Sharding,
    SingleDeviceSharding,
    misfit,
    simplest,
)
from kiln.ir.specialize import specialize_later
from kiln.ir.types import typed

Run = Callable[[Sequence[Any]], list[ConcreteArray]]


class PlacementRequest(NamedTuple):
    """The options about the placement of a program, by numbers of its inputs and outputs.

    A sharding of None requests nothing.
    """

    donated: tuple[int, ...] = ()
    device: Any = None
    in_shardings: tuple[Sharding | None, ...] = ()
    out_shardings: tuple[Sharding | None, ...] = ()

    @property
    def has_place(self) -> bool:
        """Whether they determine where the program runs."""
        return self.device is not None or any(self.in_shardings) or any(self.out_shardings)


NO_REQUEST = PlacementRequest()


class DeviceConstraint(NamedTuple):
    """A sharding that determines the devices of a program; `who` names its origin in messages."""

    who: str
    sharding: Sharding


class Placer:
    """Runs a program on the devices that its arguments, request and constraints determine.

    The first `hidden` inputs are arrays the function closes over, and the first `constants` of them
    are the same for many calls: `over` computes once what depends on these alone. `direct` runs on
    the first device once a call belonged there; it raises WrongDevice for arrays that were placed.
    `general` is the program for all sizes of its named axes from which `jaxpr` was specialized for
    `sizes`, if it was.
    """

    def __init__(
        self,
        jaxpr: Jaxpr,
        name: str,
        *,
        hidden: int = 0,
        request: PlacementRequest = NO_REQUEST,
        keep_unused: bool = False,
        compiler_options: tuple[tuple[str, Any], ...] = (),
        general: Jaxpr | None = None,
        sizes: Mapping[str, int] | None = None,
        constants: int = 0,
    ) -> None:
        self.jaxpr = jaxpr
        self.general = general
        self.sizes = sizes
        self.name = name
        self.hidden = hidden
        self.constants = constants
        self.request = request
        self.keep_unused = keep_unused
        self.compiler_options = compiler_options
        self.inside = constraints_in(jaxpr if general is None else general)
        self.mesh: Mesh | None = options().default_mesh
        self.programs: list[CachedProgram] = []
        self._runs: dict[Hashable, Run] = {}
        self.direct: Run | None = None
        # What runs on the first device, if there are constants; the same with donated arguments.
        self._here: CachedProgram | None = None
        self._donating: Run | None = None
        self._used: list[bool] | None = None

    @property
    def is_plain(self) -> bool:
        """Whether only arguments can move the program off the first device."""
        return not self.request.has_place and not self.inside

    def run(self, args: Sequence[Any]) -> list[ConcreteArray]:
        """Run the program, with a fast path if nothing was placed."""
        if self.direct is not None and options().plain_places:
            try:
                return self.direct(args)
            except WrongDevice:
                pass
        return self(args)

    def __call__(self, args: Sequence[Any]) -> list[ConcreteArray]:
        """Run the program where it belongs.

        Raises: ValueError for committed arguments on different devices, or not as asked for.
        """
        return self.run_for(args)(args)

    def run_for(self, args: Sequence[Any], note: Callable[[float], None] | None = None) -> Run:
        """Return a callable that runs the program for such arguments, compiling it if necessary.

        The result for unplaced arguments raises WrongDevice if called with others. `note` is
        called with the seconds that it took to prepare, if it was not prepared before.

        Raises: ValueError for committed arguments on different devices, or not as asked for;
            RuntimeError if an option forbids to run it.
        """
        opts = options()
        situation = _situation(args, opts)
        found = self._runs.get(situation)
        if opts.guards_execution:
            there = self.place(situation.committed)
            check_execution(self.name, () if there is None else there.devices)
        if opts.guards_transfers:
            placement = self.place(situation.committed)
            if placement is not None or situation.has_placed:
                self.note_moves(args, placement)
        if found is not None:
            return found
        start = time.perf_counter()
        placement = self.place(situation.committed)
        run = self.run_at(placement, self.is_chosen(situation.committed, placement))
        if placement is None and situation.has_placed:
            run = functools.partial(_run_unplaced, run)
        elif placement is None and self.is_plain:
            self.direct = run
        if note is not None:
            note(time.perf_counter() - start)
        return self._runs.setdefault(situation, run)

    def note_moves(self, args: Sequence[Any], placement: Placement | None) -> None:
        """Report arguments that are not where the program needs them to transfer guards."""
        devices = default_sharding().devices if placement is None else placement.devices
        wanted: Sequence[Sharding | None] = () if placement is None else placement.in_shardings
        wanted = wanted or (SingleDeviceSharding(devices[0]),) * len(args)
        for x, sharding, used in list(zip(args, wanted, self.used, strict=True))[self.hidden :]:
            if used and sharding is not None and isinstance(x, ConcreteArray):
                moved(x, sharding, by_program=True)

    def place(self, committed: Sequence[Sharding | None]) -> Placement | None:
        """Return where to run for committed arguments; None for the first device, by default."""
        opts, request = options(), self.request
        is_here = opts.default_device is None and self.mesh is None
        if is_here and self.is_plain and not any(committed):
            return None
        if not engine_for(self.jaxpr, None, opts).engine.compiler.places_programs:
            return None
        if request.device is not None:
            return Placement((request.device,))
        committed = [s if used else None for s, used in zip(committed, self.used, strict=True)]
        wanted = [*request.in_shardings, *[None] * (len(committed) - len(request.in_shardings))]
        self._check_agreement(committed, wanted)
        given = [
            DeviceConstraint(
                f"argument {self._named(i)} of {self.name} with shape {self.jaxpr.in_avals[i]} and",
                s,
            )
            for i, s in enumerate(committed)
            if s
        ]
        closed_over = sum(s is not None for s in committed[: self.hidden])
        constraints = given[closed_over:]
        constraints += [
            DeviceConstraint(f"in_shardings for {self._named(i)} of {self.name} with", s)
            for i, s in enumerate(wanted)
            if s and not committed[i]
        ]
        constraints += [
            DeviceConstraint("sharding_constraint inside jit with", s) for s in self.inside
        ]
        constraints += [
            DeviceConstraint("explicit output sharding with", s) for s in request.out_shardings if s
        ]
        if self.mesh is not None:
            whole = NamedSharding(self.mesh, PartitionSpec())
            constraints.append(DeviceConstraint("the mesh that is set with", whole))
        if not constraints and len({c.sharding.device_set for c in given}) == 1:
            constraints = given
        devices = self._agreed(constraints)
        if not devices:
            chosen = options().default_device
            return None if chosen is None else Placement((chosen,))
        meshes = (c.sharding.mesh for c in constraints if isinstance(c.sharding, NamedSharding))
        mesh = next(meshes, None)
        if mesh is None:
            if len(devices) == 1:
                return Placement(devices)
            mesh = Mesh(devices, "devices")
        whole, chosen_set = NamedSharding(mesh, PartitionSpec()), frozenset(devices)
        here = [s if s and s.device_set == chosen_set else None for s in committed]
        # Results have the simplest specifications: as arguments they need no other program.
        here = [simplest(c) if c and not w else c for c, w in zip(here, wanted, strict=True)]
        in_shardings = tuple([c or w or whole for c, w in zip(here, wanted, strict=True)])
        asked = request.out_shardings or (None,) * len(self.jaxpr.outvars)
        outs = tuple(shardings_of_results(self.jaxpr, asked, mesh))
        return Placement(devices, mesh, in_shardings, outs)

    def is_chosen(self, committed: Sequence[Sharding | None], placement: Placement | None) -> bool:
        """Tell whether a placement was requested, so that results are committed, or is the default.

        If only closed-over arrays determine a single device, it counts as a default.
        """
        several = placement is not None and len(placement.devices) > 1
        return several or any(committed[self.hidden :]) or not self.is_plain

    def program(self, placement: Placement | None) -> Program:
        """Return the program that is compiled for a placement."""
        program, _ = program_of(
            self.jaxpr,
            self.name,
            self.keep_unused,
            self.compiler_options,
            self.request.donated,
            placement,
        )
        return program

    def compiled(self, placement: Placement | None) -> CachedProgram:
        """Return the executable for a placement."""
        reason: str | None = None
        is_sized = self.general is not None and self.sizes
        if is_sized and placement is None:
            assert self.general is not None
            assert self.sizes
            made = compile_for_sizes(
                self.general,
                self.name,
                self.sizes,
                self.jaxpr.out_avals,
                keep_unused=self.keep_unused,
                compiler_options=self.compiler_options,
                donated=self.request.donated,
            )
            if not isinstance(made, str):
                self._note(made)
                return made
            reason = made
        found = compile_jaxpr(
            self.jaxpr,
            self.name,
            keep_unused=self.keep_unused,
            compiler_options=self.compiler_options,
            donated=self.request.donated,
            placement=placement,
            constants=self.constants if placement is None and may_keep_more() else 0,
            for_each_size=reason,
        )
        self._note(found)
        return found

    def program_for_all_sizes(self, placement: Placement | None) -> Program | None:
        """Return the program that is compiled once for all sizes of named axes, or None."""
        if placement is not None or self.general is None or not self.sizes:
            return None
        wanted = self.keep_unused, self.compiler_options, self.request.donated
        found = program_for_sizes(self.general, self.name, self.sizes, wanted)
        return None if isinstance(found, str) else found

    def for_sizes(self, sizes: Mapping[str, int]) -> Placer:
        """Return the placer of the program for other sizes of its named axes.

        Raises: ValueError for arrays that are too large.
        """
        assert self.general is not None
        return Placer(
            specialize_later(self.general, sizes),
            self.name,
            hidden=self.hidden,
            request=self.request,
            keep_unused=self.keep_unused,
            compiler_options=self.compiler_options,
            general=self.general,
            sizes=sizes,
        )

    def _note(self, program: CachedProgram) -> None:
        if program.base not in self.programs:
            self.programs.append(program.base)

    def over(self, run: Run, constants: Sequence[Any]) -> Run:
        """Return what runs a program as `run` does, over given constants.

        What depends on these alone is computed at the first call.
        """
        compiled = self._here
        is_kept = may_keep_more() and all(type(x) is ConcreteArray for x in constants)
        if compiled is None or not is_kept:
            return run
        if not isinstance(compiled.base.executable, DividedExecutable):
            return run
        if isinstance(run, CachedProgram):
            return Bound(run, constants) if run is compiled else run
        if isinstance(run, functools.partial):
            return functools.partial(_run_unplaced, self.over(run.args[0], constants))
        if self._donating is run:
            return _placed(Bound(compiled, constants), self._names(compiled))
        return run

    def run_at(self, placement: Placement | None, committed: bool) -> Run:
        """Return a callable that runs the program in a placement, moving arguments there.

        Without a placement, it raises WrongDevice if called with arrays that were placed.
        """
        compiled = self.compiled(placement)
        if placement is None and self.constants:
            self._here = compiled
        if placement is None and not self.request.donated:
            return compiled
        names = self._names(compiled)
        if placement is None:
            self._donating = _placed(compiled, names)
            return self._donating
        program = compiled.program
        assert program.placement is not None
        alone = SingleDeviceSharding(placement.devices[0])
        in_shardings = program.placement.in_shardings or (alone,) * len(program.jaxpr.invars)
        out_shardings = tuple(compiled.executable.out_shardings())
        types = list(map(typed, compiled.out_avals, out_shardings))
        compiled = compiled.base.giving(types)
        return _placed(compiled, names, in_shardings, out_shardings, committed)

    def _names(self, compiled: CachedProgram) -> list[str]:
        kept = range(len(self.jaxpr.in_avals)) if compiled.kept is None else compiled.kept
        return [self._named(i) for i in kept]

    @property
    def used(self) -> list[bool]:
        """Which inputs the program uses: the others may be anywhere."""
        if self._used is None:
            used = {id(v) for eqn in self.jaxpr.eqns for v in eqn.invars}
            used |= {id(v) for v in self.jaxpr.outvars}
            self._used = [id(v) in used for v in self.jaxpr.invars]
        return self._used

    def _check_agreement(
        self, committed: Sequence[Sharding | None], wanted: Sequence[Sharding | None]
    ) -> None:
        for i, (have, want) in enumerate(zip(committed, wanted, strict=True)):
            aval = self.jaxpr.invars[i].aval
            if have and want and not have.is_equivalent_to(want, aval.ndim):
                raise ValueError(
                    three_lines(
                        f"call of {self.name} with argument {self._named(i)} of type {aval} at "
                        f"{current_source()}",
                        "Sharding passed to jit does not match the sharding on the respective arg. "
                        f"Got sharding {want}, and arg sharding {have} for arg {self._named(i)}",
                        f"move the argument: kiln.device_put({self._named(i)}, sharding)",
                    )
                )
            if want:
                self._check_fit(
                    want,
                    aval.shape,
                    f"One of pjit arguments, argument {self._named(i)}, by in_shardings",
                )

    def _check_fit(self, sharding: Sharding, shape: Sequence[Any], what: str) -> None:
        wrong = misfit(sharding, shape)
        if wrong:
            raise ValueError(
                three_lines(
                    f"call of {self.name} at {current_source()}",
                    f"{what}: {wrong}",
                    "choose a PartitionSpec that fits, or pad the array to a divisible size",
                )
            )

    def _agreed(self, constraints: Sequence[DeviceConstraint]) -> tuple[Any, ...]:
        for i, s in enumerate(self.request.out_shardings):
            if s:
                shape = self.jaxpr.outvars[i].aval.shape
                self._check_fit(s, shape, f"One of pjit outputs, result {i}, by out_shardings")
        if not constraints:
            return ()
        first, *others = constraints
        for other in others:
            if other.sharding.device_set != first.sharding.device_set:
                raise ValueError(
                    three_lines(
                        f"call of {self.name} at {current_source()}",
                        "Received incompatible devices for jitted computation. Got "
                        f"{first.who} device ids {_ids(first.sharding)} and "
                        f"{other.who} device ids {_ids(other.sharding)}",
                        "bring the arguments together with kiln.device_put(x, device)",
                    )
                )
        return tuple(sorted(first.sharding.devices, key=lambda d: d.id))

    def _named(self, i: int) -> str:
        names = self.jaxpr.arg_names
        name = names[i] if i < len(names) else ""
        return name or f"{i} ({self.jaxpr.in_avals[i]})"


def _ids(sharding: Sharding) -> str:
    return f"{[d.id for d in sharding.devices]} on platform {sharding.devices[0].platform.upper()}"


class _Situation(NamedTuple):
    """The properties of a call that decide where it runs, besides the request."""

    committed: tuple[Sharding | None, ...]
    default: Any
    has_placed: bool


def _situation(args: Sequence[Any], opts: Options) -> _Situation:
    committed = [x.sharding if type(x) is PlacedArray and x.committed else None for x in args]
    return _Situation(tuple(committed), opts.default_device, is_placed(args))


def _run_unplaced(run: Run, args: Sequence[Any]) -> list[ConcreteArray]:
    """Run on the first device; arrays elsewhere that are not committed are moved there."""
    return run([unplaced(x) if type(x) is PlacedArray else x for x in args])


def _placed(
    compiled: CachedProgram,
    names: Sequence[str],
    in_shardings: tuple[Sharding, ...] | None = None,
    out_shardings: tuple[Sharding, ...] | None = None,
    committed: bool = False,
) -> Run:
    """Return a callable that moves arguments to their devices, runs, and deletes donated ones.

    Without `in_shardings` that is the first device. Called with arrays and scalars it raises
    JaxRuntimeError if an array is donated and passed twice; without `in_shardings`, WrongDevice
    if one was placed.
    """
    program = compiled.program
    donation = Donation(compiled, names) if program.donated else None
    usable = tuple(donation.usable) if donation else ()
    return _runtime.PlacedProgram(
        compiled, in_shardings, out_shardings, committed, program.donated, usable, donation
    )


def is_placed(args: Sequence[Any]) -> bool:
    """Tell whether an argument was placed."""
    return any(type(x) is PlacedArray for x in args)


def constraints_in(jaxpr: Jaxpr) -> tuple[Sharding, ...]:
    """Return the shardings in the equations of a program, at any depth."""
    found = jaxpr.memo.get(constraints_in)
    if found is None:
        seen: dict[Sharding, None] = {}
        for eqn in jaxpr.eqns:
            for value in eqn.params.values():
                for part in value if isinstance(value, (tuple, list)) else (value,):
                    if isinstance(part, Sharding):
                        if part.devices:
                            seen[part] = None
                    elif isinstance(part, Mesh):
                        seen[NamedSharding(part, PartitionSpec())] = None
                    elif isinstance(part, Jaxpr):
                        seen.update(dict.fromkeys(constraints_in(part)))
        found = jaxpr.memo[constraints_in] = tuple(seen)
    return found
