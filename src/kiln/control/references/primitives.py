"""The primitives that make, read and change references.

Under a trace that records, each is an equation. Everywhere else a reference holds its content, and
changing it is ordinary Python; `discharge.py` turns recorded equations into operations on contents.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.control.references.index import (
    WHOLE,
    Index,
    joined,
    part_type,
    read_part,
    spans_of,
    text,
    window,
)
from kiln.core.arrays.array import ConcreteArray
from kiln.core.primitive import Primitive
from kiln.core.ref import Ref, leaked_ref
from kiln.core.staging import StagingTrace
from kiln.core.trace import Tracer, aval_of, state
from kiln.execution.compilation import as_array
from kiln.ir.effects import REF_READ, REF_WRITE, Effects
from kiln.ir.ref_type import AbstractRef, is_ref_type
from kiln.ir.types import ShapedArray
from kiln.ops.elements.conversion import convert_element_type
from kiln.ops.elements.elementwise import add
from kiln.ops.indexing.slicing import dynamic_slice_p, dynamic_update_slice_p
from kiln.ops.shape import reshape
from kiln.transforms.batching import BatchTrace
from kiln.transforms.jvp import JVPTracer


class Reach(NamedTuple):
    """How a reference is reached from the active trace."""

    has_content: bool
    """Its content is concrete: no program is being recorded in between."""
    is_mapped: bool
    """The reference is outside a `vmap` whose trace is the active one, or below it."""


def reach(ref: Ref) -> Reach:
    """Return how a reference is reached from the active trace.

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


class _Freed:
    """The owner of references that were freed."""

    live = False


FREED = _Freed()


def _outlive(ref: Ref) -> None:
    """Make a reference outlive a transformation, if its content does."""
    if ref.owner is FREED:
        raise ValueError(
            three_lines(
                f"use of a reference {ref.aval} at {current_source()}",
                "it was freed by free_ref, and holds nothing",
                "call free_ref after its last use, or not at all: memory is released by itself",
            )
        )
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
    write_part(ref, new, WHOLE, ())


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

    def infer(self, x: ShapedArray) -> AbstractRef:
        return AbstractRef(x)

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))

    def stage(self, trace: StagingTrace, args: Sequence[Any], params: dict[str, Any]) -> Ref:
        atom = trace.atom(args[0])
        aval = AbstractRef(atom.aval)
        out = trace.record(self, [atom], aval, params)
        return Ref(aval, trace, variable=out.variable)


class OnRef(Primitive):
    """An operation on a reference, the first operand."""

    takes_refs = True

    def bind(self, *args: Any, **params: Any) -> Any:
        ref = args[0]
        found = reach(ref)
        if found.is_mapped and REF_WRITE in self.effects(params):
            raise _mapped(ref, self.name)
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
        raise _mapped(xs[0], self.name)


class Get(OnRef):
    """Read a part of a reference."""

    name = "get"

    def infer(self, ref: AbstractRef, *arrays: ShapedArray, index: Index) -> ShapedArray:
        _require_ref_type(self.name, ref)
        return part_type(ref.inner_aval, index, arrays)

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))

    def on_content(self, ref: Ref, *arrays: Any, index: Index) -> Any:
        if index:
            return read_part(ref.content, index, arrays)
        ref.is_own = False
        return ref.content

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:
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
    ) -> ShapedArray:
        return self.check(ref, value, arrays, index)

    def on_content(self, ref: Ref, value: Any, *arrays: Any, index: Index) -> Any:
        before = get_p.on_content(ref, *arrays, index=index)
        _store(ref, _updated(ref, value, index, arrays, adding=False))
        return before

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:
        part = f"{xs[0]}[{text(index, xs[2:])}]"
        return f"{outs[0]}, {part} <- {part}, {xs[1]}" if outs else f"{part} <- {xs[1]}"


class AddUpdate(Changing):
    """Add to a part of a reference."""

    name = "addupdate"
    multiple = True

    def infer(
        self, ref: AbstractRef, value: ShapedArray, *arrays: ShapedArray, index: Index
    ) -> list[ShapedArray]:
        self.check(ref, value, arrays, index)
        return []

    def on_content(self, ref: Ref, value: Any, *arrays: Any, index: Index) -> Any:
        _store(ref, _updated(ref, value, index, arrays, adding=True))
        return []

    def write(self, outs: Sequence[str], xs: Sequence[str], *, index: Index) -> str:
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

    def infer(self, ref: AbstractRef) -> ShapedArray:
        return ref.inner_aval

    def effects(self, params: dict[str, Any]) -> Effects:
        return frozenset((REF_READ,))


new_ref_p = NewRef()
get_p = Get()
swap_p = Swap()
addupdate_p = AddUpdate()
freeze_p = Freeze()


def write_part(ref: Ref, value: Any, index: Index, arrays: Sequence[Any]) -> None:
    """Replace a part of what a reference holds."""
    found = reach(ref)
    if found.is_mapped:
        raise _mapped(ref)
    if found.has_content:
        # The previous content is not needed.
        _store(ref, _updated(ref, value, index, arrays, adding=False))
    else:
        swap_p.bind(ref, value, *arrays, index=index)


def _updated(ref: Ref, value: Any, index: Index, arrays: Sequence[Any], *, adding: bool) -> Any:
    if not index:
        return add(ref.content, value) if adding else value
    content = ref.content
    found = window(ref.shape, index, arrays)
    if found is None:
        return _updated_at(content, value, index, arrays, adding)
    # An integer beyond the end means the last element, as for reading; in an index array, none.
    starts, sizes = found
    value = reshape(value, sizes)
    if adding:
        value = add(dynamic_slice_p.bind(content, *starts, slice_sizes=tuple(sizes)), value)
    return dynamic_update_slice_p.bind(content, value, *starts)


def _updated_at(content: Any, value: Any, index: Index, arrays: Sequence[Any], adding: bool) -> Any:
    spans = spans_of(content.shape, index, arrays)
    if spans is None:
        at = content.at[joined(index, arrays)]
        return at.add(value) if adding else at.set(value)
    inner = dynamic_slice_p.bind(content, *spans.starts, slice_sizes=tuple(spans.sizes))
    inner = _updated_at(inner, value, spans.inner, spans.arrays, adding)
    return dynamic_update_slice_p.bind(content, inner, *spans.starts)


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
            "Move the array reference into the function, or pass it as an argument; or write "
            "lax.stop_gradient(value)",
        )
    )


def _mapped(ref: Ref, name: str = "swap") -> ValueError:
    what = "an addupdate" if name == "addupdate" else "a set/swap"
    return ValueError(
        three_lines(
            f"write to a reference {ref.aval} under vmap at {current_source()}",
            f"performing {what} operation with vmapped value on an unbatched array reference: "
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
