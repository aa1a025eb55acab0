"""The parts of kiln that run on every call, written in C++ (`_runtime/`)."""

from collections.abc import Callable as Function
from collections.abc import Hashable, Iterable, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

if TYPE_CHECKING:
    from kiln.core.engines.engine import Memory
    from kiln.ir.types import ShapedArray

C = TypeVar("C", bound=type)
T = TypeVar("T")

# state/state.cc

class State:
    """The options, trace and mapped axes in force on the calling thread."""

    overrides: dict[str, Any] | None
    root: Any
    trace: Any
    axes: tuple[tuple[Any, Any, Any], ...]
    tracked: frozenset[Any]
    bound: tuple[tuple[tuple[Any, Any, Any], ...], frozenset[Any]]
    source: Any

state: State

class Override:
    """A context that changes options of the thread that enters it."""

    def __new__(cls, **changes: Any) -> Self: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *error: object) -> None: ...

class OptionValue:
    """A value of the option that its class names in `option`; as a context, it sets the option."""

    option: ClassVar[str]
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...

def options() -> Any: ...
def set_base_options(options: Any, /) -> None: ...
def set_merge(merge: Function[[Any, dict[str, Any]], Any], /) -> None: ...

# state/contexts.cc

class Assigned:
    """A context that sets an attribute of a thread-local object."""

    def __new__(cls, target: Any, name: str, value: Any, result: Any = ..., /) -> Self: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: object) -> None: ...

class Changed(Assigned):
    """A context that changes an attribute of a thread-local object by a function.

    `change(value)` returns the attribute's value inside the context, and the result of `__enter__`.
    """

    def __new__(
        cls, target: Any, name: str, change: Function[[Any], tuple[Any, Any]], /
    ) -> Self: ...

class Listed:
    """A context in which a list contains an item, for all threads."""

    def __new__(cls, list: list[Any], item: Any, result: Any = ..., /) -> Self: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *error: object) -> None: ...

# trees/keys.cc

class SequenceKey:
    """A position in a tuple or list: `[0]`."""

    __match_args__ = ("idx",)

    def __init__(self, idx: int) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def idx(self) -> int: ...

class DictKey:
    """A key of a mapping: `['a']`."""

    __match_args__ = ("key",)

    def __init__(self, key: Hashable) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def key(self) -> Hashable: ...

class GetAttrKey:
    """An attribute: `.x`."""

    __match_args__ = ("name",)

    def __init__(self, name: str) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def name(self) -> str: ...

class FlattenedIndexKey:
    """A child of a registered class that does not name its children."""

    __match_args__ = ("key",)

    def __init__(self, key: int) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def key(self) -> int: ...

# trees/nodes.cc

class Form(IntEnum):
    """The built-in ways to flatten a node of a pytree, which need no function."""

    CUSTOM = ...
    TUPLE = ...
    LIST = ...
    DICT = ...
    NONE = ...
    NAMEDTUPLE = ...
    FIELDS = ...

class NodeKind:
    """How values of one class are flattened and unflattened."""

    registered: bool

    def __init__(
        self,
        flatten: Function[[Any], tuple[Iterable[Any], Any]] | None = None,
        build: Function[[Any, Any], Any] | None = None,
        entries: Function[[Any, int], Any] | None = None,
        keyed: Function[[Any], tuple[Iterable[tuple[Any, Any]], Any]] | None = None,
        registered: bool = True,
        form: Form = Form.CUSTOM,
        children: tuple[str, ...] | None = None,
        metadata: tuple[str, ...] | None = None,
    ) -> None: ...
    def take_apart(self, value: Any, /) -> tuple[Sequence[Any], Any]: ...
    def with_entries(self, value: Any, /) -> tuple[tuple[Any, ...], Sequence[Any], Any]: ...
    def entries_of(self, data: Any, count: int, /) -> tuple[Any, ...]: ...

def set_tree_tables(
    kinds: dict[type, Any],
    leaf_types: set[type],
    kind_of_new: Function[[type], Any],
    sorted_keys: Function[[dict[Any, Any]], Any],
    /,
) -> None: ...
def forget_leaf_types() -> None: ...

# trees/tree_def.cc

class TreeDef:
    """The structure of a pytree."""

    def __init__(self, key: Any, /) -> None: ...
    def __hash__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    @property
    def key(self) -> Any: ...
    @property
    def num_leaves(self) -> int: ...
    @property
    def is_hashable(self) -> bool: ...
    def unflatten(self, leaves: Iterable[Any], /) -> Any: ...
    def flatten_up_to(self, tree: Any, /) -> list[Any]: ...

def tree_flatten(
    tree: Any, is_leaf: Function[[Any], bool] | None = None
) -> tuple[list[Any], Any]: ...
def tree_flatten_with_path(
    tree: Any, is_leaf: Function[..., bool] | None = None, is_leaf_takes_path: bool = False
) -> tuple[list[tuple[tuple[Any, ...], Any]], Any]: ...
def set_tree_class(cls: type, wrong_count: Any, no_prefix: Any, /) -> None: ...

# arrays/array.cc

class ArrayData:
    """The data of a concrete array."""

    aval: ShapedArray
    _host: np.ndarray | None
    _buffer: Any
    _memory: Memory | None
    _sharding: Any
    _committed: bool
    _is_part: bool

    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __init__(
        self,
        aval: ShapedArray,
        host: np.ndarray | None,
        buffer: Any = None,
        memory: Memory | None = None,
        sharding: Any = None,
        committed: bool = False,
    ) -> None: ...
    def _data(self) -> tuple[np.ndarray | None, Any, Memory | None]: ...
    def _settle(self, seen: Any, buffer: Any, memory: Memory, keeps_host: bool, /) -> bool: ...
    def _note(self, buffer: Any, host: np.ndarray, /) -> None: ...
    def _note_part(self) -> None: ...
    def _let_go(self) -> None: ...

def live_arrays() -> list[Any]: ...
def set_host_value(
    host_value: Function[[Any], np.ndarray], lent_value: Function[[Any], np.ndarray], /
) -> None: ...
def set_array_classes(plain: type, placed: type, /) -> None: ...

# arrays/dlpack.cc

def to_dlpack(array: np.ndarray, code: int, bits: int, versioned: bool, copied: bool, /) -> Any: ...
def from_dlpack(
    capsule: Any, dtype_of: Function[[int, int], np.dtype], /
) -> tuple[np.ndarray, bool]: ...

# programs/launcher.cc

class Launcher:
    """An executable that enqueues a program and returns futures of its results."""

    _execute: Any
    _launch_lock: LaunchLock | None
    _launches_alone: bool
    _runs_alone: bool
    _is_slow: bool
    _calls_host: bool

    def __init__(
        self,
        execute: Any,
        handlers: list[Any],
        name: str,
        operands: Sequence[tuple[Any, int] | None] = (),
        share: Function[[int, MemoryBlock], Any] | None = None,
        /,
    ) -> None: ...
    @property
    def name(self) -> str: ...
    def __call__(self, buffers: Sequence[Any], /) -> Sequence[Any]: ...

def set_explain_failure(explain: Function[[BaseException, str], None], /) -> None: ...
def set_launch_apart(launch: Function[[Launcher, Sequence[Any]], Sequence[Any]], /) -> None: ...

# arrays/memory.cc

class MemoryBlock:
    """A block of aligned host memory."""

    def __buffer__(self, flags: int, /) -> memoryview: ...

def allocate(size: int, /) -> MemoryBlock: ...
def memory_statistics() -> dict[str, int]: ...
def release_memory() -> None: ...
def limit_memory(size: int, /) -> None: ...
def set_out_of_memory_error(error: type[BaseException], /) -> None: ...

# native/native.cc

class Native:
    """A compiled function, called by address: `int32_t entry(Call*)` of `abi/native_call.h`.

    Types are (dtype, bytes). `shared` and `reused` are pairs (result, operand): a shared result is
    the operand itself, and compiled code does not write it; a reused one may take the memory of an
    operand that the call donates and that has no other owner. `workspace` is a number of bytes,
    `sizes` are those of named axes. `is_long` means that a call releases the GIL. Its parallel
    loops run on `threads` threads; 0 means the default number. `callbacks` are (function, operand
    types, result types), each type a (dtype, shape); the function takes ndarrays and returns a
    sequence of them. `explain(code, site, index, iteration)` raises the error of a check (-2) or a
    kernel (from 1). After `calls` calls, `improve()` returns the address of optimized code and its
    owner; 0 means never. `kept` are memory blocks, as calls return them: operands after those of a
    call, the same in all calls. Called with buffers of host memory, it returns buffers: read-only
    ndarrays or MemoryBlocks.
    """

    def __init__(
        self,
        address: int,
        operands: Sequence[tuple[Any, int]],
        results: Sequence[tuple[Any, int]],
        owner: Any = None,
        /,
        *,
        workspace: int = 0,
        sizes: Sequence[int] = (),
        shared: Sequence[tuple[int, int]] = (),
        reused: Sequence[tuple[int, int]] = (),
        explain: Function[[int, int, int, int], Any] | None = None,
        callbacks: Sequence[
            tuple[
                Function[..., Sequence[Any]],
                Sequence[tuple[Any, tuple[int, ...]]],
                Sequence[tuple[Any, tuple[int, ...]]],
            ]
        ] = (),
        is_long: bool = False,
        threads: int = 0,
        improve: Function[[], tuple[int, object] | None] | None = None,
        calls: int = 0,
        kept: Sequence[Any] = (),
    ) -> None: ...
    def __call__(self, buffers: Sequence[Any], /) -> list[Any]: ...

# eager/operators.cc

def set_as_array(as_array: Function[[Any], Any], /) -> None: ...
def set_operator_table(functions: dict[str, Function[..., Any]], /) -> None: ...

# programs/placed.cc

class PlacedProgram:
    """A program with the shardings of its operands and results, and its donated arguments."""

    def __init__(
        self,
        program: CompiledProgram,
        in_shardings: tuple[Any, ...] | None,
        out_shardings: tuple[Any, ...] | None,
        committed: bool,
        donated: tuple[int, ...],
        usable: tuple[int, ...],
        donation: Any,
        /,
    ) -> None: ...
    def __call__(self, args: Sequence[Any], /) -> list[Any]: ...

def set_buffer_at(buffer_at: Function[..., Any], own_buffer: Function[..., Any], /) -> None: ...

# native/pool.cc, bindings/processors.cc

def limit_threads(number: int, /) -> None: ...
def num_threads() -> int: ...
def pool_workers() -> int: ...
def processors() -> int: ...
def processor_quota(root: str, /) -> int: ...
def processor_features() -> dict[str, bool]: ...

# eager/loops.cc

class Loop:
    """A compiled loop over strided operands."""

def loop_of_ufunc(ufunc: Any, types: str, /) -> Loop | None: ...
def loop_named(name: str, types: str, /) -> Loop | None: ...

# eager/schedule.cc

class BufferSource(IntEnum):
    """What a buffer of a plan holds."""

    INPUT = ...
    CONSTANT = ...
    SCRATCH = ...
    RESULT = ...
    FROM_FUNCTION = ...

class Outcome(IntEnum):
    """How a plan produces a result: from a buffer, as an input, or from the memory of an input."""

    FRESH = ...
    SAME = ...
    SHARING = ...

class Container(IntEnum):
    """The container in which a plan returns its results."""

    SINGLE = ...
    TUPLE = ...
    LIST = ...

# eager/plan.cc

class Plan:
    """A program of eager operations on arrays of fixed types."""

    loops: int
    steps: int
    def __init__(
        self,
        inputs: list[tuple[Any, int]],
        buffers: list[tuple[BufferSource, Any]],
        steps: list[tuple[Any, ...]],
        results: list[tuple[Outcome, int, Any]],
        container: Container,
        /,
    ) -> None: ...
    def __call__(self, *arrays: Any) -> Any: ...

# eager/eager.cc

class EagerFunction:
    """A function of arrays whose calls run plans outside of transformations."""

    __wrapped__: Function[..., Any]
    __name__: str
    def __init__(
        self, function: Function[..., Any], loop: str | None = None, swapped: bool = False, /
    ) -> None: ...
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

def set_keyword_check(check: Function[[Any, tuple[str, ...]], None], /) -> None: ...
def set_planner(plan: Function[..., Plan | None], /) -> None: ...
def forget_plans() -> None: ...
def limit_plans(bytes: int, /) -> None: ...
def plan_statistics() -> dict[str, int]: ...

# programs/program.cc

class Unloaded:
    def __init__(self, load: Function[[], Any], /) -> None: ...

class CompiledProgram:
    """A compiled program. Calling it with a sequence of arrays and scalars runs it."""

    _call: Function[[Sequence[Any]], Sequence[Any]] | Unloaded
    used: int

    def __init__(
        self, run: Any, out_avals: Iterable[Any], kept: list[int] | None, memory: Any, host: bool, /
    ) -> None: ...
    @property
    def out_avals(self) -> tuple[ShapedArray, ...]: ...
    @property
    def kept(self) -> list[int] | None: ...
    @property
    def memory(self) -> Memory: ...
    def __call__(self, args: Sequence[Any], /) -> list[Any]: ...

class Clock:
    now: int

clock: Clock

def set_buffer_functions(buffer_for: Any, new_buffer: Any, /) -> None: ...

# calls/hit.cc

class Callable:
    """A function whose calls are cached; `_call(args, kwargs)` handles those that are not."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any: ...
    def remember(
        self,
        positional: int,
        kwnames: tuple[str, ...],
        statics: list[tuple[int, tuple[Any, Any, bool, tuple[str, ...] | None, tuple[Any, ...]]]],
        dynamics: list[tuple[int, Any]],
        avals: tuple[Any, ...],
        consts: Iterable[Any],
        program: CompiledProgram | PlacedProgram,
        out_tree: TreeDef,
        named: tuple[int, tuple[Any, ...], Function[..., Any]] | None = None,
        /,
    ) -> bool: ...
    def forget_calls(self) -> None: ...

def set_static_key(static_key: Function[[Any], Hashable], /) -> None: ...
def call_directly(cls: C, /) -> C: ...

# waiting/exceptions.cc

def to_its_end(function: Function[..., Any], /) -> Function[..., Any]: ...

# programs/launch_lock.cc

class LaunchLock:
    """A lock for launches: many hold it concurrently, or one exclusively until its run ends."""

    @property
    def _left(self) -> list[Any]: ...
    def alone(self, function: Function[[], T], /) -> T: ...

# waiting/waiting.cc

def without_arguments(function: Function[[], Any], /) -> Function[..., Any]: ...
def wait_until_ready(buffer: Any, /) -> None: ...
def block_until_ready(buffer: Any, /) -> None: ...
def array_when_ready(buffer: Any, dtype: np.dtype, /) -> np.ndarray: ...
def check_entry() -> None: ...
def is_closed() -> bool: ...
def enter() -> None: ...
def enter_library() -> None: ...
def leave() -> None: ...
def threads_inside() -> int: ...
def enter_callback() -> None: ...
def leave_callback() -> None: ...
def set_main_thread(ident: int, /) -> None: ...
def close_for_exit() -> None: ...
def close_for_child(refuse: Function[[], None] | None, /) -> None: ...

# bindings/symbols.cc

def native_symbols() -> dict[str, int]: ...

# bindings/assembler.cc

def assemble_text(text: str, level: str, /) -> bytes | str: ...

# native/object_file.cc

def link_object(
    image: bytes, entry: str, symbols: dict[str, int], /
) -> tuple[int, object] | str: ...

# native/debugger.cc

def register_symbols(image: bytes, /) -> object: ...

# caches/files.cc

def files_below(folder: str | bytes, ending: str, /) -> list[tuple[str, int, int, int]]: ...

# bindings/blas.cc

def load_blas(path: str, prefix: str, suffix: str, /) -> None: ...

# caches/weak_table.cc

class WeakTable:
    """Values associated with objects, looked up by identity, for the lifetime of the objects."""

    def get(self, key: Any, /) -> Any: ...
    def put(self, key: Any, value: Any, /) -> Any: ...
    def values(self) -> list[Any]: ...
    def __len__(self) -> int: ...

# caches/evidence.cc

def functions_are_as_noted(parts: tuple[tuple[Any, ...], ...], root: Any, /) -> bool: ...
