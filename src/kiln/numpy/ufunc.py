"""Elementwise functions with methods: reduce, accumulate, outer, at.

The functions of kiln.numpy that NumPy calls
ufuncs stay plain functions, get the methods as attributes, as in `add.reduce(x)`, and are instances
of `ufunc`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.lazy import loops
from kiln.base.source import current_source
from kiln.numpy.creation.arrays import asarray, cast
from kiln.numpy.creation.filling import full
from kiln.numpy.elements import arithmetic, bitwise, elementary, logic
from kiln.numpy.elements.arithmetic import refuse_out
from kiln.numpy.elements.logic import choose_by
from kiln.numpy.indexing.taking import at as at_
from kiln.numpy.promotion import one, operands, shape_of
from kiln.numpy.reductions import reductions
from kiln.numpy.reductions.cumulative import cumprod, cumsum
from kiln.numpy.shapes import broadcast_to, canonical_axes, moveaxis, ravel
from kiln.ops.counting import iota
from kiln.ops.indexing.static_slicing import concatenate, index_in_dim, slice_in_dim
from kiln.ops.shape import expand_dims


class _Kind(type):
    """The class of `ufunc`, of which plain functions with its methods are instances, too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or any(instance is fun for fun in _PLAIN)


class ufunc(metaclass=_Kind):
    """A function of `nin` scalars, applied element by element.

    Example:
        >>> jnp.add.reduce(jnp.arange(4)), jnp.multiply.outer(jnp.arange(2), jnp.arange(3)).shape
        (Array(6, dtype=int32), (2, 3))
    """

    nin = property(lambda self: self._nin, doc="The number of operands.")
    nout = property(lambda self: self._nout, doc="The number of results.")
    nargs = property(lambda self: self._nin, doc="The number of arguments.")
    identity = property(lambda self: self._identity, doc="What changes no other operand.")
    _func = property(lambda self: self._fun, doc="The function of scalars.")

    def __init__(
        self,
        func: Callable[..., Any],
        nin: int,
        nout: int,
        *,
        identity: Any = None,
        call: Callable[..., Any] | None = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: str | None = None,
    ) -> None:
        self._fun = func
        self._nin = nin
        self._nout = nout
        self._identity = identity
        self._call = call or func
        self._reduce = reduce
        self._accumulate = accumulate
        self._at = at
        self.__name__ = getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__

    def __eq__(self, other: object) -> bool:
        return type(other) is ufunc and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self._func, self._nin, self._nout, self._identity)

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply the function to arrays that broadcast."""
        refuse_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError(
                f"{self.__name__}(..., where=...) at {current_source()}\n"
                "the 'where' argument is not supported\nuse where"
            )
        return self._call(*args)

    def __repr__(self) -> str:
        return f"<kiln.numpy.ufunc '{self.__name__}'>"

    def _check_binary(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(
                three_lines(
                    f"{self.__name__}.{method} at {current_source()}",
                    f"{method} only supported for binary ufuncs with single output",
                    "use a function of two arguments",
                )
            )

    def reduce(
        self,
        a: Any,
        axis: Any = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = None,
    ) -> Any:
        """Reduce the elements along axes with the function."""
        self._check_binary("reduce")
        refuse_out(f"{self.__name__}.reduce", out)
        a = one(self.__name__, a)
        if self._reduce is not None:
            options: dict[str, Any] = {"keepdims": keepdims}
            if initial is not None:
                options["initial"] = initial
            if where is not None:
                options["where"] = where
            if dtype is not None:
                a = cast(a, asarray(0, dtype).dtype)
            return self._reduce(a, axis, **options)
        start = initial if initial is not None else self.identity
        if where is not None and start is None:
            raise self._without_identity(
                "reduce(..., where=...)", "give initial, or leave where out"
            )
        axes = range(a.ndim) if axis is None else canonical_axes("reduce", axis, a.ndim)
        if dtype is not None:
            a = cast(a, asarray(0, dtype).dtype)
        result = self._folded(a, tuple(axes), start, where)
        return expand_dims(result, tuple(axes)) if keepdims else result

    def _without_identity(self, method: str, remedy: str) -> ValueError:
        return ValueError(
            three_lines(
                f"{self.__name__}.{method} at {current_source()}",
                f"the reduction operation {self.__name__!r} does not have an identity",
                remedy,
            )
        )

    def _folded(self, a: Any, axes: tuple[int, ...], start: Any, where: Any) -> Any:
        """Combine elements along axes in order, from `start` or the first of them.

        Raises: ValueError if there are no elements and nothing to start from.
        """
        rest = [d for d in range(a.ndim) if d not in axes]

        def in_front(x: Any) -> Any:
            count = math.prod(a.shape[d] for d in axes)
            return x.transpose((*axes, *rest)).reshape((count, *(a.shape[d] for d in rest)))

        moved = in_front(a)
        counts = None if where is None else in_front(broadcast_to(where, a.shape))
        if start is not None:
            start = full(moved.shape[1:], start, moved.dtype)
        elif moved.shape[0] == 0:
            raise self._without_identity("reduce of no elements", "give initial")
        else:
            start, moved = index_in_dim(moved, 0, 0, keepdims=False), slice_in_dim(moved, 1, None)

        def step(carry: Any, item: Any) -> Any:
            x, counted = item
            found = cast(self._call(carry, x), carry.dtype)
            return found if counted is None else choose_by(counted, found, carry), None

        return loops.scan(step, start, (moved, counts))[0]

    def reduceat(
        self, a: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None
    ) -> Any:
        """Reduce from each index to the next; the element at an index that is not before it.

        Shapes: (..., n, ...), (m,) -> (..., m, ...)
        Raises: ValueError for indices of more than one axis, TypeError for several axes.
        """
        self._check_binary("reduceat")
        refuse_out(f"{self.__name__}.reduceat", out)
        a, indices = one(self.__name__, a), one(self.__name__, indices)
        if indices.ndim != 1 or a.ndim < 1:
            raise ValueError(
                three_lines(
                    f"{self.__name__}.reduceat({a.aval}, {indices.aval}) at {current_source()}",
                    "reduceat: indices must be one-dimensional, and a have 1 or more dimension",
                    "reshape them",
                )
            )
        (axis,) = canonical_axes("reduceat", operator.index(axis), a.ndim)
        if dtype is not None:
            a = cast(a, asarray(0, dtype).dtype)
        moved = moveaxis(a, axis, 0)
        if indices.shape[0] == 0:
            return moveaxis(slice_in_dim(moved, 0, 0), 0, axis)
        size = moved.shape[0]
        ends = concatenate([slice_in_dim(indices, 1, None), full((1,), size, indices.dtype)], 0)
        shape = (-1,) + (1,) * (moved.ndim - 1)

        def step(carry: Any, item: Any) -> Any:
            k, x = item
            inside = ((indices < k) & (k < ends)).reshape(shape)
            found = cast(self._call(carry, broadcast_to(x, carry.shape)), carry.dtype)
            return choose_by(inside, found, carry), None

        result, _ = loops.scan(step, at_(moved)[indices].get(), (iota(indices.dtype, size), moved))
        return moveaxis(result, 0, axis)

    def accumulate(self, a: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        """Return all intermediate results of combining the elements along an axis."""
        self._check_binary("accumulate")
        refuse_out(f"{self.__name__}.accumulate", out)
        a = one(self.__name__, a)
        if dtype is not None:
            a = cast(a, asarray(0, dtype).dtype)
        if self._accumulate is not None:
            return self._accumulate(a, axis)
        a = moveaxis(a, axis, 0)

        def step(carry: Any, x: Any) -> Any:
            found = cast(self._call(carry, x), carry.dtype)
            return found, found

        if a.shape[0] == 0:
            return moveaxis(a, 0, axis)
        first = index_in_dim(a, 0, 0, keepdims=False)
        _, rest = loops.scan(step, first, slice_in_dim(a, 1, None))
        return moveaxis(concatenate([expand_dims(first, (0,)), rest], 0), 0, axis)

    def outer(self, A: Any, B: Any, /) -> Any:
        """Apply the function to all pairs of elements."""
        self._check_binary("outer")
        x, y = (one(self.__name__, v) for v in operands(self.__name__, A, B))
        spread = expand_dims(x, range(len(x.shape), len(x.shape) + len(y.shape)))
        return self._call(spread, expand_dims(y, range(len(x.shape))))

    def at(self, a: Any, indices: Any, b: Any = None, /, *, inplace: bool = True) -> Any:
        """Return a copy with the function applied at indices; `inplace` must be False."""
        if inplace:
            raise NotImplementedError(
                three_lines(
                    f"{self.__name__}.at(..., inplace=True) at {current_source()}",
                    "arrays are immutable",
                    "pass inplace=False and use the result",
                )
            )
        a = one(self.__name__, a)
        place = at_(a)[indices]
        if self.nin == 1:
            return place.apply(self._call)
        if self._at is not None:
            return getattr(place, self._at)(b)
        # Repeated indices are applied one after another.
        numbers = asarray(range(a.size)).reshape(a.shape)[indices]
        values = ravel(cast(asarray(b), a.dtype) + full(shape_of(numbers), 0, a.dtype))

        def step(flat: Any, item: Any) -> Any:
            i, value = item
            return at_(flat)[i].set(cast(self._call(flat[i], value), flat.dtype)), None

        flat, _ = loops.scan(step, ravel(a), (ravel(numbers), values))
        return flat.reshape(a.shape)


_METHODS: tuple[tuple[Any, dict[str, Any]], ...] = (
    (
        arithmetic.add,
        {"identity": 0, "reduce": reductions.sum, "accumulate": cumsum, "at": "add"},
    ),
    (
        arithmetic.multiply,
        {"identity": 1, "reduce": reductions.prod, "accumulate": cumprod, "at": "multiply"},
    ),
    (arithmetic.subtract, {"at": "subtract"}),
    (arithmetic.maximum, {"reduce": reductions.max, "at": "max"}),
    (arithmetic.minimum, {"reduce": reductions.min, "at": "min"}),
    (logic.logical_and, {"identity": True, "reduce": reductions.all}),
    (logic.logical_or, {"identity": False, "reduce": reductions.any}),
    (logic.logical_xor, {"identity": False}),
    (bitwise.bitwise_and, {"identity": -1}),
    (bitwise.bitwise_or, {"identity": 0}),
    (bitwise.bitwise_xor, {"identity": 0}),
    (arithmetic.negative, {"nin": 1}),
    (elementary.logaddexp, {"identity": -float("inf")}),
    (elementary.logaddexp2, {"identity": -float("inf")}),
)
_NAMES = (
    *("reduce", "reduceat", "accumulate", "outer", "at"),
    *("identity", "nin", "nout", "nargs", "_func"),
)
_PLAIN: list[Any] = []

for _function, _options in _METHODS:
    _ufunc = ufunc(_function, **{"nin": 2, "nout": 1, **_options})
    for _name in _NAMES:
        setattr(_function, _name, getattr(_ufunc, _name))
    _PLAIN.append(_function)
