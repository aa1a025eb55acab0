"""Elementwise functions with methods: reduce, accumulate, outer, at.

`frompyfunc` makes one from any function of scalars. The functions of kiln.numpy that NumPy calls
ufuncs stay plain functions, and get the methods as attributes: `add.reduce(x)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.control.loops import scan
from kiln.numpy import arithmetic, bitwise, logic, reductions
from kiln.numpy.application import vectorize
from kiln.numpy.arithmetic import refuse_out
from kiln.numpy.creation import asarray, cast
from kiln.numpy.cumulative import cumprod, cumsum
from kiln.numpy.filling import full
from kiln.numpy.indexing import at as at_
from kiln.numpy.logic import choose_by
from kiln.numpy.manipulation import canonical_axes, moveaxis, one, ravel
from kiln.numpy.promotion import operands, shape_of
from kiln.ops.shape import expand_dims
from kiln.ops.static_slicing import concatenate, index_in_dim, slice_in_dim


class ufunc:
    """A function of `nin` scalars, applied element by element."""

    def __init__(
        self,
        func: Callable[..., Any],
        nin: int,
        nout: int,
        *,
        identity: Any = None,
        reduce: Callable[..., Any] | None = None,
        accumulate: Callable[..., Any] | None = None,
        at: str | None = None,
    ) -> None:
        self.func = func
        self.nin = nin
        self.nout = nout
        self.nargs = nin + nout
        self.identity = identity
        self._reduce = reduce
        self._accumulate = accumulate
        self._at = at
        self.__name__ = getattr(func, "__name__", "ufunc")
        self.__doc__ = func.__doc__

    def __call__(self, *args: Any, out: None = None, where: None = None) -> Any:
        """Apply the function to arrays that broadcast."""
        refuse_out(self.__name__, out)
        if where is not None:
            raise NotImplementedError(
                f"{self.__name__}(..., where=...) at {current_source()}\n"
                "the 'where' argument is not supported\nuse where"
            )
        return self.func(*args)

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
        if where is not None and self.identity is None:
            raise ValueError(
                f"{self.__name__}.reduce(..., where=...) at {current_source()}\n"
                "reduction operation has no identity\n"
                "leave where out"
            )
        if where is not None:
            a = choose_by(where, a, full((), self.identity, a.dtype))
        axes = (
            tuple(range(len(a.shape))) if axis is None else canonical_axes("reduce", axis, a.ndim)
        )
        rest = [d for d in range(len(a.shape)) if d not in axes]
        moved = a.transpose((*axes, *rest))
        moved = moved.reshape((-1, *(a.shape[d] for d in rest)))
        if dtype is not None:
            moved = cast(moved, asarray(0, dtype).dtype)
        start = initial if initial is not None else self.identity
        if start is None:
            start, moved = index_in_dim(moved, 0, 0, keepdims=False), slice_in_dim(moved, 1, None)
        else:
            start = full(moved.shape[1:], start, moved.dtype)
        result, _ = scan(
            lambda carry, x: (cast(self.func(carry, x), carry.dtype), None), start, moved
        )
        return expand_dims(result, axes) if keepdims else result

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
            found = cast(self.func(carry, x), carry.dtype)
            return found, found

        first = index_in_dim(a, 0, 0, keepdims=False)
        _, rest = scan(step, first, slice_in_dim(a, 1, None))
        return moveaxis(concatenate([expand_dims(first, (0,)), rest], 0), 0, axis)

    def outer(self, A: Any, B: Any, /) -> Any:
        """Apply the function to all pairs of elements."""
        self._check_binary("outer")
        x, y = (one(self.__name__, v) for v in operands(self.__name__, A, B))
        spread = expand_dims(x, range(len(x.shape), len(x.shape) + len(y.shape)))
        return self.func(spread, expand_dims(y, range(len(x.shape))))

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
            return place.apply(self.func)
        if self._at is not None:
            return getattr(place, self._at)(b)
        # Repeated indices are applied one after another.
        numbers = asarray(range(a.size)).reshape(a.shape)[indices]
        values = ravel(cast(asarray(b), a.dtype) + full(shape_of(numbers), 0, a.dtype))

        def step(flat: Any, item: Any) -> Any:
            i, value = item
            return at_(flat)[i].set(cast(self.func(flat[i], value), flat.dtype)), None

        flat, _ = scan(step, ravel(a), (ravel(numbers), values))
        return flat.reshape(a.shape)


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> ufunc:
    """Make a ufunc from a function of scalars."""
    made = ufunc(vectorize(func), nin, nout, identity=identity)
    made.__name__ = getattr(func, "__name__", "ufunc")
    return made


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
)

for _function, _options in _METHODS:
    _ufunc = ufunc(_function, 2, 1, **_options)
    for _name in ("reduce", "accumulate", "outer", "at", "identity", "nin", "nout", "nargs"):
        setattr(_function, _name, getattr(_ufunc, _name))
