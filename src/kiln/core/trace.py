"""Traces: what happens when an operation is applied.

A `Trace` is one method, `process`. Transformations activate their own trace while the user function
runs, and process each operation by applying others under their parent. A `Tracer` is the value that
a trace passes to the user function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Protocol

import numpy as np

from kiln import _runtime
from kiln._runtime import Assigned
from kiln.base import dtypes
from kiln.base.errors import MaskedArrayError, UnexpectedTracerError, three_lines
from kiln.base.options.config import options, override
from kiln.base.source import Source, current_source
from kiln.core.array_type import Array
from kiln.core.concretization import refuse
from kiln.core.operators import ArrayOperators
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Size
from kiln.ir.types import ShapedArray


class Trace:
    """Decides what applying a primitive means. `live` ends with the transformation."""

    __slots__ = ("high", "live", "made", "parent")

    def __init__(self, parent: Trace | None = None) -> None:
        self.parent = parent
        self.live = True
        # Mutable high values that were made under this trace, by id.
        self.high: dict[int, Any] | None = None
        # Where tracers were made that do not record it themselves, by id; only to check leaks.
        self.made: dict[int, Source | None] | None = None
        if options().check_tracer_leaks:
            self.made = {}

    @property
    def main(self) -> Trace:
        """The trace itself, which is the only one of its transformation."""
        return self

    def process(self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]) -> Any:
        """Apply a primitive; return its result, or a list if it is `multiple`."""
        return self.process_primitive(primitive, args, params)

    def process_primitive(
        self, primitive: Operation, args: Sequence[Any], params: dict[str, Any]
    ) -> Any:
        """Do what `process` does, in traces of other libraries, which call it by this name."""
        raise NotImplementedError

    def describe(self) -> str:
        """Describe what is being traced, for messages."""
        return f"under {type(self).__name__}"

    def origin(self, tracer: Tracer) -> str:
        """Describe where a tracer was made, as `, made by ... at ...`, for messages."""
        for inside in tracer.inside():
            if isinstance(inside, Tracer):
                return inside.owner.origin(inside)
        if self.made is None:
            return ", made at a line that kiln.checking_leaks() tells"
        source = self.made.get(id(tracer))
        return f", made at {source}" if source else ", an argument of the function"

    def note_origin(self, tracer: Tracer) -> None:
        """Record the line that creates a tracer. Called only if leaks are checked."""
        assert self.made is not None
        self.made[id(tracer)] = state.source or current_source()

    def responsible(self, tracer: Tracer) -> list[tuple[str, ShapedArray]]:
        """Return names and types of the user arguments that a tracer depends on."""
        return []


class Tracer(ArrayOperators):
    """An array under a trace: its type is known, its value may not be."""

    __slots__ = ("__weakref__", "aval", "owner")
    __hash__ = None  # type: ignore[assignment]

    owner: Trace
    aval: ShapedArray

    def __init__(self, owner: Trace, aval: ShapedArray | None = None) -> None:
        self.owner = owner
        if aval is not None:
            self.aval = aval

    @property
    def _trace(self) -> Trace:
        """The trace it belongs to, by its name in jax."""
        return self.owner

    @property
    def sharding(self) -> Any:
        """What arrays have, and traced values do not: their type says how they are sharded."""
        raise AttributeError(
            f"a {type(self).__name__} has no attribute 'sharding'; write kiln.typeof(x).sharding"
        )

    def concrete(self) -> Any:
        """Return the underlying concrete array, or None."""
        return None

    def abstract(self) -> Tracer:
        """Return the innermost tracer that has no value."""
        return self

    def inside(self) -> tuple[Any, ...]:
        """Return the values, possibly tracers of other traces, that the tracer consists of."""
        return ()

    def _value(self, conversion: str) -> Any:
        value = self.concrete()
        if value is None:
            refuse(self, conversion)
        return value

    def __bool__(self) -> bool:
        return bool(self._value("bool"))

    def __int__(self) -> int:
        return int(self._value("int"))

    def __float__(self) -> float:
        return float(self._value("float"))

    def __complex__(self) -> complex:
        return complex(self._value("complex"))

    def __index__(self) -> int:
        return self._value("__index__").__index__()  # type: ignore[no-any-return]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        refuse(self, "__array__")

    def item(self, *args: Any) -> Any:
        """Return the value as a Python scalar, if it is known."""
        return self._value("item").item(*args)

    def tolist(self) -> Any:
        """Return the values as nested lists, if they are known."""
        return self._value("tolist").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the raw bytes, if they are known."""
        return self._value("tobytes").tobytes(order)  # type: ignore[no-any-return]

    def block_until_ready(self) -> Tracer:
        """Return the tracer: nothing is computed yet."""
        return self

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            three_lines(
                f"assignment to an item of {self!r} at {current_source()}",
                "kiln arrays are immutable and do not support item assignment",
                "write x = x.at[idx].set(y) instead of x[idx] = y",
            )
        )

    def __repr__(self) -> str:
        return f"Traced<{self.aval!r}>with<{type(self.owner).__name__}>"

    def __format__(self, spec: str) -> str:
        return repr(self)

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __copy__(self) -> Tracer:
        return self

    def __reduce__(self) -> NoReturn:
        refuse(self, "pickle")


Array.register(Tracer)


class _Unset(Trace):
    """The root trace until `execution/eager.py` installs the evaluating one."""

    __slots__ = ()


state = _runtime.state
"""Per thread: the active trace, the mapped axes in scope, the equation being replayed.

An axis is (name, size, kind). The kind is None under vmap; for a mesh axis it says whether types
track what varies along it; for one whose members run sequentially it is a `SequentialAxis`.
`tracked` names the axes where types track.
"""


def set_root_trace(trace: Trace) -> None:
    """Install the trace that is active outside all transformations."""
    state.root = trace


set_root_trace(_Unset(None))


def in_force(trace: Trace) -> AbstractContextManager[Trace]:
    """Activate a trace, in a context."""
    return Assigned(state, "trace", trace)


def eval_context() -> AbstractContextManager[None]:
    """Evaluate operations immediately, even while a program is recorded."""
    return Assigned(state, "trace", state.root, None)


class SequentialAxis(Protocol):
    """The kind of an axis whose members run sequentially: the position of each is known."""

    def position(self) -> Any:
        """Return the position of the member that is being traced."""


def axes_bound(
    axes: Iterable[tuple[Any, Any, bool | SequentialAxis | None]],
) -> AbstractContextManager[None]:
    """Bind the names of mapped axes while a function is traced: a name, a size, a kind of each."""
    bound, tracked = state.axes, state.tracked
    for name, size, kind in axes:
        bound = (*bound, (name, size, kind))
        tracked = tracked | {name} if kind is True else tracked - {name}
    return Assigned(state, "bound", (bound, tracked), None)


def axis_bound(name: Any, size: Any) -> AbstractContextManager[None]:
    """Bind the name of a mapped axis while a function is traced."""
    return axes_bound([(name, size, None)])


def in_users_lines() -> AbstractContextManager[None]:
    """Attribute operations to the lines that apply them, not to the equation being replayed.

    For user functions that run while a program is replayed.
    """
    return Assigned(state, "source", None)


def axis_size_of(name: Any) -> Any:
    """Return the size of the mapped axis called `name`.

    Raises: NameError if no such axis is bound.
    """
    return _axis(name)[0]


def axis_kind_of(name: Any) -> bool | SequentialAxis | None:
    """Return the kind of the mapped axis called `name`.

    Raises: NameError if no such axis is bound.
    """
    kind: bool | SequentialAxis | None = _axis(name)[1]
    return kind


def _axis(name: Any) -> tuple[Any, Any]:
    for bound, size, kind in reversed(state.axes):
        if bound == name:
            return size, kind
    raise NameError(
        three_lines(
            f"unbound axis name: {name} at {current_source()}",
            f"Found an unbound axis name: {name}: the mapped axes here are "
            f"{[n for n, *_ in state.axes]}",
            f"call inside vmap(..., axis_name={name!r}), or shard_map over a mesh with that axis",
        )
    )


def leaked(tracer: Tracer) -> UnexpectedTracerError:
    """Build the error for using a tracer after its transformation has ended."""
    return UnexpectedTracerError(
        three_lines(
            f"Encountered an unexpected tracer, a leak: a traced value of type {tracer.aval} kept "
            f"after its transformation ended ({tracer.owner.describe()}"
            f"{tracer.owner.origin(tracer)}), used at {current_source()}",
            "the function stored a traced value outside itself: a leak to global state, such as a "
            "variable, an attribute, or a list",
            "return the value from the function instead of storing it",
        )
    )


def check_live(tracer: Tracer) -> None:
    """Raise UnexpectedTracerError if the tracer's transformation has ended."""
    if not tracer.owner.live:
        raise leaked(tracer)


def _scalar_types(enable_x64: bool) -> dict[type, ShapedArray]:
    with override(enable_x64=enable_x64):
        pairs = {kind: dtypes.scalar_dtype(kind(0)) for kind in (bool, int, float, complex)}
    return {kind: ShapedArray((), dtype, weak) for kind, (dtype, weak) in pairs.items()}


_SCALARS: dict[bool, dict[type, Any]] = {x64: _scalar_types(x64) for x64 in (False, True)}
"""By `enable_x64` and class: a type, or a function from a value to its type."""


def set_type_of(cls: type, type_of: Callable[[Any], Any]) -> None:
    """Register the function that returns the types of the instances of a class."""
    TYPED[cls] = False
    for known in _SCALARS.values():
        known[cls] = type_of


class _Typed(dict[type, bool]):
    """Asked of the class: what an object passes on to an array inside it does not count."""

    def __missing__(self, cls: type) -> bool:
        found = hasattr(cls, "aval")
        # Classes of users are not kept alive.
        if found or issubclass(cls, np.generic):
            self[cls] = found
        return found


TYPED: dict[type, bool] = _Typed(
    dict.fromkeys([bool, int, float, complex, list, tuple, type(None), np.ndarray], False)
)
"""By class, as `is_typed`; where a call would cost too much."""


def is_typed(x: Any) -> bool:
    """Tell whether a value is an array, a tracer, or another that knows its type as `aval`.

    An object that holds an array and passes on what it lacks, as a variable of Flax, is not: its
    array is what its `__jax_array__` returns.
    """
    return TYPED[type(x)]


def require_unmasked(x: Any) -> None:
    """Raise MaskedArrayError for a masked array."""
    # Naming the class would import `numpy.ma`, which takes longer than kiln's first call.
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(x, masked.MaskedArray):
        raise MaskedArrayError(
            three_lines(
                f"use of a masked array of shape {x.shape} and dtype {x.dtype} at "
                f"{current_source()}",
                "numpy masked arrays are not supported: the mask would be forgotten without a word",
                "use x.filled(value) to convert the array, or pass x.data and x.mask as two arrays",
            )
        )


def aval_of(x: Any) -> ShapedArray:
    """Return the type of an array, a tracer, or a scalar. Python scalars are weakly typed.

    Raises: MaskedArrayError for a masked array, TypeError for anything else.
    """
    if TYPED[type(x)]:
        return x.aval  # type: ignore[no-any-return]
    scalar = _SCALARS[options().enable_x64].get(type(x))
    if scalar is not None:
        # The types of high values depend on the value.
        return scalar if scalar.__class__ is ShapedArray else scalar(x)
    if isinstance(x, (np.ndarray, np.generic)):
        require_unmasked(x)
        return ShapedArray(x.shape, dtypes.canonicalize_dtype(x.dtype))
    if hasattr(x, "__jax_array__") and type(x) is not Size:
        raise TypeError(
            three_lines(
                f"use of a {type(x).__name__} as an operand at {current_source()}",
                "it is not an array, but holds one: "
                "Triggering __jax_array__() here is not supported",
                "give the array in it: kiln.numpy.asarray(x)",
            )
        )
    dtype, weak = dtypes.scalar_dtype(x)
    shape = getattr(x, "shape", ())
    return ShapedArray(shape if isinstance(shape, tuple) else (), dtype, weak)
