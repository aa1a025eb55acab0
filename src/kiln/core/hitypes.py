"""Types of high values: objects that a library treats as values, and the arrays they consist of.

A *high* value is an object of a class that `register_hitype` knows. Its type says which arrays
(*low* values) it consists of, and how to build one from them: programs hold the arrays. A mutable
value has, besides its type, a state of that type: the types of what it holds now (`qdd`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree.nodes import register_pytree_node
from kiln.core.ref import Ref
from kiln.core.slices import Slice
from kiln.core.staging import StagingTrace
from kiln.core.trace import Trace, aval_of, set_type_of, state
from kiln.ir.types import AbstractValue


def _undefined(kind: object, method: str) -> NotImplementedError:
    name = type(kind).__name__
    return NotImplementedError(
        three_lines(
            f"{name}.{method} at {current_source()}",
            f"the type {name} does not define {method}, which this needs",
            f"define `{method}` on {name}",
        )
    )


class _HighType(AbstractValue):
    """What the types of immutable and mutable values share."""

    is_high = True

    def __hash__(self) -> int:
        raise _undefined(self, "__hash__")

    def __eq__(self, other: object) -> bool:
        raise _undefined(self, "__eq__")

    def to_tangent_aval(self) -> Any:
        """Return the type of a tangent."""
        raise _undefined(self, "to_tangent_aval")

    def to_ct_aval(self) -> Any:
        """Return the type of a cotangent: that of a tangent."""
        return self.to_tangent_aval()

    def normalize(self) -> Any:
        """Return the type in its canonical form: itself."""
        return self


class HiType(_HighType):
    """Base class of the types of immutable values.

    A subclass defines `__eq__` and `__hash__`; `lo_ty`, `lower_val` and `raise_val`; for
    derivatives `to_tangent_aval`.
    """

    has_qdd = False

    def lo_ty(self) -> list[Any]:
        """Return the types of the arrays that a value consists of."""
        raise _undefined(self, "lo_ty")

    def lower_val(self, hi_val: Any) -> list[Any]:
        """Return the arrays that a value consists of."""
        raise _undefined(self, "lower_val")

    def raise_val(self, *lo_vals: Any) -> Any:
        """Return the value that consists of some arrays."""
        raise _undefined(self, "raise_val")

    def dec_rank(self, size: Any, spec: Any) -> Any:
        """Return the type of a value's slices along the axes that `spec` names."""
        raise _undefined(self, "dec_rank")

    def inc_rank(self, size: Any, spec: Any) -> Any:
        """Return the type of stacks of values along the axes that `spec` names."""
        raise _undefined(self, "inc_rank")

    def leading_axis_spec(self) -> Any:
        """Return the spec by which all arrays are sliced along their first axis."""
        raise _undefined(self, "leading_axis_spec")


class MutableHiType(_HighType):
    """Base class of the types of mutable values, which may hold other types after a change.

    A subclass defines `__eq__` and `__hash__`; `lo_ty_qdd`, `new_from_loval`, `read_loval` and
    `update_from_loval`, each given a state, an object of the library's. The state of a value is
    what its method `cur_qdd()` returns.
    """

    has_qdd = True

    def lo_ty_qdd(self, state: Any, /) -> list[Any]:
        """Return the types of the arrays that a value in this state consists of."""
        raise _undefined(self, "lo_ty_qdd")

    def new_from_loval(self, state: Any, /, *vals: Any) -> Any:
        """Return a new value in this state that consists of some arrays."""
        raise _undefined(self, "new_from_loval")

    def read_loval(self, state: Any, val: Any, /) -> list[Any]:
        """Return the arrays that a value in this state consists of."""
        raise _undefined(self, "read_loval")

    def update_from_loval(self, state: Any, val: Any, /, *lo_vals: Any) -> None:
        """Update a value in place: it is in this state now and consists of these arrays."""
        raise _undefined(self, "update_from_loval")

    def type_state(self, *_: Any) -> Any:
        """Refuse: a type has no state, its values have.

        Raises: NotImplementedError.
        """
        raise _undefined(self, "type_state")


class AvalQDD(Record):
    """The type of a mutable value, and its state."""

    aval: Any
    qdd: Any

    is_high = True
    has_qdd = True

    def lo_ty(self) -> list[Any]:
        """Return the types of the arrays that the value consists of."""
        return list(self.aval.lo_ty_qdd(self.qdd))

    def read_loval(self, val: Any) -> list[Any]:
        """Return the arrays that the value consists of."""
        return list(self.aval.read_loval(self.qdd, val))

    def new_from_loval(self, *lovals: Any) -> Any:
        """Return a new value that consists of some arrays."""
        return self.aval.new_from_loval(self.qdd, *lovals)

    def to_tangent_aval(self) -> AvalQDD:
        """Return the type of a tangent, and the state of one."""
        return AvalQDD(self.aval.to_tangent_aval(), self.qdd and self.qdd.to_tangent_qdd())


class MutableQDD:
    """The state of a value while a program is recorded: the initial and the current one."""

    __slots__ = ("cur_val", "init_val")

    def __init__(self, state: Any) -> None:
        self.init_val = self.cur_val = state

    def update(self, state: Any) -> None:
        """Record that the value is in another state."""
        self.cur_val = state


class AvalMutableQDD(Record, eq=False):
    """The type of a mutable value, with its current state, as passed to abstract evaluation."""

    aval: Any
    mutable_qdd: MutableQDD

    has_qdd = True


TYPES: dict[type, Callable[[Any], Any]] = {}
"""For each class of high values, the function that returns the type of one."""


def register_hitype(val_cls: Any, typeof_fn: Any) -> None:
    """Make the instances of a class values; `typeof_fn(value)` returns the type of one.

    Raises: TypeError unless a class and a function are given.
    """
    if not isinstance(val_cls, type) or not callable(typeof_fn):
        raise TypeError(
            three_lines(
                f"register_hitype({val_cls!r:.60}, {typeof_fn!r:.60}) at {current_source()}",
                "a class and a function from an instance to its type are needed",
                "write register_hitype(Value, lambda value: ValueTy(...))",
            )
        )
    TYPES[val_cls] = typeof_fn
    set_type_of(val_cls, typeof_fn)


def is_high(x: Any) -> bool:
    """Tell whether a value is of a registered class."""
    return type(x) in TYPES


def cur_qdd(x: Any) -> Any:
    """Return the state of a mutable value: the types of what it holds now.

    Raises: TypeError for a value that has none.
    """
    if not getattr(aval_of(x), "has_qdd", False):
        raise TypeError(
            three_lines(
                f"cur_qdd of a value of type {type(x)} at {current_source()}",
                f"only values that change have a state; this one is of type {aval_of(x)}",
                "pass a value whose type is a MutableHiType",
            )
        )
    return x.cur_qdd()


def full_type_of(x: Any) -> Any:
    """Return the type of a value, with its state if it has one."""
    aval = aval_of(x)
    return AvalQDD(aval, cur_qdd(x)) if aval.has_qdd else aval


class HighOperand(TypeError):
    """A high value where an array is expected.

    Loops and derivatives catch it, and continue with the arrays that the value consists of.
    """


class RefOperand(TypeError):
    """A reference where arrays are expected; `vjp` catches it, and does not differentiate by it."""


def operand_error(x: Any, message: str, *, may_change: bool = False) -> TypeError:
    """Return the error for an operand that is not an array."""
    if isinstance(x, Ref):
        return RefOperand(message)
    is_value = is_high(x) and (may_change or not aval_of(x).has_qdd)
    return (HighOperand if is_value else TypeError)(message)


class NeedsArrays(NotImplementedError):
    """A function being recorded must take and return arrays in place of high values.

    Calls of jitted functions catch it, and pass arrays from then on.
    """

    value: Any = None


class Returned(NeedsArrays):
    """A function being recorded returns a high value."""

    def __init__(self, value: Any, asked: str) -> None:
        super().__init__(
            three_lines(
                f"{asked} at {current_source()}",
                f"the function returned a value of type {type(value).__name__}: only calls of "
                "jitted functions return values that are not arrays",
                "return the arrays that it consists of",
            )
        )


class ClosedOver(NeedsArrays):
    """A function being recorded uses a mutable value that does not belong to the program.

    Calls of jitted functions pass it from then on.
    """

    def __init__(self, value: Any) -> None:
        self.value = value
        super().__init__(
            three_lines(
                f"use of a value of type {type(value).__name__} at {current_source()}",
                "it changes, and was made outside the function that is being recorded here (the "
                "body of a loop, a branch, make_jaxpr): only jit takes such values",
                "pass what it holds to the function, and store what the function returns",
            )
        )


def owned(value: Any) -> Any:
    """Return a mutable value, which belongs to the active trace from now on."""
    trace = state.trace
    if trace is not state.root:
        if trace.high is None:
            trace.high = {}
        trace.high[id(value)] = value
    return value


def owner_of(value: Any) -> Trace:
    """Return the trace that a mutable value belongs to.

    Raises: ClosedOver if it belongs to none within the program being recorded.
    """
    trace: Trace | None = state.trace
    while trace is not None and trace is not state.root:
        if trace.high is not None and id(value) in trace.high:
            return trace
        if type(trace) is StagingTrace:
            raise ClosedOver(value)
        trace = trace.parent
    root: Trace = state.root
    return root


def lowered(types: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    """Return the arrays that values of the given types consist of, in one list."""
    found: list[Any] = []
    for kind, value in zip(types, values, strict=True):
        read = kind.read_loval if kind.has_qdd else kind.lower_val
        found.extend(read(value))
    return found


def raised(types: Sequence[Any], arrays: Iterable[Any]) -> list[Any]:
    """Return the values of the given types that consist of a list of arrays."""
    rest = iter(arrays)
    found = []
    for kind in types:
        parts = [next(rest) for _ in kind.lo_ty()]
        found.append((kind.new_from_loval if kind.has_qdd else kind.raise_val)(*parts))
    return found


def check_tangents(what: str, kinds: Iterable[Any]) -> None:
    """Check that tangents consist of the tangents of the arrays that values consist of.

    Raises: NotImplementedError naming a type that has others.
    """
    for kind in kinds:
        own = [aval.tangent() for aval in kind.lo_ty()]
        moves = kind.to_tangent_aval().lo_ty()
        if len(own) != len(moves) or not all(
            a.same_type(b) for a, b in zip(own, moves, strict=True)
        ):
            raise NotImplementedError(
                three_lines(
                    f"derivative of {what} at {current_source()}",
                    f"tangents of values of type {kind} consist of other arrays ({moves}) than "
                    f"the tangents of the arrays of a value ({own})",
                    "let to_tangent_aval return a type with one tangent for each array",
                )
            )


class HighRef:
    """A reference to a high value: references to the arrays that it consists of.

    `ref[...]` reads it, `ref[...] = value` replaces it. Parts are read and written by the methods
    `ref_get_to_lojax` and `ref_swap_to_lojax` of the value's type, if it has them.
    """

    __slots__ = ("aval", "parts")

    def __init__(self, kind: HiType, parts: Sequence[Any]) -> None:
        self.aval = kind
        self.parts = tuple(parts)

    @property
    def _refs(self) -> Any:
        return self.aval.raise_val(*self.parts)

    def get(self, idx: Any = ...) -> Any:
        """Return the value, or a part of it."""
        if _is_whole(idx):
            return self.aval.raise_val(*[ref[...] for ref in self.parts])
        return self._method("ref_get_to_lojax")(self, self._index(idx))

    def set(self, value: Any, idx: Any = ...) -> None:
        """Replace the value, or a part of it."""
        if not _is_whole(idx):
            self._method("ref_swap_to_lojax")(self, value, self._index(idx))
            return
        if aval_of(value) != self.aval:
            raise TypeError(
                three_lines(
                    f"write to a reference to a value at {current_source()}",
                    f"it holds a value of type {self.aval}, and is given one of {aval_of(value)}",
                    "make a reference for each type",
                )
            )
        for ref, array in zip(self.parts, self.aval.lower_val(value), strict=True):
            ref[...] = array

    __getitem__ = get

    def __setitem__(self, idx: Any, value: Any) -> None:
        self.set(value, idx)

    def _method(self, name: str) -> Callable[..., Any]:
        found: Callable[..., Any] | None = getattr(self.aval, name, None)
        if found is None:
            raise _undefined(self.aval, name)
        return found

    def _index(self, idx: Any) -> PartIndex:
        shape = self.aval.shape  # type: ignore[attr-defined]
        given = idx if isinstance(idx, tuple) else (idx,)
        given = (*given, *[slice(None)] * (len(shape) - len(given)))
        parts = []
        for each, size in zip(given, shape, strict=True):
            if not isinstance(each, slice) or each.step not in (None, 1):
                raise NotImplementedError(
                    three_lines(
                        f"a part of a reference to a value at {current_source()}",
                        f"parts are slices with the step 1, and not {each!r:.40}",
                        "read all of it, ref[...], and take a part of the value",
                    )
                )
            start, stop, _ = each.indices(size)
            parts.append(Slice(start, max(stop - start, 0)))
        return PartIndex(tuple(parts))

    def __repr__(self) -> str:
        return f"HighRef{{{self.aval}}}"


class PartIndex(Record):
    """Which part of a value is read or written: for each axis, where it starts and its size."""

    indices: tuple[Slice, ...]


def _is_whole(idx: Any) -> bool:
    return idx is ... or (isinstance(idx, tuple) and all(each is ... for each in idx))


register_pytree_node(HighRef, lambda ref: (ref.parts, ref.aval), HighRef)


class aval_property:
    """A property that tracers have because of their type: `fget(tracer)`."""

    def __init__(self, fget: Callable[[Any], Any]) -> None:
        self.fget = fget


class aval_method:
    """A method that tracers have because of their type: `fun(tracer, ...)`."""

    def __init__(self, fun: Callable[..., Any]) -> None:
        self.fun = fun


class HiPspec:
    """Base class of specs that say how the arrays of a value are sharded over a mesh."""

    def to_lo(self) -> tuple[Any, ...]:
        """Return the PartitionSpecs of the arrays that a value consists of."""
        raise _without_spec(self, "to_lo")

    def to_tangent_spec(self) -> HiPspec:
        """Return the spec of a tangent."""
        raise _without_spec(self, "to_tangent_spec")

    def to_ct_spec(self) -> HiPspec:
        """Return the spec of a cotangent."""
        raise _without_spec(self, "to_ct_spec")


def _without_spec(spec: HiPspec, method: str) -> NotImplementedError:
    name = type(spec).__name__
    return NotImplementedError(
        three_lines(
            f"{name}.{method} at {current_source()}",
            f"{name} does not define {method}, which this needs",
            f"define `{method}` on {name}",
        )
    )
