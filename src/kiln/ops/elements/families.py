"""The elementwise family: one element of each operand in, one element out.

Operands have one shape and one dtype; scalars combine with arrays without being broadcast (`add a
1.0` on f32[3] is one equation). `partials` are the products of a tangent with the derivative with
respect to each operand: `partial(tangent, out, *primals)`. `add` and `neg` are here because rules
in every file need them; the other members are in the files that import this one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from kiln.base import dtypes
from kiln.base.docstrings import shown
from kiln.base.dtypes.kinds import MOST_KEY_WORDS
from kiln.base.errors import three_lines
from kiln.base.lazy import key_generators
from kiln.base.source import current_source
from kiln.core.absent import Zero, is_linear
from kiln.core.array_type import Array, ArrayLike
from kiln.core.primitive import Primitive
from kiln.core.trace import aval_of, is_typed, state
from kiln.execution.eager_plans import eager
from kiln.ir.shardings.sums import NOWHERE
from kiln.ir.types import ShapedArray
from kiln.ops.elements.accuracy import Accuracy, check_accuracy
from kiln.ops.elements.summaries import SUMMARIES
from kiln.ops.out_sharding import joined
from kiln.ops.out_sums import SUMS, of_elements, passed
from kiln.ops.shape import broadcast_in_dim, full_of, mapped_at, reduce_sum, scalar, to_front

Partial = Callable[..., Any]
Unary = Callable[[ArrayLike], Array]
Binary = Callable[[ArrayLike, ArrayLike], Array]
BOOL: tuple[type, ...] = (np.bool_,)
INTEGER: tuple[type, ...] = (np.integer,)
FLOAT: tuple[type, ...] = (np.floating,)
INEXACT: tuple[type, ...] = (np.inexact,)
NUMBER: tuple[type, ...] = (np.number,)
BITS: tuple[type, ...] = (np.integer, np.bool_)
REAL: tuple[type, ...] = (np.integer, np.floating, np.bool_)
ANY: tuple[type, ...] = (np.number, np.bool_)
EVERYTHING: tuple[type, ...] = (np.generic, dtypes.extended)


_ALIKE_ON_HOST = frozenset(
    ("add", "sub", "mul", "neg", "real", "imag", "conj", "complex", "eq", "ne", "select_n", "copy")
)
"""Also for complex numbers."""


class Elementwise(Primitive):
    """One element of each operand in, one element out."""

    on_host = True
    on_keys = "look"

    def __init__(
        self,
        name: str,
        meaning: Callable[..., Any],
        accepts: tuple[type, ...],
        *partials: Partial | None,
        linear: Callable[..., Any] | None = None,
        result: Callable[..., Any] | None = None,
    ) -> None:
        super().__init__(name)
        self.meaning = meaning
        self.accepts = accepts
        self.partials = partials
        self.linear = linear
        self.result = result
        self.results: dict[Any, Any] = {}

    def has(self, rule: str) -> bool:
        if rule == "jvp" and type(self).jvp is Elementwise.jvp and not self.partials:
            return rule in vars(self)
        if rule == "transpose" and type(self).transpose is Elementwise.transpose:
            return self.linear is not None or rule in vars(self)
        return super().has(rule)

    def infer(self, *xs: Any, **params: Any) -> ShapedArray:
        first = xs[0]
        dtype, shape, weak = first.dtype, first.shape, first.weak_type
        for x in xs[1:]:
            if x.dtype is not dtype and x.dtype != dtype:
                raise unequal_dtypes(self.name, xs)
            weak = weak and x.weak_type
            if x.shape and x.shape != shape:
                if shape:
                    raise incompatible_shapes(self.name, xs)
                shape = x.shape
        try:
            result = self.results[dtype]
        except KeyError:
            result = self.results[dtype] = self.result_dtype(dtype, xs)
        # Comparisons are strong: a bool is never weak.
        return ShapedArray(shape, result, weak and self.result is not to_bool)

    def result_dtype(self, dtype: Any, xs: Sequence[Any]) -> Any:
        """Return the dtype of the result.

        Raises: TypeError unless the operation is defined on the dtype.
        """
        if not any(dtypes.issubdtype(dtype, kind) for kind in self.accepts):
            accepted = ", ".join(kind.__name__ for kind in self.accepts)
            raise TypeError(
                three_lines(
                    f"{self.name}: operands {', '.join(map(str, xs))} at {current_source()}",
                    f"{self.name} does not accept dtype {dtypes.long_name(dtype)}: accepted "
                    f"dtypes are subtypes of {accepted}",
                    "convert the operand first: x.astype(...)",
                )
            )
        return dtype if self.result is None else self.result(dtype)

    def runs_on_host(self, avals: Sequence[Any]) -> bool:
        """Tell whether the NumPy meaning gives exactly the compiled results, up to signs of zeros.

        Complex functions differ at zeros, infinities and nans.
        """
        return self.on_host and (
            self.name in _ALIKE_ON_HOST
            or not any(dtypes.issubdtype(aval.dtype, np.complexfloating) for aval in avals)
        )

    def splits(self, xs: Sequence[Any], results: Sequence[Any], params: dict[str, Any]) -> Any:
        split = joined(self.name, xs)
        return [split] * len(results) if self.multiple else split

    def sums_over(self, splits: Sequence[Any], params: dict[str, Any]) -> Any:
        return None if SUMS.get(self.name) is passed else NOWHERE

    def sums(self, operands: Sequence[Any], params: dict[str, Any]) -> Any:
        return SUMS.get(self.name, of_elements)(self.name, operands)

    def numpy(self, *xs: Any, **params: Any) -> Any:
        return self.meaning(*xs, **params)

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        if not self.partials:
            raise self._missing("jvp", "it is not differentiable")
        out = self.bind(*primals, **params)
        aval = aval_of(out)
        total = None
        for partial, t in zip(self.partials, tangents, strict=True):
            if type(t) is Zero or partial is None:
                continue
            term = partial(t, out, *primals, **params)
            if type(term) is Zero:
                continue
            if aval_of(term).shape != aval.shape:
                term = broadcast_in_dim(term, aval.shape, ())
            total = term if total is None else add(total, term)
        return out, Zero(aval.tangent()) if total is None else total

    def transpose(self, ct: Any, *xs: Any, **params: Any) -> Any:
        if self.linear is None:
            return super().transpose(ct, *xs, **params)
        cts = self.linear(ct, *xs, **params)
        return [
            unbroadcast(c, x.aval) if c is not None and is_linear(x) else None
            for c, x in zip(cts, xs, strict=True)
        ]

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], **params: Any) -> Any:
        avals = [aval_of(x) for x in xs]
        ranks = [a.ndim - (at is not None) for a, at in zip(avals, axes, strict=True)]
        rank = max(ranks)
        places = {at for at in axes if at is not None}
        aligned = all(
            r == (rank if at is not None else 0) for r, at in zip(ranks, axes, strict=True)
        )
        if len(places) == 1 and aligned:
            return self.bind(*xs, **params), places.pop()
        shape = next(
            (*a.shape[:at], *a.shape[at + 1 :]) if at is not None else a.shape
            for a, at, r in zip(avals, axes, ranks, strict=True)
            if r == rank
        )
        moved = []
        for x, at, r in zip(xs, axes, ranks, strict=True):
            if r == rank:
                moved.append(mapped_at(x, size, at, 0))
            elif at is None:
                moved.append(x)
            else:
                moved.append(broadcast_in_dim(to_front(x, at), (size, *shape), (0,)))
        return self.bind(*moved, **params), 0


class Accurate(Elementwise):
    """An operation with an accuracy option in JAX; here it is always as accurate as possible."""

    def bind(self, *args: Any, accuracy: Accuracy = None, **params: Any) -> Any:
        if accuracy is not None:
            check_accuracy(self.name, accuracy)
        if state.tracked:
            return super().bind(*args, **params)
        # What `Primitive.bind` does, inlined.
        return state.trace.process(self, args, params)


class Comparison(Elementwise):
    """Equality; keys of four words, whose elements are not numbers, are compared word by word."""

    def bind(self, *args: Any, **params: Any) -> Any:
        found = {aval_of(x).dtype for x in args}
        if len(found) == 1 and getattr(found.pop(), "words", 0) == MOST_KEY_WORDS:
            return key_generators.compared(self, *args)
        return super().bind(*args, **params)


def unequal_dtypes(name: str, xs: Sequence[Any]) -> TypeError:
    """Build the error for operands whose dtypes differ."""
    no = any(x.dtype == dtypes.float0 for x in xs)
    design = "; float0s do not support any operations by design" if no else ""
    return TypeError(
        three_lines(
            f"{name}: operands {', '.join(map(str, xs))} at {current_source()}",
            f"{name} requires arguments to have equal dtypes, got "
            f"{', '.join(dtypes.long_name(x.dtype) for x in xs)}{design}",
            "convert one: x.astype(y.dtype), or use kiln.numpy, which promotes",
        )
    )


def incompatible_shapes(name: str, xs: Sequence[Any]) -> TypeError:
    """Build the error for operands with incompatible shapes."""
    return TypeError(
        three_lines(
            f"{name}: operands {', '.join(map(str, xs))} at {current_source()}",
            f"{name} got incompatible shapes for broadcasting: "
            f"{', '.join(str(tuple(x.shape)) for x in xs)}",
            "reshape or broadcast one operand so that the shapes are equal",
        )
    )


def unbroadcast(ct: Any, aval: ShapedArray) -> Any:
    """Sum the cotangent of a scalar that was combined with an array."""
    shape = aval_of(ct).shape
    if shape == aval.shape:
        return ct
    return reduce_sum(ct, range(len(shape)))


def to_bool(dtype: Any) -> Any:
    """Return the result dtype of comparisons."""
    return np.dtype(np.bool_)


_HOLDS = {bool: np.bool_, int: np.number, float: np.inexact, complex: np.complexfloating}


def _holds(dtype: Any, kind: type) -> bool:
    # A scalar of a higher kind stays as it is, and the operation rejects it: 2.5 is not an int32.
    return kind in _HOLDS and dtypes.issubdtype(dtype, _HOLDS[kind])


def matched(*xs: Any) -> Sequence[Any]:
    """Turn Python scalars among the operands into scalars of the arrays' dtype."""
    like = None
    for x in xs:
        kind = type(x)
        if kind is not float and kind is not int and kind is not bool and kind is not complex:
            like = aval_of(x)
            break
    if like is None:
        dtype, weak = dtypes.lattice_result_type(*xs)
        return [scalar(x, ShapedArray((), dtype, weak)) for x in xs]
    return [scalar(x, like) if _holds(like.dtype, type(x)) else x for x in xs]


def stretched(x: Any, y: Any) -> tuple[Any, Any]:
    """Broadcast axes of size 1 of two operands of equal rank, if that makes their shapes equal."""
    a, b = aval_of(x).shape, aval_of(y).shape
    if (
        a == b
        or len(a) != len(b)
        or not all(m == n or m == 1 or n == 1 for m, n in zip(a, b, strict=True))
    ):
        return x, y
    shape = [n if m == 1 else m for m, n in zip(a, b, strict=True)]
    axes = range(len(shape))
    return broadcast_in_dim(x, shape, axes), broadcast_in_dim(y, shape, axes)


class AccurateUnary(Protocol):
    """A function of one operand with an accuracy option."""

    def __call__(self, x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
        """Apply the function."""


def unary(primitive: Elementwise, name: str = "") -> Unary:
    """Return the function that applies a primitive to one operand, named as it or `name`."""

    def fun(x: ArrayLike) -> Array:
        return primitive.bind(x)

    return eager(_named(fun, name or primitive.name, "an array"))


def accurate_unary(primitive: Elementwise) -> AccurateUnary:
    """Return the function that applies a primitive to one operand, and checks `accuracy`."""

    def fun(x: ArrayLike, *, accuracy: Accuracy = None) -> Array:
        if accuracy is not None:
            check_accuracy(primitive.name, accuracy)
        return primitive.bind(x)

    found: AccurateUnary = eager(_named(fun, primitive.name, "an array"))
    return found


def binary(primitive: Elementwise, name: str = "") -> Binary:
    """Return the function that applies a primitive to two operands, converting Python scalars."""

    def fun(x: ArrayLike, y: ArrayLike) -> Array:
        if not (is_typed(x) and is_typed(y)):
            x, y = matched(x, y)
            if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
                x, y = stretched(x, y)
        elif x.aval.shape != y.aval.shape:
            x, y = stretched(x, y)
        return primitive.bind(x, y)

    return eager(_named(fun, name or primitive.name, "two arrays of the same dtype"))


def _named(fun: Any, name: str, args: str) -> Any:
    fun.__name__ = fun.__qualname__ = name
    # Where users find it.
    fun.__module__ = "kiln.lax"
    summary, *example = SUMMARIES.get(name, (f"Apply `{name}` element by element to {args}.",))
    fun.__doc__ = shown(summary, tuple(example))
    return fun


def full_like(x: Any, value: Any) -> Any:
    """Return an array of the type of `x` filled with a number."""
    return full_of(aval_of(x), value)


def constant(value: Any, like: Any) -> Any:
    """Return a number as a scalar of the dtype of `like`, to combine with it."""
    return scalar(value, aval_of(like))


def _linear_add(ct: Any, x: Any, y: Any) -> Any:
    return [ct if is_linear(x) else None, ct if is_linear(y) else None]


add_p = Elementwise(
    "add", np.add, NUMBER, lambda t, o, x, y: t, lambda t, o, x, y: t, linear=_linear_add
)
add: Binary = binary(add_p)
neg_p = Elementwise(
    "neg", np.negative, NUMBER, lambda t, o, x: neg(t), linear=lambda ct, x: [neg(ct)]
)
neg: Unary = unary(neg_p)
