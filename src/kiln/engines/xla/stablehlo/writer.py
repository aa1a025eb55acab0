"""Writer: one function body or region of StableHLO text, operation by operation.

Methods append an operation and return `Value`s, which print as their names, so operations may also
be written as f-strings and passed to `emit`. Constants are emitted in the region that uses them:
XLA rejects reduction regions that use values from outside.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, overload

import numpy as np

from kiln.base import dtypes
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import Source
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.callbacks import HostCallback
from kiln.engines.xla.stablehlo.partition import Partition
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.types import ShapedArray


class Module(Protocol):
    """The interface of the enclosing module, implemented in `module.py`."""

    lowerings: Mapping[Any, Callable[..., Any]]
    locations: bool
    partition: Partition

    @property
    def platforms(self) -> tuple[str, ...]:
        """The target platforms."""
        ...

    def function(self, jaxpr: Jaxpr, name: str) -> str:
        """Return the symbol of the function for a jaxpr, emitting it on first use."""
        ...

    def add_callback(self, callback: HostCallback) -> int:
        """Register a host function; return its number."""
        ...

    def staged(
        self, fun: Callable[..., Any], avals: Sequence[ShapedArray], params: dict[str, Any]
    ) -> Any:
        """Record a function of kiln's operations, once for equal types and parameters."""
        ...

    def imported(
        self, program: Any, types: Sequence[ShapedArray], results: Sequence[ShapedArray]
    ) -> Any:
        """Return the function of a stored program for such operands, emitting it on first use."""
        ...


class _Token:
    """The type of a token, which is threaded through ordered effects."""

    dtype = None
    shape = ()


TOKEN: Any = _Token()
PLATFORM = "%platform"
"""The number of the platform, in programs exported for several."""
Body = Callable[..., Sequence["Value"]]
"""`body(inner, *arguments)` writes a region and returns what it yields."""


class Value(NamedTuple):
    """A value of the program under construction; prints as its name."""

    name: str
    aval: ShapedArray

    def __str__(self) -> str:
        return self.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.aval.shape  # type: ignore[return-value]

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.aval.shape)


@functools.lru_cache(maxsize=8192)
def type_of(aval: ShapedArray) -> str:
    """Return a type as text."""
    return "!stablehlo.token" if aval is TOKEN else text.tensor_type(aval)


def listed(values: Sequence[Value]) -> str:
    """Return `%0, %1`."""
    return ", ".join([v.name for v in values])


def types_of(values: Sequence[Value]) -> str:
    """Return the types of values, joined by commas."""
    return ", ".join([type_of(v.aval) for v in values])


def result_types(avals: Sequence[ShapedArray]) -> str:
    """Return the text after `->`: one type, or several in parentheses."""
    written = ", ".join([type_of(aval) for aval in avals])
    return written if len(avals) == 1 else f"({written})"


class Writer:
    """Appends operations to one body."""

    __slots__ = ("_constants", "_indent", "_numbers", "lines", "module", "source", "token")

    def __init__(
        self, module: Module, numbers: Iterator[int], *, token: Value | None = None, depth: int = 2
    ) -> None:
        self.module = module
        self.token = token
        """The token of the last ordered effect; None if the program has no ordered effects."""
        self.source: Source | None = None
        """The source location of the equation being lowered."""
        self.lines: list[str] = []
        self._numbers = numbers
        self._indent = "  " * depth
        self._constants: dict[Any, Value] = {}

    # Writing operations.

    def fresh(self, aval: ShapedArray) -> Value:
        """Return a new name of a type, for a block argument."""
        return Value(f"%{next(self._numbers)}", aval)

    @overload
    def emit(self, operation: str, out: ShapedArray) -> Value: ...

    @overload
    def emit(self, operation: str, out: Sequence[ShapedArray]) -> list[Value]: ...

    def emit(self, operation: str, out: Any) -> Any:
        """Append an operation written as text, without its result names.

        `out` is a type, for one Value; or a sequence of types, for a list of Values.
        """
        if isinstance(out, (list, tuple)):
            number = next(self._numbers)
            if len(out) == 1:
                names = [f"%{number}"]
                bound = f"%{number} = "
            else:
                names = [f"%{number}#{i}" for i in range(len(out))]
                bound = f"%{number}:{len(out)} = " if out else ""
            self._append(bound + operation)
            return [Value(name, aval) for name, aval in zip(names, out, strict=True)]
        value = Value(f"%{next(self._numbers)}", out)
        self._append(f"{value.name} = {operation}")
        return value

    def _append(self, line: str) -> None:
        if self.module.locations and self.source is not None:
            line = f"{line} loc({text.quoted(self.source.file)}:{self.source.line}:0)"
        self.lines.append(self._indent + line)

    @overload
    def op(
        self,
        name: str,
        operands: Sequence[Value],
        out: ShapedArray,
        attrs: str = "",
        regions: Sequence[str] = (),
    ) -> Value: ...

    @overload
    def op(
        self,
        name: str,
        operands: Sequence[Value],
        out: Sequence[ShapedArray],
        attrs: str = "",
        regions: Sequence[str] = (),
    ) -> list[Value]: ...

    def op(
        self,
        name: str,
        operands: Sequence[Value],
        out: Any,
        attrs: str = "",
        regions: Sequence[str] = (),
    ) -> Any:
        """Append an operation: `b.op("stablehlo.add", [x, y], x.aval)`.

        `attrs` is text such as `dimension = 0 : i64, is_stable = true`; `regions` come from
        `region`. `out` as in `emit`.
        """
        outs = out if isinstance(out, (list, tuple)) else (out,)
        types = [type_of(v.aval) for v in operands]
        results = [type_of(aval) for aval in outs]
        if attrs or regions or len(outs) != 1 or not name.startswith("stablehlo."):
            inner = f" ({', '.join(regions)})" if regions else ""
            dictionary = f" {{{attrs}}}" if attrs else ""
            written = (
                f'"{name}"({listed(operands)}){inner}{dictionary} : '
                f"({', '.join(types)}) -> {result_types(outs)}"
            )
        elif len({*types, *results}) == 1:
            written = f"{name} {listed(operands)} : {results[0]}"
        else:
            written = f"{name} {listed(operands)} : ({', '.join(types)}) -> {result_types(outs)}"
        return self.emit(written, out)

    def apply(self, name: str, *operands: Value) -> Value:
        """Append an elementwise stablehlo operation, with the first operand's type: `"add"`."""
        return self.op(f"stablehlo.{name}", operands, operands[0].aval)

    # Operations that many lowerings need.

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """Return a constant: a number filling a type, or an array of exactly that type."""
        shape, dtype = text.host_dtype(aval)
        array = np.asarray(value, dtype)
        if 0 in shape:
            written = ""
        else:
            written = text.dense(array) if array.ndim else text.scalar(array, dtype)
        key = (written, type_of(aval))
        known = self._constants.get(key)
        if known is None:
            known = self.emit(f"stablehlo.constant dense<{written}> : {key[1]}", aval)
            self._constants[key] = known
        return Value(known.name, aval)

    def like(self, value: Any, x: Value) -> Value:
        """Return a number as a constant of the type of `x`."""
        return self.constant(value, x.aval)

    def broadcast(self, x: Value, out: ShapedArray, dims: Sequence[int] = ()) -> Value:
        """Place the axes of `x` at `dims` of `out`, broadcasting those of size 1."""
        if x.shape == out.shape and list(dims) == list(range(x.ndim)):
            return x
        operation = (
            f"stablehlo.broadcast_in_dim {x}, dims = {text.int_list(dims)} : "
            f"({type_of(x.aval)}) -> {type_of(out)}"
        )
        return self.emit(operation, out)

    def fill(self, x: Value, shape: Sequence[Any]) -> Value:
        """Broadcast a scalar to a shape; return an operand of that shape unchanged."""
        return x if x.shape == tuple(shape) else self.broadcast(x, x.aval.with_(shape=shape))

    def convert(self, x: Value, dtype: Any) -> Value:
        """Convert numbers to a dtype, as XLA does (see README.md for complex and boolean)."""
        if x.dtype == dtype:
            return x
        return self.op("stablehlo.convert", [x], x.aval.with_(dtype=np.dtype(dtype)))

    def bitcast(self, x: Value, dtype: Any) -> Value:
        """Reinterpret the bits as a dtype of the same width."""
        if x.dtype == dtype:
            return x
        return self.op("stablehlo.bitcast_convert", [x], x.aval.with_(dtype=np.dtype(dtype)))

    def compare(self, direction: str, x: Value, y: Value, kind: str | None = None) -> Value:
        """Compare numbers: EQ NE LT LE GT GE. `kind` may be TOTALORDER for floats."""
        if kind is None:
            if dtypes.issubdtype(x.dtype, np.inexact):
                kind = "FLOAT"
            elif dtypes.issubdtype(x.dtype, np.signedinteger):
                kind = "SIGNED"
            else:
                kind = "UNSIGNED"
        out = ShapedArray(x.shape, np.dtype(np.bool_))
        operation = (
            f"stablehlo.compare {direction}, {x}, {y}, {kind} : "
            f"({types_of([x, y])}) -> {type_of(out)}"
        )
        return self.emit(operation, out)

    def select(self, predicate: Value, on_true: Value, on_false: Value) -> Value:
        """Take elements from `on_true` where the predicate, a scalar or an array, holds."""
        operation = (
            f"stablehlo.select {predicate}, {on_true}, {on_false} : "
            f"{type_of(predicate.aval)}, {type_of(on_true.aval)}"
        )
        return self.emit(operation, on_true.aval)

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """Reshape in row-major order."""
        out = x.aval.with_(shape=shape)
        return x if x.shape == out.shape else self.op("stablehlo.reshape", [x], out)

    def transpose(self, x: Value, permutation: Sequence[int]) -> Value:
        """Transpose: axis i of the result is axis permutation[i] of `x`."""
        out = x.aval.with_(shape=[x.shape[p] for p in permutation])
        if list(permutation) == list(range(x.ndim)):
            return x
        operation = (
            f"stablehlo.transpose {x}, dims = {text.int_list(permutation)} : "
            f"({type_of(x.aval)}) -> {type_of(out)}"
        )
        return self.emit(operation, out)

    def iota(self, out: ShapedArray, dimension: int = 0) -> Value:
        """Count along a dimension."""
        return self.emit(f"stablehlo.iota dim = {dimension} : {type_of(out)}", out)

    def slice(
        self,
        x: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Take elements start, start + stride, ... before limit along each axis."""
        steps = list(strides) if strides is not None else [1] * x.ndim
        sizes = [
            max(0, -(-(limit - start) // step))
            for start, limit, step in zip(starts, limits, steps, strict=True)
        ]
        out = x.aval.with_(shape=sizes)
        attrs = (
            f"start_indices = {text.int_array(starts)}, "
            f"limit_indices = {text.int_array(limits)}, "
            f"strides = {text.int_array(steps)}"
        )
        return self.op("stablehlo.slice", [x], out, attrs)

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
        """Take a window at dynamic starts, which are clamped."""
        attrs = f"slice_sizes = {text.int_array(sizes)}"
        return self.op("stablehlo.dynamic_slice", [x, *starts], x.aval.with_(shape=sizes), attrs)

    def gather(
        self, x: Value, indices: Value, out: ShapedArray, attrs: str, sizes: Sequence[Any]
    ) -> Value:
        """Gather windows of some sizes at indices; `attrs` are the other attributes."""
        return self.op(
            "stablehlo.gather", [x, indices], out, f"{attrs}, slice_sizes = {text.int_array(sizes)}"
        )

    def vector(self, numbers: Sequence[Any], dtype: Any) -> Value:
        """Return numbers and sizes as a vector."""
        array = np.array(numbers, dtype)
        return self.constant(array, ShapedArray(array.shape, array.dtype))

    def concatenate(self, xs: Sequence[Value], dimension: int) -> Value:
        """Join arrays along a dimension."""
        shape = list(xs[0].shape)
        shape[dimension] = sum(x.shape[dimension] for x in xs)
        out = xs[0].aval.with_(shape=shape)
        return self.op("stablehlo.concatenate", xs, out, f"dimension = {dimension} : i64")

    def pad(self, x: Value, value: Value, config: Sequence[tuple[int, int, int]]) -> Value:
        """Pad with a scalar: (low, high, interior) for each axis; negative low or high crop."""
        sizes = [
            low + high + size + max(0, size - 1) * interior
            for size, (low, high, interior) in zip(x.shape, config, strict=True)
        ]
        attrs = (
            f"edge_padding_low = {text.int_array(c[0] for c in config)}, "
            f"edge_padding_high = {text.int_array(c[1] for c in config)}, "
            f"interior_padding = {text.int_array(c[2] for c in config)}"
        )
        return self.op("stablehlo.pad", [x, value], x.aval.with_(shape=sizes), attrs)

    def reduce(
        self, xs: Sequence[Value], initial: Sequence[Value], axes: Sequence[int], body: Body
    ) -> list[Value]:
        """Reduce arrays together over axes.

        `body(inner, *accumulated, *elements)` gets and returns scalars.
        """
        scalars = [v.aval for v in initial]
        kept = [size for i, size in enumerate(xs[0].shape) if i not in set(axes)]
        return self.op(
            "stablehlo.reduce",
            [*xs, *initial],
            [x.aval.with_(shape=kept) for x in xs],
            f"dimensions = {text.int_array(axes)}",
            [self.region([*scalars, *scalars], body)],
        )

    def reduce_with(self, name: str, x: Value, initial: Any, axes: Sequence[int]) -> Value:
        """Reduce one array over axes by a binary stablehlo operation, such as `"add"`."""
        start = self.constant(initial, ShapedArray((), x.dtype))
        (out,) = self.reduce([x], [start], axes, lambda b, p, q: [b.apply(name, p, q)])
        return out

    def region(
        self,
        avals: Sequence[ShapedArray],
        body: Body,
        *,
        takes_token: bool = False,
        gives_token: bool = False,
        token: Value | None = None,
        end: str = "stablehlo.return",
    ) -> str:
        """Return a region as text: `body(inner, *arguments)` returns what the region yields.

        With `takes_token`, the first block argument is a token; with `gives_token`, the first
        result is the token after the body's ordered effects.
        """
        depth = len(self._indent) // 2
        inner = type(self)(self.module, self._numbers, token=token, depth=depth + 1)
        inner.source = self.source
        args = [inner.fresh(aval) for aval in avals]
        heads = list(args)
        if takes_token:
            inner.token = inner.fresh(TOKEN)
            heads.insert(0, inner.token)
        results = list(body(inner, *args))
        if gives_token:
            assert inner.token is not None
            results.insert(0, inner.token)
        yielded = f" {listed(results)} : {types_of(results)}" if results else ""
        inner._append(f"{end}{yielded}")
        head = ", ".join(f"{v}: {type_of(v.aval)}" for v in heads)
        label = [f"{self._indent}^bb0({head}):"] if heads else []
        return "\n".join(["{", *label, *inner.lines, self._indent + "}"])
