"""Bodies of programs with named sizes: dynamic sizes are operands.

Each named size is a scalar argument of the program's only function, and other sizes are computed
from them where needed. Operations whose sizes are attributes in StableHLO, such as window
reductions, are not supported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.errors import InconclusiveSizeError, UnsupportedPrimitive, three_lines
from kiln.base.source import place_of
from kiln.engines.xla.stablehlo import text
from kiln.engines.xla.stablehlo.builder import Builder
from kiln.engines.xla.stablehlo.writer import Value, type_of, types_of
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ir.sizes.size import Dim, Size, is_constant, maximum
from kiln.ir.types import ShapedArray

_SIZE = ShapedArray((), np.dtype(np.int32))
"""The type that sizes are computed in."""


def size_name(name: str) -> str:
    """Return the name of the scalar for a named size."""
    return "%size_" + "".join(c if c.isascii() and c.isalnum() else f"_{ord(c):x}_" for c in name)


class SizedBuilder(Builder):
    """Writes a body in which sizes may have names."""

    __slots__ = ()

    # Sizes.

    def size(self, dim: Dim) -> Value:
        """Return a size as an int32 scalar."""
        if type(dim) is not Size:
            return super().constant(int(dim), _SIZE)
        total: Value | None = None
        for monomial, factor in dim.terms:
            product: Value | None = None
            for atom in monomial:
                value = self._atom(atom)
                product = value if product is None else self.apply("multiply", product, value)
            if product is None:
                product = super().constant(factor, _SIZE)
            elif factor != 1:
                product = self.apply("multiply", product, super().constant(factor, _SIZE))
            total = product if total is None else self.apply("add", total, product)
        assert total is not None
        return total

    def _atom(self, atom: tuple[Any, ...]) -> Value:
        kind = atom[0]
        if kind == "name":
            return Value(size_name(atom[1]), _SIZE)
        if kind == "max":
            first, *others = [self.size(dim) for dim in atom[1]]
            for other in others:
                first = self.apply("maximum", first, other)
            return first
        # StableHLO's division truncates: the remainder is made nonnegative first.
        inner, divisor = self.size(atom[1]), self.size(atom[2])
        rest = self.apply("remainder", inner, divisor)
        rest = self.apply("remainder", self.apply("add", rest, divisor), divisor)
        return self.apply("divide", self.apply("subtract", inner, rest), divisor)

    def vector(self, numbers: Sequence[Any], dtype: Any) -> Value:
        """Return numbers and sizes as a vector."""
        if is_constant(numbers):
            return super().vector(numbers, dtype)
        one = ShapedArray((1,), _SIZE.dtype)
        parts = [self.op("stablehlo.reshape", [self.size(number)], one) for number in numbers]
        out = ShapedArray((len(parts),), _SIZE.dtype)
        joined = self.op("stablehlo.concatenate", parts, out, "dimension = 0 : i64")
        return self.convert(joined, dtype)

    def _vector(self, dims: Sequence[Dim]) -> Value:
        return self.vector(dims, _SIZE.dtype)

    # Operations that take sizes.

    def constant(self, value: Any, aval: ShapedArray) -> Value:
        """Return a constant: a number or a size filling a type, or an array of that type."""
        shape, dtype = text.host_dtype(aval)
        scalar = ShapedArray((), dtype)
        if type(value) is Size:
            found = self.convert(self.size(value), dtype)
        elif is_constant(shape):
            return super().constant(value, aval)
        else:
            found = super().constant(np.asarray(value).reshape(()), scalar)
        return Value(self.broadcast(found, ShapedArray(shape, dtype)).name, aval)

    def broadcast(self, x: Value, out: ShapedArray, dims: Sequence[int] = ()) -> Value:
        """Place the axes of `x` at `dims` of `out`, broadcasting those of size 1."""
        if is_constant((*x.shape, *out.shape)):
            return super().broadcast(x, out, dims)
        if x.shape == out.shape and list(dims) == list(range(x.ndim)):
            return x
        shape = self._vector(text.host_dtype(out)[0])
        return self.emit(
            f"stablehlo.dynamic_broadcast_in_dim {x}, {shape}, dims = {text.int_list(dims)} : "
            f"({types_of([x, shape])}) -> {type_of(out)}",
            out,
        )

    def reshape(self, x: Value, shape: Sequence[Any]) -> Value:
        """Reshape in row-major order."""
        out = x.aval.with_(shape=shape)
        if is_constant((*x.shape, *out.shape)) or x.shape == out.shape:
            return super().reshape(x, shape)
        sizes = self._vector(text.host_dtype(out)[0])
        return self.op("stablehlo.dynamic_reshape", [x, sizes], out)

    def iota(self, out: ShapedArray, dimension: int = 0) -> Value:
        """Count along a dimension."""
        if is_constant(out.shape):
            return super().iota(out, dimension)
        shape = self._vector(out.shape)
        return self.emit(
            f"stablehlo.dynamic_iota {shape}, dim = {dimension} : "
            f"({type_of(shape.aval)}) -> {type_of(out)}",
            out,
        )

    def slice(
        self,
        x: Value,
        starts: Sequence[Any],
        limits: Sequence[Any],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """Take elements start, start + stride, ... before limit along each axis."""
        if is_constant((*starts, *limits)):
            return super().slice(x, starts, limits, strides)
        steps = list(strides) if strides is not None else [1] * x.ndim
        sizes = [
            maximum(0, -(-(limit - start) // step))
            for start, limit, step in zip(starts, limits, steps, strict=True)
        ]
        operands = [x, self._vector(starts), self._vector(limits), self._vector(steps)]
        return self.op("stablehlo.real_dynamic_slice", operands, x.aval.with_(shape=sizes))

    def dynamic_slice(self, x: Value, starts: Sequence[Value], sizes: Sequence[Any]) -> Value:
        """Take a window at dynamic starts, which are clamped."""
        if is_constant(sizes):
            return super().dynamic_slice(x, starts, sizes)
        # Starts are clamped, as with constant sizes.
        rows = []
        one = ShapedArray((1,), _SIZE.dtype)
        for start, size, whole in zip(starts, sizes, x.shape, strict=True):
            last = self.size(whole - size)
            at = self.apply("minimum", self.convert(start, _SIZE.dtype), last)
            at = self.apply("maximum", at, super().constant(0, _SIZE))
            rows.append(self.op("stablehlo.reshape", [at], one))
        first = self.concatenate(rows, 0)
        # Because the limits are sums, XLA can infer the sizes, though it does not know the starts.
        operands = [x, first, self.apply("add", first, self._vector(sizes))]
        out = x.aval.with_(shape=sizes)
        strides = self._vector([1] * x.ndim)
        return self.op("stablehlo.real_dynamic_slice", [*operands, strides], out)

    def gather(
        self, x: Value, indices: Value, out: ShapedArray, attrs: str, sizes: Sequence[Any]
    ) -> Value:
        """Gather windows of some sizes at indices; `attrs` are the other attributes."""
        if is_constant(sizes):
            return super().gather(x, indices, out, attrs, sizes)
        return self.op("stablehlo.dynamic_gather", [x, indices, self._vector(sizes)], out, attrs)

    def pad(self, x: Value, value: Value, config: Sequence[tuple[Any, Any, int]]) -> Value:
        """Pad with a scalar: (low, high, interior) for each axis; negative low or high crop."""
        if is_constant((*x.shape, *[n for entry in config for n in entry])):
            return super().pad(x, value, config)
        sizes = [
            low + high + size + maximum(0, size - 1) * interior
            for size, (low, high, interior) in zip(x.shape, config, strict=True)
        ]
        operands = [x, value, *[self._vector([c[i] for c in config]) for i in range(3)]]
        return self.op("stablehlo.dynamic_pad", operands, x.aval.with_(shape=sizes))

    # Programs.

    def call(self, jaxpr: Jaxpr, values: Sequence[Value], name: str) -> list[Value]:
        """Inline a jaxpr: a separate function would not have the sizes."""
        return self.inline(jaxpr, values)

    def equation(self, eqn: Eqn, operands: Sequence[Value]) -> list[Value]:
        """Lower one equation.

        Raises: UnsupportedPrimitive for one that needs a constant size where the size is dynamic.
        """
        try:
            return super().equation(eqn, operands)
        except InconclusiveSizeError as error:
            size = str(error).splitlines()[0].partition(" was used")[0]
            raise UnsupportedPrimitive(
                three_lines(
                    f"{eqn.primitive.name}: operands "
                    f"{', '.join(str(v.aval) for v in operands)} at {place_of(eqn.source)}",
                    f"{eqn.primitive.name} needs a constant size, and in a program that is "
                    f"stored for all sizes it has none: {size}",
                    "export the function for constant sizes, or write this part with "
                    "operations whose sizes may vary",
                )
            ) from None
