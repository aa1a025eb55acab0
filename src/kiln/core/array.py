"""Array: what users hold.

A concrete array is on the first device; one with a place of its own is a `PlacedArray`. Only this
file knows how they keep their data: an engine's buffer, a host view of it, or both; other modules
ask through the functions at the end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln import _runtime
from kiln.base import dtypes
from kiln.base.config import options
from kiln.base.errors import three_lines
from kiln.base.signals import forgotten
from kiln.base.source import current_source
from kiln.core.concretization import refuse_keys
from kiln.core.dlpack import HOST, capsule_of
from kiln.core.engine import Buffer, Engine, default_engine, default_sharding
from kiln.core.operators import Array, ArrayOperators, method, operators
from kiln.core.shards import Shard, assembled, shards_of
from kiln.core.watching import WATCHES, note_look
from kiln.ir.sharding import Sharding, SingleDeviceSharding, require_fit
from kiln.ir.types import ShapedArray

_DELETED = "Array has been deleted"


class ConcreteArray(_runtime.ArrayData, ArrayOperators):
    """An array with a value."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]

    trace = method("trace")

    def is_deleted(self) -> bool:
        """Tell whether the array's memory was given away or freed."""
        if self._host is not None:
            return False
        if self._buffer is None or self._engine is None:
            return True
        return self._engine.is_deleted(self._buffer)

    def delete(self) -> None:
        """Free the memory; any later use of the values raises RuntimeError."""
        if self._buffer is not None and self._engine is not None:
            self._engine.delete(self._buffer)
        self._host = self._buffer = None

    def is_ready(self) -> bool:
        """Tell whether the values have been computed."""
        self._check()
        if self._buffer is None or self._engine is None:
            return True
        return self._engine.is_ready(self._buffer)

    def block_until_ready(self) -> ConcreteArray:
        """Wait until the values have been computed, and return the array."""
        self._check()
        if self._buffer is not None and self._engine is not None:
            self._engine.wait(self._buffer)
        return self

    def copy_to_host_async(self) -> None:
        """Start copying to the host; on the CPU the values are there already."""
        self._check()

    def _check(self) -> None:
        if self._host is None and self._buffer is None:
            raise RuntimeError(
                three_lines(
                    f"use of an array {self.aval} at {current_source()}",
                    f"{_DELETED}: its memory was donated or freed",
                    "keep a copy with x.copy() before donating or deleting x",
                )
            )

    def _scalar(self, conversion: str) -> Any:
        value = numbers_of(self, conversion)
        if value.ndim:
            raise TypeError(
                three_lines(
                    f"{conversion}() of an array {self.aval} at {current_source()}",
                    "Only scalar arrays can be converted to Python scalars; "
                    f"got arr.ndim={value.ndim}",
                    "index one element first",
                )
            )
        return value

    def __bool__(self) -> bool:
        value = numbers_of(self, "bool")
        if value.size != 1:
            count = "no" if value.size == 0 else "more than one"
            raise ValueError(
                three_lines(
                    f"bool() of an array {self.aval} at {current_source()}",
                    f"The truth value of an array with {count} element is ambiguous",
                    "use .any() or .all()",
                )
            )
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
            asked = f"use of an array {self.aval} as an index at {current_source()}"
            wrong = "only integer scalar arrays can be converted to a scalar index"
            raise TypeError(three_lines(asked, wrong, "convert one element: int(x[0])"))
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
            asked = f"item of {self.aval} at {current_source()}"
            remedy = "name one element, as in x.item(0), or use x.tolist()"
            raise type(error)(three_lines(asked, str(error), remedy)) from None

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
        self._check()
        if len(self.sharding.devices) > 1:
            raise ValueError(
                three_lines(
                    f"unsafe_buffer_pointer() of an array {self.aval} at {current_source()}",
                    f"the array lives on {len(self.sharding.devices)} devices",
                    "ask one of x.addressable_shards: shard.data.unsafe_buffer_pointer()",
                )
            )
        if self._buffer is None or self._engine is None:
            # Memory of the engine's own, which programs may reuse if the array is donated to them.
            home = default_engine()
            self._buffer, self._engine = home.put(host_value(self), self.sharding), home
            self._host = None
        return self._engine.pointer(self._buffer)

    # Where it lives.

    @property
    def sharding(self) -> Sharding:
        """Where the parts of the array live."""
        note_look(self)
        return default_sharding()

    @property
    def committed(self) -> bool:
        """Whether the array was put where it is on purpose, so that programs come to it."""
        note_look(self)
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
        """Whether all parts are on devices of this process."""
        return self.sharding.is_fully_addressable

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on the devices of this process."""
        return shards_of(self.sharding, self.shape, parts_of(self))

    @property
    def global_shards(self) -> list[Shard]:
        """The parts on all devices."""
        return self.addressable_shards

    def addressable_data(self, index: int) -> ConcreteArray:
        """Return one part as an array on its device."""
        return parts_of(self)[index]

    def _read(self) -> np.ndarray:
        assert self._engine is not None
        return self._engine.get(self._buffer)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise TypeError(
            three_lines(
                f"assignment to an item of an array {self.aval} at {current_source()}",
                "kiln arrays are immutable and do not support item assignment",
                "write x = x.at[idx].set(y) instead of x[idx] = y",
            )
        )

    def __repr__(self) -> str:
        return _representation(self)

    def __str__(self) -> str:
        return str(_printable(self))

    def __format__(self, spec: str) -> str:
        return format(_printable(self)[()] if not self.aval.shape else _printable(self), spec)

    def __copy__(self) -> ConcreteArray:
        return self

    def __deepcopy__(self, memo: Any) -> ConcreteArray:
        self._check()
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickle, (host_value(self), self.aval)

    def __dlpack__(self, **wishes: Any) -> Any:
        return capsule_of(np.asarray(self), **wishes)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (HOST, 0)


class PlacedArray(ConcreteArray):
    """An array with a place of its own: another device, several, or the first one on purpose."""

    __slots__ = ()

    @property
    def sharding(self) -> Sharding:
        """Where the parts of the array live."""
        note_look(self)
        place: Sharding = self._sharding
        return place

    @property
    def committed(self) -> bool:
        """Whether the array was put where it is on purpose, so that programs come to it."""
        note_look(self)
        return self._committed

    def _read(self) -> np.ndarray:
        assert self._engine is not None
        if len(self._sharding.devices) == 1:
            return self._engine.get(self._buffer)
        parts = self._engine.shards(self._buffer, self._sharding)
        return assembled(self._sharding, self.shape, parts, self._engine.get)


Array.register(ConcreteArray)
_runtime.set_array_classes(ConcreteArray, PlacedArray)


def _unpickle(value: Any, aval: Any) -> ConcreteArray:
    """Return the array of a pickle, which may be spoilt: its type must be that of its values."""
    if type(value) is np.ndarray and isinstance(aval, ShapedArray):
        physical = aval.physical()
        if value.shape == physical.shape and value.dtype == physical.dtype:
            return from_host(np.ascontiguousarray(value).reshape(value.shape), aval)
    asked = f"unpickling of an array of type {aval} at {current_source()}"
    wrong = f"the pickle is spoilt: it holds a {type(value).__name__:.60} of another type"
    raise ValueError(three_lines(asked, wrong, "pickle the array again"))


def _printable(x: ConcreteArray) -> np.ndarray:
    value = host_value(x)
    if dtypes.is_extended(x.aval.dtype):
        # A key shows its two words, the low half of the element first.
        return np.stack([value.astype(np.uint32), (value >> 32).astype(np.uint32)], axis=-1)
    return value


def _representation(x: ConcreteArray) -> str:
    value = _printable(x)
    dtype = dtypes.long_name(x.aval.dtype)
    if dtypes.is_extended(x.aval.dtype):
        shape = ", ".join(map(str, x.aval.shape)) + ("," if len(x.aval.shape) == 1 else "")
        return f"Array(({shape}), dtype={dtype}) overlaying:\n{value}"
    weak = ", weak_type=True" if x.aval.weak_type else ""
    if value.size == 0:
        return f"Array([], shape={value.shape}, dtype={dtype}{weak})"
    body = np.array2string(
        value,
        separator=", ",
        prefix="Array(",
        suffix=f", dtype={dtype}{weak})",
        threshold=np.get_printoptions()["threshold"],
    )
    return f"Array({body}, dtype={dtype}{weak})"


def from_host(value: np.ndarray, aval: ShapedArray | None = None) -> ConcreteArray:
    """Make an array of host data that nobody will write to again.

    The caller gives the memory up; copy first what a user may still change.
    """
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    aval = aval or ShapedArray(value.shape, value.dtype)
    device = options().default_device
    if device is not None:
        return PlacedArray(aval, value, None, None, SingleDeviceSharding(device), False)
    return ConcreteArray(aval, value)


def host_value(x: ConcreteArray) -> np.ndarray:
    """Return a read-only NumPy view of the values (physical ones for extended dtypes); may wait."""
    if WATCHES:
        note_look(x)
    value = x._host
    if value is None:
        x._check()
        value = x._host = x._read()
    return value


def numbers_of(x: ConcreteArray, asked: str) -> np.ndarray:
    """Return what `host_value` does; raise TypeError for keys, which are no numbers."""
    if type(x.aval.dtype) is dtypes.KeyDtype:
        refuse_keys(x.aval, asked)
    return host_value(x)


# NumPy asks for a buffer, and forgets why there is none.
_runtime.set_host_value(host_value, forgotten.noting(host_value))
_runtime.set_operator_table(operators)


def buffer_for(x: ConcreteArray, engine: Engine) -> Buffer:
    """Return the array's buffer of the given engine, moving the data there once if needed.

    For arrays without a place of their own.
    """
    if x._engine is engine and x._buffer is not None:
        return x._buffer
    if engine.host_memory:
        return host_value(x)
    buffer = engine.adopt(host_value(x))
    x._buffer, x._engine = buffer, engine
    return buffer


def buffer_at(x: ConcreteArray, engine: Engine, sharding: Sharding) -> Buffer:
    """Return a buffer of the engine with the array's values, cut as told; the array's own if so."""
    x._check()
    if type(x) is PlacedArray and x._sharding.is_equivalent_to(sharding, x.ndim):
        if x._buffer is None or x._engine is not engine:
            x._buffer, x._engine = engine.put(host_value(x), sharding), engine
        return x._buffer
    if type(x) is ConcreteArray and sharding.devices == (engine.devices()[0],):
        return buffer_for(x, engine)
    if (
        type(x) is PlacedArray
        and x._buffer is not None
        and x._engine is engine
        and len(x._sharding.devices) == len(sharding.devices) == 1
    ):
        return engine.moved(x._buffer, x.aval, sharding)
    return engine.put(host_value(x), sharding)


_runtime.set_buffer_at(buffer_at)


def placed(
    x: ConcreteArray, engine: Engine, sharding: Sharding, *, committed: bool = True
) -> ConcreteArray:
    """Return an array with the same values somewhere else.

    Raises: ValueError if the array cannot be cut this way.
    """
    require_fit(sharding, x.shape, f"array {x.aval} placed by {sharding} at {current_source()}")
    return from_placed([x.aval], [buffer_at(x, engine, sharding)], engine, [sharding], committed)[0]


def from_placed(
    avals: Sequence[ShapedArray],
    buffers: Sequence[Buffer],
    engine: Engine,
    shardings: Sequence[Sharding],
    committed: bool,
) -> list[ConcreteArray]:
    """Make arrays of buffers with a place of their own."""
    return [
        PlacedArray(a, None, b, engine, s, committed)
        for a, b, s in zip(avals, buffers, shardings, strict=True)
    ]


def copied(x: ConcreteArray) -> ConcreteArray:
    """Return an array with the same values, at the same place, in memory of its own."""
    if type(x) is PlacedArray and x._engine is not None:
        # A view could become the memory of the new array.
        buffer = x._engine.put(np.array(host_value(x)), x._sharding)
        return PlacedArray(x.aval, None, buffer, x._engine, x._sharding, x._committed)
    return from_host(np.array(host_value(x)), x.aval)


def unplaced(x: ConcreteArray) -> ConcreteArray:
    """Return an array with the same values on the first device."""
    return ConcreteArray(x.aval, host_value(x)) if type(x) is PlacedArray else x


def parts_of(x: ConcreteArray) -> list[ConcreteArray]:
    """Return the parts of an array, each on its device."""
    x._check()
    devices = x.sharding.devices
    home = x._engine or default_engine()
    if len(devices) == 1:
        here = SingleDeviceSharding(devices[0])
        return [PlacedArray(x.aval, x._host, x._buffer, x._engine, here, True)]
    aval = x.aval.with_(shape=x.sharding.shard_shape(x.shape))
    parts = home.shards(buffer_at(x, home, x.sharding), x.sharding)
    return [
        PlacedArray(aval, None, part, home, SingleDeviceSharding(device), True)
        for device, part in zip(devices, parts, strict=True)
    ]


def joined(
    aval: ShapedArray, engine: Engine, sharding: Sharding, parts: Sequence[ConcreteArray]
) -> ConcreteArray:
    """Make one array of its parts, in the order of the sharding's devices, without a copy."""
    buffers = [
        buffer_at(part, engine, SingleDeviceSharding(device))
        for part, device in zip(parts, sharding.devices, strict=True)
    ]
    whole = buffers[0] if len(buffers) == 1 else engine.join(aval, sharding, buffers)
    return from_placed([aval], [whole], engine, [sharding], True)[0]


def with_type(x: ConcreteArray, aval: ShapedArray) -> ConcreteArray:
    """Return an array with the same memory and another type (weakness, or a view as key)."""
    x._check()
    # What becomes of the new array is not followed.
    note_look(x)
    if type(x) is PlacedArray:
        return PlacedArray(aval, x._host, x._buffer, x._engine, x._sharding, x._committed)
    return ConcreteArray(aval, x._host, x._buffer, x._engine)


def shares_memory(x: ConcreteArray, y: ConcreteArray) -> bool:
    """Tell whether two arrays are one, or have one buffer."""
    return x is y or (x._buffer is not None and x._buffer is y._buffer)
