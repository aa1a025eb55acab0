"""Elements at a small stride: vectors of all elements, and shuffles of those that are wanted.

A gather reads one element after another, which on many processors takes as long as a loop of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.llvm.addresses import (
    Addresses,
    active_lanes,
    first_lanes,
    memory_type,
    suffix_of,
    without_constant,
)
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES
from kiln.engines.native.loop_ir.statements import Buffer, Index
from kiln.ir.sizes.size import Size

STRIDES = (2, 3, 4, 8)
ELEMENT_BYTES = (4, 8)
"""Of elements for which there are shuffles across a vector."""

LEAST_BYTES = 32
"""Of a vector: for shorter ones there is no such shuffle."""


class Window(NamedTuple):
    """A vector of consecutive elements."""

    start: int
    length: int
    """How many of its first elements may be read."""
    places: tuple[int, ...]
    """Where the wanted elements are."""


class Part(NamedTuple):
    """A vector with some of the wanted elements, and where they are."""

    name: str
    places: tuple[int, ...]


def is_shuffled(stride: int, bytes_: int, width: int) -> bool:
    """Tell whether vectors of elements at this stride are shuffled rather than gathered."""
    return stride in STRIDES and bytes_ in ELEMENT_BYTES and width * bytes_ >= LEAST_BYTES


def first_of_run(const: int, stride: int, constants: set[int]) -> int | None:
    """Return the first of `stride` consecutive constants that are all there, among them `const`."""
    first = const - (const - min(constants)) % stride
    return first if all(first + i in constants for i in range(stride)) else None


def windows(stride: int, phase: int | None, width: int, wanted: int) -> list[Window]:
    """Return vectors that hold the first wanted of the elements at `phase + i * stride`.

    Nothing after the last wanted element is read. With a phase, elements from 0 on to a multiple
    of the stride may be; without one, the first element is at 0.
    """
    first = phase or 0
    end = stride * wanted if phase is not None else (wanted - 1) * stride + 1
    all_wanted = range(first, first + wanted * stride, stride)
    found = []
    for begin in range(0, end, width):
        # The last one begins earlier if it may only be read in part, but others are before it.
        start = end - width if 0 < end - begin < width <= end and wanted == width else begin
        places = tuple(e - start for e in all_wanted if begin <= e < begin + width)
        found.append(Window(start, min(width, end - start), places))
    return found


def combined(
    parts: Sequence[Part], stride: int, width: int, shuffle: Callable[[str, str, list[int]], str]
) -> str:
    """Return the register of all elements that the parts hold, in their order, from lane 0 on.

    `shuffle` chooses lanes of two vectors. Lanes after the last element repeat it.
    """
    while stride > 1:
        if stride % 2:
            return _chained(parts, width, shuffle)
        # Of two vectors one, whose elements are at half the stride.
        stride //= 2
        merged = []
        for i in range(0, len(parts), 2):
            pair = parts[i : i + 2]
            places = [k * width + at for k, part in enumerate(pair) for at in part.places]
            lanes = [places[min(lane // stride, len(places) - 1)] for lane in range(width)]
            name = shuffle(pair[0].name, pair[1].name if len(pair) > 1 else "poison", lanes)
            merged.append(Part(name, tuple(stride * n for n in range(len(places)))))
        parts = merged
    return parts[0].name


def _chained(
    parts: Sequence[Part], width: int, shuffle: Callable[[str, str, list[int]], str]
) -> str:
    name, places = parts[0].name, list(parts[0].places)
    for part in parts[1:] or [Part("poison", ())]:
        places += [width + at for at in part.places]
        name = shuffle(name, part.name, [places[min(i, len(places) - 1)] for i in range(width)])
        places = list(range(len(places)))
    return name


def load(code: Addresses, buffer: Buffer, index: Index, mask: str) -> str | None:
    """Load elements at a small stride, those of a constant mask; None if they must be gathered.

    Lanes that the mask leaves out repeat another one.
    """
    width, bytes_ = code.width, NUMPY_TYPES[buffer.dtype].itemsize
    stride, wanted = code.stride_of(index), active_lanes(mask, width)
    if wanted is None or not is_shuffled(stride, bytes_, width):
        return None
    kind = memory_type(buffer.dtype, width)
    neighbors = code.neighbors.get((buffer, without_constant(index)))
    const, first = index.const, None
    if neighbors and not isinstance(const, Size):
        first = first_of_run(const, stride, neighbors)
    phase = None if first is None else const - first
    start = index if phase is None else index + -phase
    parts = []
    for window in windows(stride, phase, width, wanted):
        place = code.address(buffer, start + window.start)
        parts.append(Part(_first_of(code, place, kind, bytes_, window.length), window.places))
    return combined(parts, stride, width, lambda x, y, lanes: _shuffled(code, kind, x, y, lanes))


def store(code: Addresses, buffer: Buffer, index: Index, names: Sequence[str], mask: str) -> bool:
    """Store vectors whose elements take turns, the first at an index; False if it cannot."""
    width, bytes_, stride = code.width, NUMPY_TYPES[buffer.dtype].itemsize, len(names)
    wanted = active_lanes(mask, width)
    if wanted is None or code.stride_of(index) != stride:
        return False
    if not is_shuffled(stride, bytes_, width):
        return False
    kind = memory_type(buffer.dtype, width)
    for begin in range(0, stride * wanted, width):
        # Which lane of which vector each lane is; those of the vectors before are in place already.
        sources = [divmod(begin + i, stride) for i in range(width)]
        name = names[0]
        for k in range(1, stride):
            lanes = [
                width + at if turn == k else at if k == 1 else i
                for i, (at, turn) in enumerate(sources)
            ]
            name = _shuffled(code, kind, name, names[k], lanes)
        place, count = code.address(buffer, index + begin), min(width, stride * wanted - begin)
        if count == width:
            code.w.do(f"store {kind} {name}, ptr {place}, align {bytes_}")
        else:
            code.w.do(
                f"call void @llvm.masked.store.{suffix_of(kind)}.p0({kind} {name}, "
                f"ptr align {bytes_} {place}, <{width} x i1> {first_lanes(count, width)})"
            )
    return True


def _first_of(code: Addresses, place: str, kind: str, bytes_: int, count: int) -> str:
    """Load a vector of which only the first elements may be there."""
    key = (place, kind, f"first {count}")
    found = code.addresses.get(key)
    if found is None:
        if count == code.width:
            found = code.w.emit(f"load {kind}, ptr {place}, align {bytes_}")
        else:
            found = code.w.emit(
                f"call {kind} @llvm.masked.load.{suffix_of(kind)}.p0(ptr align {bytes_} {place}, "
                f"<{code.width} x i1> {first_lanes(count, code.width)}, {kind} zeroinitializer)"
            )
        code.addresses[key] = found
    return found


def _shuffled(code: Addresses, kind: str, x: str, y: str, lanes: Sequence[int]) -> str:
    order = ", ".join(f"i32 {i}" for i in lanes)
    return code.w.emit(f"shufflevector {kind} {x}, {kind} {y}, <{len(lanes)} x i32> <{order}>")
