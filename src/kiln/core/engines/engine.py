"""The interface between programs and the engines that run them.

The `Compiler` of an engine turns a `Program` into an `Executable`; its `Memory` holds the buffers
that executables read and write. Engines live beside the stack in `kiln.engines`, import only the
layers below them, and are loaded by name on first use: `ENGINES` is one of the two declared
late-binding tables.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from kiln._runtime import Plan
from kiln.base.options.config import options
from kiln.base.process.forks import new_guard, new_lock
from kiln.base.process.garbage_collection import Permanent
from kiln.base.records import Record
from kiln.base.signals import HeldBack
from kiln.core.engines.installed import is_installed, require_installed
from kiln.core.engines.topology import DescribedDevice
from kiln.core.processes.joining import Connector
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray

Buffer = Any


class Placement(Record):
    """Where a program runs: on one device, or sharded over several.

    The other fields are used only for several devices. The engine chooses the sharding of an output
    that has none, by the axes of the mesh if possible.
    """

    devices: tuple[Any, ...]
    mesh: Mesh | None = None
    in_shardings: tuple[Sharding, ...] = ()
    out_shardings: tuple[Sharding | None, ...] = ()


THREADS = "threads"
"""The compiler option that says on how many threads a program runs."""


CHECKS = "check"
"""The compiler option that says which checks are compiled into a program."""
BATCH_INVARIANT = "batch_invariant"
"""The compiler option that says that no row of a result depends on the number of other rows."""
_OF_KILN = frozenset((THREADS, CHECKS, BATCH_INVARIANT))


class Program(Record):
    """A jaxpr without constants, ready to compile.

    Without a placement it runs on the first device. `donated` numbers the inputs whose memory may
    become that of outputs. `sizes` names the axes whose sizes, from 1 on, each call supplies. The
    first `constants` inputs are arrays that a function closes over, the same in many calls.
    """

    jaxpr: Jaxpr
    name: str
    compiler_options: tuple[tuple[str, Any], ...] = ()
    donated: tuple[int, ...] = ()
    placement: Placement | None = None
    sizes: tuple[str, ...] = ()
    constants: int = 0

    @property
    def threads(self) -> int:
        """On how many threads it runs; 0 means the default."""
        return int(dict(self.compiler_options).get(THREADS, 0))

    @property
    def checks(self) -> str:
        """Which checks are compiled into it, such as `nan,index`."""
        return str(dict(self.compiler_options).get(CHECKS, ""))

    @property
    def is_batch_invariant(self) -> bool:
        """Whether each row of a result has the same bits, however many rows there are."""
        return bool(dict(self.compiler_options).get(BATCH_INVARIANT, False))

    @property
    def engine_options(self) -> tuple[tuple[str, Any], ...]:
        """The compiler options that engines define."""
        return tuple([pair for pair in self.compiler_options if pair[0] not in _OF_KILN])


class Device(Protocol):
    """A device that runs programs."""

    @property
    def id(self) -> int:
        """The number of the device."""
        ...

    @property
    def platform(self) -> str:
        """The type of device: cpu, gpu, tpu."""
        ...

    @property
    def process_index(self) -> int:
        """The number of the process that owns the device."""
        ...


class Executable(Protocol):
    """A compiled program: a function from buffers to buffers, both of its engine's own type."""

    def __call__(self, buffers: Sequence[Buffer]) -> Sequence[Buffer]:
        """Run the program."""
        ...

    @property
    def final_stage(self) -> str:
        """The stage of the optimized program, for `as_text`."""
        ...

    def as_text(self, stage: str) -> str:
        """Return the program at one of the engine's stages."""
        ...

    def size_in_bytes(self) -> int:
        """Return roughly how much memory the executable holds."""
        ...

    def out_shardings(self) -> Sequence[Sharding]:
        """Return how the results are sharded; of a program with a placement only."""
        ...

    def cost_analysis(self) -> dict[str, Any] | None:
        """Return estimates such as `flops` and `bytes accessed`; None if there are none.

        They are numbers, or sizes if the program is one for all sizes of named axes.
        """
        ...

    def memory_analysis(self) -> Any:
        """Return the bytes it needs, by kind; None if not available."""
        ...

    def runtime_executable(self) -> Any:
        """Return the engine's own object."""
        ...


@runtime_checkable
class ExplainedExecutable(Executable, Protocol):
    """An executable that can report its use of memory."""

    def explain_memory(self) -> str:
        """Return where buffers are, which share memory, and which copies are made and why."""
        ...


@runtime_checkable
class DividedExecutable(Executable, Protocol):
    """A program that computes once what depends only on its constants."""

    def over(self, constants: Sequence[Buffer]) -> Executable:
        """Return the program for these constants, with what it keeps of them.

        It takes all operands.
        """
        ...

    @property
    def kept_bytes(self) -> int:
        """The bytes of what is kept for constants."""
        ...


class Memory(Protocol):
    """Keeps the data of arrays as buffers, on the devices of one platform.

    A buffer's memory is freed when the last reference to the buffer goes, never before: jaxlib
    reads a buffer without holding a reference while it waits, and crashes if another thread deletes
    it.
    """

    @property
    def buffers_are_ndarrays(self) -> bool:
        """Whether a buffer is a read-only NumPy array, so that arrays hold it as their values."""
        ...

    @property
    def places_arrays(self) -> bool:
        """Whether arrays can be moved between devices; if not, all stay where they are."""
        ...

    def devices(self) -> Sequence[Device]:
        """Return this process's devices; arrays that were never placed are on the first."""
        ...

    def all_devices(self) -> Sequence[Device]:
        """Return the devices of all processes."""
        ...

    def put(self, value: np.ndarray, sharding: Sharding | None = None) -> Buffer:
        """Copy host data to a new buffer, on the first device by default."""
        ...

    def adopt(self, value: np.ndarray) -> Buffer:
        """Wrap immutable host memory, without a copy if alignment allows."""
        ...

    def adopt_shards(
        self, aval: ShapedArray, sharding: Sharding, parts: Sequence[np.ndarray]
    ) -> Buffer:
        """Wrap the immutable host memory of the shards of this process, as `adopt` does."""
        ...

    def moved(self, buffer: Buffer, aval: ShapedArray, sharding: Sharding) -> Buffer:
        """Copy a buffer from one device to another, bypassing the host."""
        ...

    def shards(self, buffer: Buffer, sharding: Sharding) -> Sequence[Buffer]:
        """Return the parts of a buffer on several devices, in the order of the sharding."""
        ...

    def join(self, aval: ShapedArray, sharding: Sharding, parts: Sequence[Buffer]) -> Buffer:
        """Assemble a buffer from its shards, without a copy if each device has its own memory."""
        ...

    def get(self, buffer: Buffer) -> np.ndarray:
        """Wait for a buffer and return a read-only view of its data."""
        ...

    def whole(self, buffer: Buffer, sharding: Sharding, shape: Sequence[int]) -> np.ndarray:
        """Wait for a buffer on several devices of this process; return its data, read-only."""
        ...

    def views(
        self, buffer: Buffer, sharding: Sharding, numbers: Sequence[int]
    ) -> Sequence[np.ndarray]:
        """Wait for some shards of this process, in the order of the sharding; return their data."""
        ...

    def wait(self, buffer: Buffer) -> None:
        """Block until the buffer's data is computed; raise the error of the computation, if any."""
        ...

    def is_ready(self, buffer: Buffer) -> bool:
        """Tell whether a buffer's data is computed."""
        ...

    def is_deleted(self, buffer: Buffer) -> bool:
        """Tell whether a buffer's memory was freed or donated."""
        ...

    def pointer(self, buffer: Buffer) -> int:
        """Return the address of a buffer's first element."""
        ...


class NotForAllSizes(ValueError):
    """A program with named axes cannot be compiled once for all sizes; the text is the reason."""


@runtime_checkable
class SizedExecutable(Executable, Protocol):
    """A program compiled for all sizes of its named axes."""

    def for_sizes(self, sizes: Sequence[int]) -> Executable | None:
        """Return the program for sizes, in the order of `Program.sizes`; None if too large."""
        ...


class Compiler(Protocol):
    """Turns programs into executables."""

    @property
    def places_programs(self) -> bool:
        """Whether programs honor their placement; if not, all run on the first device."""
        ...

    @property
    def dialects(self) -> tuple[str, ...]:
        """The languages of `text`, beside jaxprs."""
        ...

    def unsupported(self, program: Program) -> str | None:
        """Return why the program cannot be compiled, without compiling it; None if it can be."""
        ...

    def compile(self, program: Program) -> Executable:
        """Return the program ready to run.

        Raises: UnsupportedPrimitive if a primitive has no translation.
        """
        ...

    def text(self, program: Program, dialect: str | None = None, *, locations: bool = False) -> str:
        """Return the program's text, by default in the engine's input language.

        Raises: ValueError for an unknown dialect.
        """
        ...

    def compiler_ir(self, program: Program, dialect: str | None = None) -> Any:
        """Return the program as an object of the engine's compiler.

        Raises: ValueError for an unknown dialect.
        """
        ...

    def cost(self, program: Program) -> dict[str, Any] | None:
        """Return estimates of the costs before optimization; None if there are none.

        They are numbers, or sizes if the program is one for all sizes of named axes.
        """
        ...

    def described_devices(self, platform: str, topology: str = "") -> tuple[DescribedDevice, ...]:
        """Return the devices of a machine that is not present but can be compiled for."""
        ...


@runtime_checkable
class PortableCompiler(Compiler, Protocol):
    """A compiler whose executables can be stored, and loaded by another process."""

    def digest(self, program: Program) -> str | None:
        """Return a name shared only by equal programs; None if the executable cannot be stored.

        It is the same in every process that may load the stored executable.
        """
        ...

    def serialize(self, executable: Executable) -> bytes:
        """Return an executable as bytes.

        Raises: ValueError for programs that call Python; JaxRuntimeError if it cannot be stored.
        """
        ...

    def load(self, program: Program, stored: bytes) -> Executable:
        """Return the executable of a program from trusted bytes, which hold native code.

        Raises: JaxRuntimeError if they cannot be loaded here.
        """
        ...


class Engine(Protocol):
    """Runs programs: a compiler, with the memory that its executables read and write."""

    @property
    def name(self) -> str:
        """The name by which it is selected."""
        ...

    @property
    def memory(self) -> Memory:
        """The memory of the operands and results of its programs; engines may share one."""
        ...

    @property
    def compiler(self) -> Compiler:
        """The compiler of its executables."""
        ...

    def barrier(self) -> None:
        """Wait until every program with effects has ended; raise the first failure."""
        ...


class StoringEngine(Engine, Protocol):
    """An engine whose programs can be kept for other processes, and run there uncompiled."""

    def machine(self) -> tuple[str, ...]:
        """Return the target that programs are compiled for here, and the other compilers in use."""
        ...

    def to_stored(self, executable: Any) -> bytes | None:
        """Return an executable as bytes; None if it has no stored form."""
        ...

    def when_improved(self, executable: Any, callback: Callable[[], None]) -> None:
        """Call a function whenever optimized code replaces the code of an executable."""
        ...

    def from_stored(self, program: Program, stored: bytes) -> Executable:
        """Return the executable of a program from trusted bytes, which hold native code.

        Raises: JaxRuntimeError if they cannot be loaded here.
        """
        ...


class SharedEngine(Engine, Connector, Protocol):
    """An engine that runs programs together with those of other processes.

    It is connected to them before its devices are used.
    """

    def has_devices(self) -> bool:
        """Tell whether its devices have been made."""
        ...


ENGINES: dict[str, str] = {
    "native": "kiln.engines.native.engine",
    "reference": "kiln.engines.reference.engine",
    "xla": "kiln.engines.xla.engine",
}

DEFAULT_ENGINE = "xla"
HOST_COMPILER = "native"
"""The engine of programs for the first CPU device, if it can compile the whole program."""

_loaded: dict[str, Engine] = {}
_lock = new_lock()
_loading = new_guard()


def engine(name: str) -> Engine:
    """Return the engine called `name`, loading it on first use.

    Raises: ValueError for an unknown name; MissingEngine if its library is not installed.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    if name not in ENGINES:
        raise ValueError(
            f"engine {name!r} was asked for\nthere is no such engine\n"
            f"set KILN_ENGINE to one of: {', '.join(ENGINES)}"
        )
    require_installed(name, f"the {name} engine")
    # A half-loaded library cannot be loaded again, not even in a forked child.
    with HeldBack(), _loading, Permanent():
        module = importlib.import_module(ENGINES[name])
        make: Callable[[], Engine] = module.make_engine
        with _lock:
            if name not in _loaded:
                _loaded[name] = make()
            return _loaded[name]


PLANS = "kiln.engines.native.eager.plan"
"""The planner of eager operations; like an engine it is loaded on first use."""
_planner: Any = None


def make_plan(jaxpr: Jaxpr, container: type | None) -> Plan | None:
    """Return a plan that runs a jaxpr, with its results in a container; None if there is none."""
    if _planner is None:
        _load_planner()
    made: Plan | None = _planner.make_plan(jaxpr, container)
    return made


def _load_planner() -> None:
    global _planner
    with _loading, Permanent():
        _planner = importlib.import_module(PLANS)


def load_module(name: str) -> Any:
    """Import a part of an engine that is loaded on first use."""
    with HeldBack(), _loading, Permanent():
        return importlib.import_module(name)


def default_engine() -> Engine:
    """Return the engine whose memory holds arrays that were not placed.

    Where XLA is not installed there is the host alone. The engine that runs a program is chosen by
    `execution/engine_choice.py`.

    Raises: MissingEngine if there should be several CPU devices, and XLA is not installed.
    """
    opts = options()
    if opts.engine:
        return engine(opts.engine)
    if is_installed(DEFAULT_ENGINE) or (opts.num_cpu_devices or 1) > 1:
        return engine(DEFAULT_ENGINE)
    return engine(HOST_COMPILER)


def default_sharding() -> Sharding:
    """Return the sharding of arrays that were never placed: the first device."""
    return SingleDeviceSharding(default_engine().memory.devices()[0])


def barrier() -> None:
    """Wait until every program with effects has ended, on all engines in use."""
    for found in list(_loaded.values()):
        found.barrier()
