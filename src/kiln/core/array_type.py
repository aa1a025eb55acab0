"""`Array`: the type that users name, with the signatures of its operators and methods.

At run time the operators and methods come from `ArrayOperators`, which looks them up in a table
installed by a higher layer. Editors and type checkers see the declarations here instead.
"""

from __future__ import annotations

import abc
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.operators import ArrayOperators
from kiln.ir.sizes.size import Dim


class Array(ArrayOperators, metaclass=abc.ABCMeta):
    """A kiln array, concrete or traced. Create one with `kiln.numpy.array`.

    Example:
        >>> isinstance(jnp.zeros(2), jnp.ndarray), isinstance(np.zeros(2), jnp.ndarray)
        (True, False)
    """

    def __init__(self) -> None:
        raise TypeError(
            three_lines(
                f"Array(...) at {current_source()}",
                "Array is abstract: it is there for isinstance and annotations",
                "make arrays with kiln.numpy.array(...)",
            )
        )

    if TYPE_CHECKING:
        __hash__ = None  # type: ignore[assignment]

        def __add__(self, other: ArrayLike, /) -> Array: ...
        def __radd__(self, other: ArrayLike, /) -> Array: ...
        def __sub__(self, other: ArrayLike, /) -> Array: ...
        def __rsub__(self, other: ArrayLike, /) -> Array: ...
        def __mul__(self, other: ArrayLike, /) -> Array: ...
        def __rmul__(self, other: ArrayLike, /) -> Array: ...
        def __truediv__(self, other: ArrayLike, /) -> Array: ...
        def __rtruediv__(self, other: ArrayLike, /) -> Array: ...
        def __floordiv__(self, other: ArrayLike, /) -> Array: ...
        def __rfloordiv__(self, other: ArrayLike, /) -> Array: ...
        def __mod__(self, other: ArrayLike, /) -> Array: ...
        def __rmod__(self, other: ArrayLike, /) -> Array: ...
        def __divmod__(self, other: ArrayLike, /) -> tuple[Array, Array]: ...
        def __rdivmod__(self, other: ArrayLike, /) -> tuple[Array, Array]: ...
        def __pow__(self, other: ArrayLike, /) -> Array: ...
        def __rpow__(self, other: ArrayLike, /) -> Array: ...
        def __matmul__(self, other: ArrayLike, /) -> Array: ...
        def __rmatmul__(self, other: ArrayLike, /) -> Array: ...
        def __and__(self, other: ArrayLike, /) -> Array: ...
        def __rand__(self, other: ArrayLike, /) -> Array: ...
        def __or__(self, other: ArrayLike, /) -> Array: ...
        def __ror__(self, other: ArrayLike, /) -> Array: ...
        def __xor__(self, other: ArrayLike, /) -> Array: ...
        def __rxor__(self, other: ArrayLike, /) -> Array: ...
        def __lshift__(self, other: ArrayLike, /) -> Array: ...
        def __rlshift__(self, other: ArrayLike, /) -> Array: ...
        def __rshift__(self, other: ArrayLike, /) -> Array: ...
        def __rrshift__(self, other: ArrayLike, /) -> Array: ...
        def __lt__(self, other: ArrayLike, /) -> Array: ...
        def __le__(self, other: ArrayLike, /) -> Array: ...
        def __gt__(self, other: ArrayLike, /) -> Array: ...
        def __ge__(self, other: ArrayLike, /) -> Array: ...
        def __eq__(self, other: Any, /) -> Array: ...  # type: ignore[override]
        def __ne__(self, other: Any, /) -> Array: ...  # type: ignore[override]
        def __neg__(self) -> Array: ...
        def __pos__(self) -> Array: ...
        def __abs__(self) -> Array: ...
        def __invert__(self) -> Array: ...
        def __round__(self, ndigits: int | None = None, /) -> Array: ...
        def __getitem__(self, index: Any, /) -> Array: ...
        def __iter__(self) -> Iterator[Array]: ...
        def __bool__(self) -> bool: ...
        def __int__(self) -> int: ...
        def __float__(self) -> float: ...
        def __complex__(self) -> complex: ...
        def __index__(self) -> int: ...
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray: ...
        def __dlpack__(
            self,
            *,
            stream: Any = None,
            max_version: tuple[int, int] | None = None,
            dl_device: tuple[int, int] | None = None,
            copy: bool | None = None,
        ) -> Any: ...
        def __dlpack_device__(self) -> tuple[int, int]: ...

        @property
        def T(self) -> Array:
            """The array with its axes reversed."""

        @property
        def mT(self) -> Array:
            """The array with its last two axes exchanged."""

        @property
        def real(self) -> Array:
            """The real part."""

        @property
        def imag(self) -> Array:
            """The imaginary part."""

        @property
        def flat(self) -> Array:
            """The elements in row-major order."""

        @property
        def at(self) -> Updates:
            """Functional updates: `x.at[index].set(y)`."""

        @property
        def format(self) -> Any:
            """The order of the axes in memory, and the sharding."""

        @property
        def sharding(self) -> Any:
            """Where the parts of the array live."""

        @property
        def committed(self) -> bool:
            """Whether the array was placed explicitly, so that programs run where it is."""

        @property
        def device(self) -> Any:
            """The device, or the sharding of an array on several devices."""

        @property
        def is_fully_replicated(self) -> bool:
            """Whether each device holds the whole array."""

        @property
        def is_fully_addressable(self) -> bool:
            """Whether all parts are on devices of this process."""

        @property
        def addressable_shards(self) -> list[Any]:
            """The parts on the devices of this process."""

        def all(self, axis: Axes = None, *, keepdims: bool = False, where: Mask = None) -> Array:
            """Tell whether all elements along axes are true."""

        def any(self, axis: Axes = None, *, keepdims: bool = False, where: Mask = None) -> Array:
            """Tell whether any element along axes is true."""

        def argmax(self, axis: int | None = None, *, keepdims: bool | None = None) -> Array:
            """Return the index of the largest element."""

        def argmin(self, axis: int | None = None, *, keepdims: bool | None = None) -> Array:
            """Return the index of the smallest element."""

        def argpartition(self, kth: int, axis: int = -1) -> Array:
            """Return the indices that would partition the array."""

        def argsort(
            self, axis: int | None = -1, *, stable: bool = True, descending: bool = False
        ) -> Array:
            """Return the indices that would sort the array."""

        def astype(self, dtype: DTypeLike, copy: bool = False, device: Any = None) -> Array:
            """Convert to another dtype."""

        def block_until_ready(self) -> Array:
            """Wait until the values have been computed, and return the array."""

        def byteswap(self) -> Array:
            """Reverse the bytes of each element."""

        def choose(self, choices: Any, *, mode: str = "raise") -> Array:
            """Pick elements from arrays, by number."""

        def clip(self, min: ArrayLike | None = None, max: ArrayLike | None = None) -> Array:
            """Limit the values to an interval."""

        def compress(
            self, condition: ArrayLike | Sequence[Any], axis: int | None = None, **options: Any
        ) -> Array:
            """Keep the slices along an axis at which the condition holds."""

        def conj(self) -> Array:
            """Return the complex conjugate."""

        def conjugate(self) -> Array:
            """Return the complex conjugate."""

        def copy(self, order: str | None = None) -> Array:
            """Return a copy."""

        def copy_to_host_async(self) -> None:
            """Start copying to the host."""

        def cumprod(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
            """Return the cumulative product."""

        def cumsum(self, axis: int | None = None, dtype: DTypeLike | None = None) -> Array:
            """Return the cumulative sum."""

        def delete(self) -> None:
            """Free the memory; any later use of the values raises RuntimeError."""

        def devices(self) -> set[Any]:
            """Return the devices the array lives on."""

        def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
            """Return a diagonal."""

        def dot(self, b: ArrayLike, *, precision: Any = None) -> Array:
            """Return the dot product with another array."""

        def flatten(self, order: str = "C") -> Array:
            """Return the elements as an array with one axis."""

        def is_deleted(self) -> bool:
            """Tell whether the array's memory was donated or freed."""

        def is_ready(self) -> bool:
            """Tell whether the values have been computed."""

        def item(self, *args: int) -> Any:
            """Return one element as a Python scalar."""

        def max(self, axis: Axes = None, **options: Any) -> Array:
            """Return the largest element along axes."""

        def mean(
            self,
            axis: Axes = None,
            dtype: DTypeLike | None = None,
            *,
            keepdims: bool = False,
            where: Mask = None,
        ) -> Array:
            """Average over axes."""

        def min(self, axis: Axes = None, **options: Any) -> Array:
            """Return the smallest element along axes."""

        def nonzero(self, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
            """Return the indices of the elements that are not zero, one array per axis."""

        def prod(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
            """Multiply over axes."""

        def ptp(self, axis: Axes = None, *, keepdims: bool = False) -> Array:
            """Return the largest minus the smallest element along axes."""

        def ravel(self, order: str = "C") -> Array:
            """Return the elements as an array with one axis."""

        def repeat(
            self, repeats: Any, axis: int | None = None, *, total_repeat_length: int | None = None
        ) -> Array:
            """Repeat the elements."""

        def reshape(
            self,
            *shape: Any,
            order: str = "C",
            copy: bool | None = None,
            out_sharding: Any = None,
        ) -> Array:
            """Return the elements in another shape, given as one tuple or as several sizes."""

        def round(self, decimals: int = 0) -> Array:
            """Round to a number of decimals."""

        def searchsorted(
            self, v: ArrayLike, side: str = "left", sorter: ArrayLike | None = None
        ) -> Array:
            """Return where values would have to be inserted to keep the array sorted."""

        def sort(
            self, axis: int | None = -1, *, stable: bool = True, descending: bool = False
        ) -> Array:
            """Return the elements sorted along an axis."""

        def squeeze(self, axis: Axes = None) -> Array:
            """Drop axes of size 1."""

        def std(self, axis: Axes = None, **options: Any) -> Array:
            """Return the standard deviation over axes."""

        def sum(self, axis: Axes = None, dtype: DTypeLike | None = None, **options: Any) -> Array:
            """Sum over axes."""

        def swapaxes(self, axis1: int, axis2: int) -> Array:
            """Exchange two axes."""

        def take(self, indices: ArrayLike, axis: int | None = None, **options: Any) -> Array:
            """Pick elements by their index along an axis."""

        def to_device(self, device: Any, /, *, stream: Any = None) -> Array:
            """Return the array on another device."""

        def tobytes(self, order: str = "C") -> bytes:
            """Return the raw bytes."""

        def tolist(self) -> Any:
            """Return the elements as nested lists."""

        def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, **options: Any) -> Array:
            """Sum a diagonal."""

        def transpose(self, *axes: Any) -> Array:
            """Reorder the axes, given as one tuple or as several numbers; reverse them for none."""

        def var(self, axis: Axes = None, **options: Any) -> Array:
            """Return the variance over axes."""

        def view(self, dtype: DTypeLike | None = None) -> Array:
            """Return the same bits as another dtype."""


def _found_on_the_array(name: str) -> Any:
    def found(self: Any, *args: Any, **options: Any) -> Any:
        return getattr(self, name)(*args, **options)

    found.__name__ = name
    return found


# Methods of concrete arrays only, also called on the class: `Array.item(x)`.
for _name in ("addressable_data", "copy_to_host_async", "item"):
    setattr(Array, _name, _found_on_the_array(_name))
for _name in (
    "addressable_shards",
    "committed",
    "device",
    "global_shards",
    "is_fully_addressable",
    "is_fully_replicated",
    "sharding",
):
    setattr(Array, _name, property(operator.attrgetter(_name)))


class Update(Protocol):
    """The signature of `x.at[index].set` and related methods."""

    def __call__(
        self,
        values: ArrayLike,
        *,
        indices_are_sorted: bool = ...,
        unique_indices: bool = ...,
        mode: Any = ...,
        wrap_negative_indices: bool = ...,
    ) -> Array:
        """Return the array with the part changed."""


class PartUpdates(Protocol):
    """The methods of `x.at[index]`, each of which returns a new array."""

    set: Update
    add: Update
    subtract: Update
    sub: Update
    multiply: Update
    mul: Update
    divide: Update
    div: Update
    power: Update
    min: Update
    max: Update

    def get(self, **options: Any) -> Array:
        """Return the part."""

    def apply(self, func: Callable[[Array], ArrayLike], **options: Any) -> Array:
        """Apply a function to the part."""


class Updates(Protocol):
    """The type of `x.at`: index it to select the part to update."""

    def __getitem__(self, index: Any, /) -> PartUpdates: ...


class HasDType(Protocol):
    """An object with a dtype."""

    @property
    def dtype(self) -> Any:
        """The dtype."""


class HasShape(HasDType, Protocol):
    """A description of an array, such as a `ShapeDtypeStruct`."""

    @property
    def shape(self) -> Any:
        """The shape."""


ArrayLike = Array | np.ndarray | np.generic | bool | int | float | complex
"""What array functions accept: kiln and NumPy arrays, and numbers, but not lists."""
DTypeLike = str | type | np.dtype[Any] | HasDType
"""Anything that denotes a dtype."""
Arrays = Array | np.ndarray | Sequence[ArrayLike]
"""Arrays to join: a sequence, or an array that is split along its first axis."""
ShapeLike = Dim | Sequence[Dim]
"""Anything that denotes a shape: the sizes of the axes, or the size of the only one."""
Axes = int | Sequence[int] | None
"""The axes of a reduction; None means all."""
Mask = ArrayLike | None
"""Which elements take part; None means all."""
