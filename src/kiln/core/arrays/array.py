"""Array: the concrete arrays that users hold.

A concrete array is on the first device; one that is committed or elsewhere is a `PlacedArray`. Only
this file knows how they store their data: a buffer in an engine's memory, a host view of it, or
both; other modules use the functions at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np

from kiln import _runtime
from kiln.base import dtypes
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.lazy import array_display, array_errors, display, dlpack, pyarrow
from kiln.base.options.config import options
from kiln.base.pickled import pickled_as, reduced
from kiln.base.process.identity import process_index
from kiln.base.signals import forgotten
from kiln.base.source import current_source
from kiln.core.array_type import Array
from kiln.core.arrays.read_tracking import READ_TRACKERS, note_read
from kiln.core.arrays.shards import Shard, is_all_here, shards_of
from kiln.core.arrays.text import outline, printable, representation
from kiln.core.arrays.transfers import explicit, sent
from kiln.core.concretization import refuse_keys
from kiln.core.engines.engine import Buffer, Memory, default_engine, default_sharding
from kiln.core.operators import ArrayOperators
from kiln.ir.shardings.formats import Format, format_of
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray, plain

T = TypeVar("T")


class ConcreteArray(_runtime.ArrayData, ArrayOperators):
    """An array with a value."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    # Another thread may delete, donate or move the array at any time. Everything that is used is
    # therefore read from its fields once and held; the runtime updates related fields together.

    def _held(self) -> tuple[Any, Buffer, Memory | None]:
        """Return the view of the values or None, and a buffer with its memory or None.

        Raises: RuntimeError if the array was deleted.
        """
        found = self._data()
        if found[0] is None and found[1] is None:
            raise self._gone()
        return found

    def _gone(self) -> RuntimeError:
        gone: RuntimeError = array_errors.deleted(self.aval)
        return gone

    def _ask(self, question: Callable[..., T], memory: Memory, buffer: Buffer, *about: Any) -> T:
        """Query the memory about a buffer, which another thread may have donated meanwhile."""
        try:
            return question(buffer, *about)
        except JaxRuntimeError:
            if memory.is_deleted(buffer):
                raise self._gone() from None
            raise

    def is_deleted(self) -> bool:
        """Tell whether the array's memory was donated or freed."""
        host, buffer, memory = self._data()
        if host is not None:
            return False
        if buffer is None or memory is None:
            return True
        return memory.is_deleted(buffer)

    def delete(self) -> None:
        """Release the memory; any later use of the values raises RuntimeError.

        It is freed once it is no longer in use: views, shards and running calls keep it alive.
        """
        self._let_go()

    def is_ready(self) -> bool:
        """Tell whether the values have been computed."""
        _, buffer, memory = self._held()
        if buffer is None or memory is None:
            return True
        if memory.is_ready(buffer):
            return True
        if memory.is_deleted(buffer) and self._host is None:
            raise self._gone()
        return False

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the values have been computed, and return the array."""
        _, buffer, memory = self._held()
        if buffer is not None and memory is not None:
            self._ask(memory.wait, memory, buffer)
        return self

    def copy_to_host_async(self) -> None:
        """Start copying to the host; on the CPU the values are already there."""
        self._held()

    def _scalar(self, conversion: str) -> Any:
        value = numbers_of(self, conversion)
        if value.ndim:
            raise array_errors.not_scalar(self.aval, conversion)
        return value

    def __bool__(self) -> bool:
        value = numbers_of(self, "bool")
        if value.size != 1:
            raise array_errors.ambiguous(self.aval, value.size)
        return bool(value.reshape(()))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __index__(self) -> int:
        value = numbers_of(self, "operator.index")
        if value.ndim or value.dtype.kind not in "iu":
            raise array_errors.not_index(self.aval)
        return int(value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        forgotten.check()
        value = numbers_of(self, "np.asarray")
        if dtype is not None and np.dtype(dtype) != value.dtype:
            return value.astype(dtype)
        return value.copy() if copy else value

    def item(self, *args: int) -> Any:
        """Return one element as a Python scalar."""
        try:
            return numbers_of(self, "item").item(*args)
        except (ValueError, IndexError) as error:
            raise array_errors.no_item(self.aval, args, error) from None

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return numbers_of(self, "tolist").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        """Return the raw bytes."""
        return numbers_of(self, "tobytes").tobytes(order)  # type: ignore[arg-type]

    def unsafe_buffer_pointer(self) -> int:
        """Return the address of the first element.

        Raises: ValueError for an array on several devices.
        """
        self._held()
        if len(self.sharding.devices) > 1:
            raise array_errors.no_single_address(self.aval, len(self.sharding.devices))
        while True:
            host, buffer, memory = self._held()
            if buffer is not None and memory is not None:
                return self._ask(memory.pointer, memory, buffer)
            if not options().engine:
                return int(host_value(self).ctypes.data)
            # A separate buffer, which programs may reuse if the array is donated to them.
            home = default_engine().memory
            self._settle(buffer, home.put(host, self.sharding), home, False)

    # Placement.

    @property
    def sharding(self) -> Sharding:
        """The sharding: which device holds which part of the array."""
        note_read(self)
        return default_sharding()

    @property
    def format(self) -> Format:
        """The order of the axes in memory, and the sharding."""
        return format_of(self.shape, self.sharding)

    @property
    def committed(self) -> bool:
        """Whether the array was explicitly placed, so that programs run where it is."""
        note_read(self)
        return False

    def devices(self) -> set[Any]:
        """Return the devices the array lives on."""
        return set(self.sharding.device_set)

    @property
    def device(self) -> Any:
        """The device, or the sharding of an array on several devices."""
        sharding = self.sharding
        return sharding.devices[0] if len(sharding.devices) == 1 else sharding

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds the whole array."""
        return self.sharding.is_fully_replicated

    @property
    def is_fully_addressable(self) -> bool:
        """Whether all shards are on devices of this process."""
        return self.sharding.is_fully_addressable

    @property
    def addressable_shards(self) -> list[Shard]:
        """The shards on the devices of this process."""
        return shards_of(self.sharding, self.shape, shard_arrays(self))

    @property
    def global_shards(self) -> list[Shard]:
        """The shards on all devices; the data of those of other processes are None."""
        return shards_of(self.sharding, self.shape, shard_arrays(self), everywhere=True)

    def addressable_data(self, index: int) -> ConcreteArray:
        """Return one shard as an array on its device."""
        return shard_arrays(self)[index]

    def _read(self, buffer: Buffer, memory: Memory) -> np.ndarray:
        try:
            return memory.get(buffer)
        except JaxRuntimeError:
            if memory.is_deleted(buffer):
                raise self._gone() from None
            raise

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise array_errors.immutable(self.aval)

    def __repr__(self) -> str:
        here = self._is_all_here()
        return representation(host_value(self), self.aval) if here else outline(self.aval)

    def _is_all_here(self) -> bool:
        return True

    def _repr_html_(self) -> str | None:
        # On None, notebooks fall back to `repr`, which says what became of the array.
        if self.is_deleted() or not self._is_all_here():
            return None
        shown: str = array_display.array_html(host_value(self), self.aval, self.sharding)
        return shown

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        display.pretty(repr(self), printer)

    def __arrow_array__(self, type: Any = None) -> Any:
        return pyarrow.array(np.asarray(self), type=type)

    def __treescope_ndarray_adapter__(self) -> Any:
        return array_display.ADAPTER

    def __str__(self) -> str:
        here = self._is_all_here()
        return str(printable(host_value(self), self.aval)) if here else outline(self.aval)

    def __format__(self, spec: str) -> str:
        value: Any = printable(host_value(self), self.aval) if spec else str(self)
        return format(value if self.aval.shape or not spec else value[()], spec)

    # One copy may be donated while the other is in use.

    def __copy__(self) -> ConcreteArray:
        return copied(self)

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        return copied(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced("Array", host_value(self), plain(self.aval))

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        return dlpack.capsule_of(
            np.asarray(self),
            stream=stream,
            max_version=max_version,
            dl_device=dl_device,
            copy=copy,
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return (dlpack.HOST, 0)


class PlacedArray(ConcreteArray):
    """An array that is on another device, on several, or committed to the first one."""

    __slots__ = ()

    @property
    def sharding(self) -> Sharding:
        """The sharding: which device holds which part of the array."""
        note_read(self)
        place: Sharding = self._sharding
        return place

    @property
    def committed(self) -> bool:
        """Whether the array was explicitly placed, so that programs run where it is."""
        note_read(self)
        return self._committed

    def _is_all_here(self) -> bool:
        return is_all_here(self._sharding, self.ndim)

    def _read(self, buffer: Buffer, memory: Memory) -> np.ndarray:
        if len(self._sharding.devices) == 1:
            return self._ask(memory.get, memory, buffer)
        if not self._is_all_here():
            raise array_errors.elsewhere(self.aval, process_index())
        return self._ask(memory.whole, memory, buffer, self._sharding, self.shape)


Array.register(ConcreteArray)
_runtime.set_array_classes(ConcreteArray, PlacedArray)


@explicit
@pickled_as("Array")
def _unpickled(value: Any, aval: Any) -> ConcreteArray:
    """Return the array of a pickle, checking that its type matches its values."""
    if type(value) is np.ndarray and isinstance(aval, ShapedArray):
        physical = aval.physical()
        if value.shape == physical.shape and value.dtype == physical.dtype:
            return from_host(np.ascontiguousarray(value).reshape(value.shape), aval)
    asked = f"unpickling of an array of type {aval} at {current_source()}"
    wrong = f"the pickle is corrupted: it holds a {type(value).__name__:.60} of another type"
    raise ValueError(three_lines(asked, wrong, "pickle the array again"))


def from_host(
    value: np.ndarray, aval: ShapedArray | None = None, *, is_sent: bool = True
) -> ConcreteArray:
    """Create an array from host data that stays unmodified: copy what a user may modify."""
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    aval = aval or ShapedArray(value.shape, value.dtype)
    opts = options()
    if not opts.plain_places:
        if is_sent and opts.guards_transfers:
            sent(value)
        if opts.default_device is not None:
            place = SingleDeviceSharding(opts.default_device)
            return PlacedArray(aval, value, None, None, place, False)
    return ConcreteArray(aval, value)


def host_value(x: ConcreteArray) -> np.ndarray:
    """Return a read-only NumPy view of the values (physical ones for extended dtypes); may wait."""
    if READ_TRACKERS:
        note_read(x)
    value: np.ndarray | None = x._host
    if value is not None:
        return value
    # As `_held`, without a call: this is how results are read.
    value, buffer, memory = x._data()
    if value is None:
        if buffer is None or memory is None:
            raise x._gone()
        value = x._read(buffer, memory)
        if value.dtype == np.bool_ and x.aval.dtype == dtypes.float0:
            # Engines may hold booleans for elements that have no bytes.
            value = np.zeros(value.shape, dtypes.float0)
        x._note(buffer, value)
    return value


def numbers_of(x: ConcreteArray, asked: str) -> np.ndarray:
    """Return the `host_value`, but raise TypeError for keys, which are not numbers."""
    if type(x.aval.dtype) is dtypes.KeyDtype:
        refuse_keys(x.aval, asked)
    return host_value(x)


# NumPy asks for a buffer, and drops the error if there is none.
_runtime.set_host_value(host_value, forgotten.noting(host_value))


def buffer_for(x: ConcreteArray, memory: Memory) -> Buffer:
    """Return the array's buffer of the given memory, moving the data there once if needed.

    For arrays that are not placed.
    """
    _, buffer, home = x._held()
    if home is memory and buffer is not None:
        return buffer
    if memory.buffers_are_ndarrays:
        return host_value(x)
    made = memory.adopt(host_value(x))
    x._settle(buffer, made, memory, True)
    return made


def buffer_at(x: ConcreteArray, memory: Memory, sharding: Sharding) -> Buffer:
    """Return a buffer with the array's values in a sharding: the array's own buffer if it fits."""
    _, buffer, home = x._held()
    if type(x) is PlacedArray and x._sharding.is_equivalent_to(sharding, x.ndim):
        if buffer is not None and home is memory:
            return buffer
        made = memory.put(host_value(x), sharding)
        x._settle(buffer, made, memory, True)
        return made
    if type(x) is ConcreteArray and sharding.devices == (memory.devices()[0],):
        return buffer_for(x, memory)
    if (
        type(x) is PlacedArray
        and buffer is not None
        and home is memory
        and len(x._sharding.devices) == len(sharding.devices) == 1
    ):
        return x._ask(memory.moved, memory, buffer, x.aval, sharding)
    if not x._is_all_here():
        raise array_errors.cannot_move(x.aval, x.sharding, sharding)
    return memory.put(host_value(x), sharding)


def _own_buffer(x: ConcreteArray, memory: Memory) -> Buffer:
    if x._is_all_here():
        return memory.put(host_value(x), x._sharding)
    parts = [memory.put(np.array(host_value(p)), p.sharding) for p in shard_arrays(x)]
    return memory.join(x.aval, x._sharding, parts)


_runtime.set_buffer_at(buffer_at, _own_buffer)


def part_like(x: ConcreteArray, other: ConcreteArray) -> ConcreteArray:
    """Mark an array that may share the buffer of `x` as a shard of another one if `x` is."""
    if x._is_part:
        other._note_part()
    return other


def copied(x: ConcreteArray) -> ConcreteArray:
    """Return a copy of an array, on the same devices, in its own memory."""
    _, _, memory = x._held()
    if type(x) is PlacedArray and memory is not None:
        # A view could become the memory of the new array.
        here = x._is_all_here()
        buffer = (
            memory.put(np.array(host_value(x)), x._sharding) if here else _own_buffer(x, memory)
        )
        return PlacedArray(x.aval, None, buffer, memory, x._sharding, x._committed)
    return from_host(np.array(host_value(x)), x.aval, is_sent=False)


def shard_arrays(x: ConcreteArray) -> list[ConcreteArray]:
    """Return the shards of an array, each on its device."""
    host, buffer, memory = x._held()
    devices = x.sharding.devices
    home = memory or default_engine().memory
    if len(devices) == 1:
        alone = SingleDeviceSharding(devices[0])
        return [part_like(x, PlacedArray(x.aval, host, buffer, memory, alone, x.committed))]
    aval = plain(x.aval).with_(shape=x.sharding.shard_shape(x.shape))
    here = [devices[i] for i in x.sharding.addressable_order]
    parts = x._ask(home.shards, home, buffer_at(x, home, x.sharding), x.sharding)
    found = [
        PlacedArray(aval, None, part, home, SingleDeviceSharding(device), True)
        for device, part in zip(here, parts, strict=True)
    ]
    for part in found:
        part._note_part()
    return list(found)


def with_type(x: ConcreteArray, aval: ShapedArray) -> ConcreteArray:
    """Return an array with the same memory and another type (weak-type flag, or a view as keys)."""
    host, buffer, memory = x._held()
    # Uses of the new array are not tracked.
    note_read(x)
    if type(x) is PlacedArray:
        return part_like(x, PlacedArray(aval, host, buffer, memory, x._sharding, x._committed))
    return part_like(x, ConcreteArray(aval, host, buffer, memory))


def shares_memory(x: ConcreteArray, y: ConcreteArray) -> bool:
    """Tell whether two arrays are the same object or share a buffer."""
    buffer = x._buffer
    return x is y or (buffer is not None and buffer is y._buffer)
