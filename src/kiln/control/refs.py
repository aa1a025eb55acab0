"""References: primitives that make, read and change them, and the functions that users call.

Under a trace that records, each is an equation. Everywhere else a reference holds its content, and
changing it is ordinary Python; `discharge.py` turns recorded equations into that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import api_boundary, current_source
from kiln.control.ref_index import WHOLE, Index, check_within, joined, part_type, parts_of, text, window
from kiln.core.array import ConcreteArray
from kiln.core.primitive import Primitive
from kiln.core.ref import Ref, leaked_ref, set_ref_access
from kiln.core.staging import StagingTrace
from kiln.core.trace import Tracer, aval_of, state
from kiln.execution.compilation import as_array
from kiln.ir.effects import REF_READ, REF_WRITE, Effects
from kiln.ir.ref_type import AbstractRef, is_ref_type
from kiln.ir.types import ShapedArray
from kiln.ops.conversion import convert_element_type
from kiln.ops.elementwise import add
from kiln.ops.shape import reshape
from kiln.ops.slicing import dynamic_slice_p, dynamic_update_slice_p
from kiln.transforms.batching import BatchTrace
from kiln.transforms.jvp import JVPTracer


class Reach(NamedTuple):
    """How a reference is reached from the active trace."""

    has_content: bool
    """Its content is at hand: no program is being recorded in between."""
    is_mapped: bool
    """The active trace is, or is above, that of a `vmap` which the reference is outside of."""


def reach(ref: Ref) -> Reach:
    """Return how a reference is reached.

    Raises: UnexpectedTracerError if what it belongs to has ended.
    """
    recorded = mapped = False
    if not ref.owner.live:
        _outlive(ref)
    trace = state.trace
    while trace is not ref.owner:
        if trace is None:
            raise leaked_ref(ref)
        recorded = recorded or type(trace) is StagingTrace
        mapped = mapped or (not recorded and isinstance(trace, BatchTrace))
        trace = trace.parent
    return Reach(not recorded and ref.variable is None, mapped)


def _outlive(ref: Ref) -> None:
    """Let a reference outlive a transformation, if what it holds does."""
    if ref.variable is not None or (isinstance(ref.content, Tracer) and not ref.content.owner.live):
        raise leaked_ref(ref)
    while not ref.owner.live:
        ref.owner = ref.owner.parent


def content_of(ref: Ref) -> Any:
    """Return what a reference holds, under the active trace."""
    return get_p.bind(ref, index=WHOLE)


def replace_content(ref: Ref, new: Any) -> None:
    """Replace what a reference holds.

    Raises: ValueError if the value differs from example to example, or moves, and it does not.
    """
    _write(ref, new, WHOLE, ())


def holding(aval: ShapedArray, content: Any) -> Ref:
    """Return a new reference that belongs to the active trace, and has a content."""
    return Ref(AbstractRef(aval), state.trace, content=_of_type(content, aval))


class NewRef(Primitive):
    """Make a reference that holds an array."""

    name = "new_ref"

    def bind(self, *args: Any, **params: Any) -> Ref:
        (x,) = args
        if type(state.trace) is StagingTrace:
            made: Ref = super().bind(x)
        else:
            made = holding(aval_of(x), x)
        made.source = state.source or current_source()
        return made

    def infer(self, x: ShapedArray) -> AbstractRef:  # type: ignore[override]
        return AbstractRef(x)

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))

    def stage(self, trace: StagingTrace, args: Sequence[Any], params: dict[str, Any]) -> Ref:  # type: ignore[override]
        atom = trace.atom(args[0])
        aval = AbstractRef(atom.aval)
        out = trace.record(self, [atom], aval, params)  # type: ignore[arg-type]
        return Ref(aval, trace, variable=out.variable)


class OnRef(Primitive):
    """An operation on a reference, the first operand."""

    takes_refs = True

    def bind(self, *args: Any, **params: Any) -> Any:
        ref = args[0]
        found = reach(ref)
        if found.is_mapped and REF_WRITE in self.effects(params):
            raise _mapped(ref)
        if found.has_content:
            return self.on_content(*args, **params)
        if params["index"] and type(state.trace) is not StagingTrace:
            return self.on_whole(*args, **params)
        return super().bind(*args, **params)

    def on_content(self, ref: Ref, *args: Any, **params: Any) -> Any:
        """Apply the operation to a reference with a content."""
        raise NotImplementedError

    def on_whole(self, ref: Ref, *args: Any, **params: Any) -> Any:
        """Apply the operation by reading or writing all of a reference."""
        local = holding(ref.aval.inner_aval, content_of(ref))
        before = local.content
        out = self.on_content(local, *args, **params)
        if local.content is not before:
            replace_content(ref, local.content)
        return out

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        raise _moving(primals[0])

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        raise _mapped(xs[0])


class Get(OnRef):
    """Read a part of a reference."""

    name = "get"

    def infer(self, ref: AbstractRef, *arrays: ShapedArray, index: Index) -> ShapedArray:  # type: ignore[override]
        _require_ref_type(self.name, ref)
        return part_type(ref.inner_aval, index, arrays)

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))

    def on_content(self, ref: Ref, *arrays: Any, index: Index) -> Any:  # type: ignore[override]
        if index:
            return ref.content[joined(index, arrays)]
        ref.is_own = False
        return ref.content

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:  # type: ignore[override]
        return f"{outs[0] if outs else '_'} <- {xs[0]}[{text(index, xs[1:])}]"


class Changing(OnRef):
    """An operation that changes a part of a reference, given a value."""

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_WRITE,))

    def check(
        self, ref: AbstractRef, value: Any, arrays: Sequence[ShapedArray], index: Index
    ) -> ShapedArray:
        """Return the type of the part.

        Raises: ValueError if the value has another.
        """
        _require_ref_type(self.name, ref)
        part = part_type(ref.inner_aval, index, tuple(arrays))
        if is_ref_type(value):
            raise ValueError(
                three_lines(
                    f"{self.name} of a reference {ref} at {current_source()}",
                    "Cannot store a Ref into another Ref",
                    "store what it holds: ref[...] = other[...]",
                )
            )
        for what, wanted, found in (
            ("shape", part.shape, value.shape),
            ("dtype", part.dtype, value.dtype),
        ):
            if wanted != found:
                raise ValueError(
                    three_lines(
                        f"{self.name} of a reference {ref} at {current_source()}",
                        f"Invalid {what} for `{self.name}`. Expected {what}: {wanted}. Value "
                        f"{what}: {found}.",
                        f"convert the value: jnp.broadcast_to(value, {part.shape})"
                        if what == "shape"
                        else f"convert the value: jnp.asarray(value, {dtypes.long_name(wanted)!r})",
                    )
                )
        return part


class Swap(Changing):
    """Replace a part of a reference; the result is what it was."""

    name = "swap"

    def infer(
        self, ref: AbstractRef, value: ShapedArray, *arrays: ShapedArray, index: Index
    ) -> ShapedArray:  # type: ignore[override]
        return self.check(ref, value, arrays, index)

    def on_content(self, ref: Ref, value: Any, *arrays: Any, index: Index) -> Any:  # type: ignore[override]
        before = get_p.on_content(ref, *arrays, index=index)
        _store(ref, _updated(ref, value, index, arrays, adding=False))
        return before

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:  # type: ignore[override]
        part = f"{xs[0]}[{text(index, xs[2:])}]"
        return f"{outs[0]}, {part} <- {part}, {xs[1]}" if outs else f"{part} <- {xs[1]}"


class AddUpdate(Changing):
    """Add to a part of a reference."""

    name = "addupdate"
    multiple = True

    def infer(
        self, ref: AbstractRef, value: ShapedArray, *arrays: ShapedArray, index: Index
    ) -> list[ShapedArray]:  # type: ignore[override]
        self.check(ref, value, arrays, index)
        return []

    def on_content(self, ref: Ref, value: Any, *arrays: Any, index: Index) -> Any:  # type: ignore[override]
        _store(ref, _updated(ref, value, index, arrays, adding=True))
        return []

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:  # type: ignore[override]
        return f"{xs[0]}[{text(index, xs[2:])}] += {xs[1]}"


class Freeze(Primitive):
    """Read all of a reference, which is not used again."""

    name = "freeze"
    takes_refs = True

    def bind(self, *args: Any, **params: Any) -> Any:
        (ref,) = args
        if type(state.trace) is StagingTrace and ref.owner is state.trace and ref.variable:
            return super().bind(ref)
        return content_of(ref)

    def infer(self, ref: AbstractRef) -> ShapedArray:  # type: ignore[override]
        return ref.inner_aval

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))


new_ref_p = NewRef()
get_p = Get()
swap_p = Swap()
addupdate_p = AddUpdate()
freeze_p = Freeze()


def _updated(ref: Ref, value: Any, index: Index, arrays: Sequence[Any], *, adding: bool) -> Any:
    if not index:
        return add(ref.content, value) if adding else value
    content = ref.content
    found = window(ref.shape, index, arrays)
    if found is None:
        at = content.at[joined(index, arrays)]
        return at.add(value) if adding else at.set(value)
    # An integer beyond the end means the last element, as for reading; in an array, none.
    starts, sizes = found
    value = reshape(value, sizes)
    if adding:
        value = add(dynamic_slice_p.bind(content, *starts, slice_sizes=tuple(sizes)), value)
    return dynamic_update_slice_p.bind(content, value, *starts)


def _store(ref: Ref, new: Any) -> None:
    if isinstance(new, Tracer) and not _is_within(new, ref):
        raise _moving(ref) if isinstance(new, JVPTracer) else _mapped(ref)
    ref.is_own = False
    ref.content = _of_type(new, ref.aval.inner_aval)


def _is_within(x: Tracer, ref: Ref) -> bool:
    """Tell whether a value exists wherever a reference does."""
    trace = ref.owner
    while trace is not None:
        if trace is x.owner or (isinstance(trace, BatchTrace) and _same_map(trace, x.owner)):
            return True
        trace = trace.parent
    return False


def _same_map(a: BatchTrace, b: Any) -> bool:
    return isinstance(b, BatchTrace) and a.tag is b.tag


def _of_type(x: Any, aval: ShapedArray) -> Any:
    if isinstance(x, (ConcreteArray, Tracer)) and x.aval == aval:
        return x
    if not isinstance(x, Tracer):
        x = as_array(x)
    if x.aval.with_(weak_type=False) == aval.with_(weak_type=False) and (
        x.aval.weak_type == aval.weak_type or dtypes.is_extended(aval.dtype)
    ):
        return x
    return convert_element_type(x, aval.dtype, weak_type=aval.weak_type)


def _moving(ref: Ref) -> ValueError:
    return ValueError(
        three_lines(
            f"write to a reference {ref.aval} under differentiation at {current_source()}",
            "performing a set/swap operation with a differentiated value on a non-differentiated "
            "array reference: it was made outside the differentiated function",
            "make the reference inside the function; or write lax.stop_gradient(value)",
        )
    )


def _mapped(ref: Ref) -> ValueError:
    return ValueError(
        three_lines(
            f"write to a reference {ref.aval} under vmap at {current_source()}",
            "performing a set/swap operation with vmapped value on an unbatched array reference: "
            "all examples would write to one place",
            "pass the reference as an argument that is mapped; or return the values, and write "
            "them outside",
        )
    )


def _require_ref_type(what: str, aval: Any) -> None:
    if not is_ref_type(aval):
        raise ValueError(
            three_lines(
                f"{what} of {aval} at {current_source()}",
                f"`{what}` must be called on a reference, got a value of type {aval}",
                "make one: ref = kiln.new_ref(value)",
            )
        )


# What users call.


@api_boundary
def new_ref(init_val: Any, *, memory_space: Any = None, kind: Any = None) -> Ref:
    """Return a new reference that holds an array.

    `ref[...]` reads it, `ref[...] = x` replaces it, `ref[index] = x` a part of it; in jitted
    functions and loops too. `kind` is accepted and means nothing.

    Raises: TypeError unless the value is an array or a number, NotImplementedError for a
        `memory_space`.
    Source: the documentation of `jax.new_ref`.
    Example:
        >>> total = kiln.new_ref(0)
        >>> @kiln.jit
        ... def count(total, x):
        ...     total[...] += x
        >>> count(total, 2), count(total, 3), total
        (None, None, Ref(5, dtype=int32, weak_type=True))
    """
    if memory_space is not None:
        raise NotImplementedError(
            three_lines(
                f"new_ref(..., memory_space={memory_space!r:.40}) at {current_source()}",
                "references are kept where arrays are",
                "leave memory_space out",
            )
        )
    return new_ref_p.bind(_array(init_val, "new_ref"))


@api_boundary
def get(ref: Ref, idx: Any = None) -> Any:
    """Return a part of what a reference holds: `ref[idx]`; by default all of it.

    An integer that is out of bounds is an error if it is known, and means the nearest element if
    not; likewise the integers of an array.

    Raises: ValueError unless `ref` is a reference; what `ref[idx]` raises.
    Source: the documentation of `jax.ref.get`.
    Example:
        >>> kiln.ref.get(kiln.new_ref(jnp.arange(5)), slice(1, 3))
        Array([1, 2], dtype=int32)
    """
    index, arrays = _index("get", ref, idx)
    return get_p.bind(ref, *arrays, index=index)


@api_boundary
def set(ref: Ref, idx: Any, value: Any) -> None:
    """Replace a part of what a reference holds: `ref[idx] = value`.

    The value has the part's shape and dtype; a Python number, the same kind.

    Raises: ValueError unless it does, and under vmap or differentiation where the value belongs to
        an example, or moves, and the reference does not.
    Source: the documentation of `jax.ref.set`.
    Example:
        >>> ref = kiln.new_ref(jnp.zeros(3))
        >>> kiln.ref.set(ref, 1, 10.0)
        >>> ref
        Ref([ 0., 10.,  0.], dtype=float32)
    """
    index, arrays = _index("set", ref, idx)
    _write(ref, _value(swap_p, ref, value, index, arrays), index, arrays)


def _write(ref: Ref, value: Any, index: Index, arrays: Sequence[Any]) -> None:
    found = reach(ref)
    if found.is_mapped:
        raise _mapped(ref)
    if found.has_content:
        # What was there is not needed.
        _store(ref, _updated(ref, value, index, arrays, adding=False))
    else:
        swap_p.bind(ref, value, *arrays, index=index)


@api_boundary
def swap(ref: Ref, idx: Any, value: Any) -> Any:
    """Replace a part of what a reference holds, and return what it was.

    Raises: what `set` raises.
    Source: the documentation of `jax.ref.swap`.
    Example:
        >>> ref = kiln.new_ref(jnp.arange(3))
        >>> kiln.ref.swap(ref, 2, 10), ref
        (Array(2, dtype=int32), Ref([ 0,  1, 10], dtype=int32))
    """
    index, arrays = _index("swap", ref, idx)
    value = _value(swap_p, ref, value, index, arrays)
    return swap_p.bind(ref, value, *arrays, index=index)


@api_boundary
def addupdate(ref: Ref, idx: Any, x: Any) -> None:
    """Add to a part of what a reference holds; repeated elements are added to repeatedly.

    Raises: what `set` raises.
    Source: the documentation of `jax.ref.addupdate`.
    Example:
        >>> ref = kiln.new_ref(jnp.zeros(3))
        >>> kiln.ref.addupdate(ref, jnp.array([0, 0]), jnp.ones(2))
        >>> ref
        Ref([2., 0., 0.], dtype=float32)
    """
    index, arrays = _index("addupdate", ref, idx)
    value = _value(addupdate_p, ref, x, index, arrays)
    addupdate_p.bind(ref, value, *arrays, index=index)


@api_boundary
def freeze(ref: Ref) -> Any:
    """Return what a reference holds; the reference is not to be used again.

    Raises: ValueError unless `ref` is a reference.
    Source: the documentation of `jax.ref.freeze`.
    Example:
        >>> kiln.ref.freeze(kiln.new_ref(jnp.ones(2)))
        Array([1., 1.], dtype=float32)
    """
    _require_ref("freeze", ref)
    return freeze_p.bind(ref)


@api_boundary
def free_ref(ref: Ref) -> None:
    """Accept a reference that is not used again: memory is released by itself.

    Raises: ValueError unless `ref` is a reference.
    """
    _require_ref("free_ref", ref)


@api_boundary
def empty_ref(ty: Any, memory_space: Any = None) -> Ref:
    """Return a new reference of the type of a `ShapeDtypeStruct`; what it holds is zero.

    Raises: NotImplementedError for a `memory_space`.
    Example:
        >>> kiln.ref.empty_ref(kiln.ShapeDtypeStruct((2,), jnp.int32))
        Ref([0, 0], dtype=int32)
    """
    return new_ref(np.zeros(ty.shape, ty.dtype), memory_space=memory_space)


def _require_ref(what: str, ref: Any) -> None:
    if not isinstance(ref, Ref):
        raise ValueError(
            three_lines(
                f"ref.{what} at {current_source()}",
                f"Can only call `{what}` on a `Ref`: {ref!r:.60}",
                "make one: ref = kiln.new_ref(value)",
            )
        )


def _index(what: str, ref: Any, idx: Any) -> tuple[Index, list[Any]]:
    _require_ref(what, ref)
    index, arrays = parts_of(ref.shape, idx)
    if index and reach(ref).has_content:
        check_within(ref.shape, index, arrays)
    return index, arrays


_NUMBERS = frozenset((bool, int, float, complex))
"""What becomes a literal of the program."""


def _array(x: Any, what: str) -> Any:
    if isinstance(x, (Tracer, ConcreteArray, bool, int, float, complex, np.generic, np.ndarray)):
        return x if isinstance(x, Tracer) else as_array(x)
    if hasattr(x, "__jax_array__"):
        return x.__jax_array__()
    raise TypeError(
        three_lines(
            f"{what} at {current_source()}",
            f"a reference holds one array, got a value of type {type(x)}",
            "pass an array or a number; for a tree of them, jax.tree.map(kiln.new_ref, tree)",
        )
    )


def _value(
    primitive: Changing, ref: Ref, value: Any, index: Index, arrays: Sequence[Any]
) -> Any:
    if not isinstance(value, Ref):
        if type(value) not in _NUMBERS:
            value = _array(value, primitive.name)
        aval, dtype = aval_of(value), ref.dtype
        if aval.weak_type and any(
            dtypes.issubdtype(dtype, kind) and dtypes.issubdtype(aval.dtype, kind)
            for kind in (np.floating, np.integer)
        ):
            fits = type(value) in _NUMBERS
            value = dtype.type(value) if fits else convert_element_type(value, dtype)
    primitive.check(ref.aval, aval_of(value), [aval_of(x) for x in arrays], index)
    return value


set_ref_access(get, set, addupdate)
