"""Weights in fewer bits: parameters of dense and attention layers in int8 or bf16.

`int8` and `bfloat16` replace kernels in a tree of parameters by `QuantizedArray`, a pytree node.
Dense layers multiply by one without converting it first: the native engine reads the narrow numbers
from memory and converts them in registers. Other functions of arrays dequantize it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import lax, struct
from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.tree import tree_map_with_path
from kiln.base.tree.keys import keystr
from kiln.core.array_type import Array, ArrayLike

__all__ = ["QuantizedArray", "bfloat16", "dot", "dot_general", "int8"]

Where = Callable[[tuple[str, ...], Any], bool]
Contracted = Callable[[tuple[str, ...], Any], Sequence[int]]


class QuantizedArray(struct.PyTreeNode):
    """An array in few bits: `values * scale`, or `values` without a scale.

    `scale` has size 1 along the axes that a product contracts. `dtype` is that of the array.
    """

    values: Any
    scale: Any
    dtype: Any = struct.field(pytree_node=False, default=np.dtype(np.float32))

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape of the array."""
        return tuple(jnp.shape(self.values))

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    def dequantize(self, dtype: Any = None) -> Array:
        """Return the array, in its own dtype or in another one."""
        dtype = self.dtype if dtype is None else dtype
        if self.scale is None:
            return jnp.asarray(self.values, dtype)
        return jnp.asarray(jnp.asarray(self.values, self.scale.dtype) * self.scale, dtype)

    def __jax_array__(self) -> Array:
        """Return the array: any function of arrays takes it."""
        return self.dequantize()


def int8(params: Any, where: Where | None = None, contracted: Contracted | None = None) -> Any:
    """Quantize kernels to int8, symmetrically, with one scale per output channel.

    `where(path, leaf)` selects leaves: by default floats named `kernel` with two or three axes.
    `contracted(path, leaf)` returns the axes that a product sums over, where scales have size 1: by
    default the first one; of a kernel with three axes in a module named `out`, the first two. For
    layers that `linen.scan` stacks along the first axis, pass `lambda path, leaf: (1,)`.

    An element differs from the original by at most 1/254 of the largest magnitude of its channel,
    and what rounding to its dtype adds. A channel with a nan or an infinity becomes nan.
    Example:
        >>> params = {"kernel": jnp.ones((3, 2)), "bias": jnp.zeros(2)}
        >>> kiln.quantize.int8(params)["kernel"].values.dtype
        dtype('int8')
    """
    axes_of = _contracted if contracted is None else contracted

    def quantized(path: tuple[str, ...], leaf: Any) -> QuantizedArray:
        x = jnp.asarray(leaf)
        wide = x.astype(jnp.promote_types(x.dtype, np.float32))
        axes = tuple(axes_of(path, leaf))
        scale = jnp.max(abs(wide), axis=axes, keepdims=True) / 127
        divisor = jnp.where((scale > 0) & jnp.isfinite(scale), scale, 1)
        rounded = jnp.round(jnp.where(jnp.isfinite(wide), wide, 0) / divisor)
        values = jnp.clip(rounded, -127, 127).astype(np.int8)
        return QuantizedArray(values, jnp.where(jnp.isfinite(scale), scale, np.nan), x.dtype)

    return _map(quantized, params, where)


def bfloat16(params: Any, where: Where | None = None) -> Any:
    """Round kernels to bf16, which keeps 8 bits: an element changes by at most 1/256 of itself.

    `where(path, leaf)` selects leaves: by default floats named `kernel` with two or three axes.
    """

    def rounded(path: tuple[str, ...], leaf: Any) -> QuantizedArray:
        x = jnp.asarray(leaf)
        return QuantizedArray(x.astype(dtypes.bfloat16), None, x.dtype)

    return _map(rounded, params, where)


def dot(x: ArrayLike, kernel: QuantizedArray) -> Array:
    """Return the product of the last axis of `x` and the first one of a quantized kernel.

    Example:
        >>> kernel = kiln.quantize.int8({"kernel": jnp.ones((3, 2))})["kernel"]
        >>> kiln.quantize.dot(jnp.ones((4, 3)), kernel).shape
        (4, 2)
    """
    return dot_general(x, kernel, (((np.ndim(x) - 1,), (0,)), ((), ())))


def dot_general(
    lhs: ArrayLike, rhs: QuantizedArray, dimension_numbers: Any, precision: Any = None
) -> Array:
    """Multiply an array and a quantized one, as `lax.dot_general` does.

    The result has the dtype that `lhs` and the dequantized array promote to. A product with the
    narrow numbers is scaled, unless the scale differs along contracted axes: such an array is
    dequantized.
    """
    (_, contracted), (_, batch) = dimension_numbers
    x = jnp.asarray(lhs)
    out = jnp.promote_types(x.dtype, rhs.dtype)
    sums = jnp.promote_types(out, np.float32)
    if not dtypes.issubdtype(x.dtype, np.floating) or any(
        rhs.scale is not None and rhs.scale.shape[axis] != 1 for axis in contracted
    ):
        left, right = x.astype(out), rhs.dequantize(out)
        return lax.dot_general(left, right, dimension_numbers, precision)
    product = lax.dot_general(x, rhs.values, dimension_numbers, precision, sums)
    if rhs.scale is None:
        return product.astype(out)
    free = [axis for axis in range(rhs.ndim) if axis not in (*contracted, *batch)]
    scale = jnp.transpose(rhs.scale, (*batch, *free, *contracted))
    kept = product.ndim - len(batch) - len(free)
    sizes = scale.shape[: len(batch) + len(free)]
    scale = jnp.reshape(scale, (*sizes[: len(batch)], *(1,) * kept, *sizes[len(batch) :]))
    return (product * scale.astype(sums)).astype(out)


def _map(f: Callable[[tuple[str, ...], Any], Any], params: Any, where: Where | None) -> Any:
    chosen = _is_kernel if where is None else where

    def leaf_of(path: Any, leaf: Any) -> Any:
        names = tuple(keystr((key,), simple=True) for key in path)
        return f(names, leaf) if chosen(names, leaf) else leaf

    return tree_map_with_path(leaf_of, params)


def _is_kernel(path: tuple[str, ...], leaf: Any) -> bool:
    is_float = hasattr(leaf, "dtype") and dtypes.issubdtype(leaf.dtype, np.floating)
    return path[-1:] == ("kernel",) and is_float and np.ndim(leaf) in (2, 3)


def _contracted(path: tuple[str, ...], leaf: Any) -> Sequence[int]:
    return (0, 1) if np.ndim(leaf) == 3 and path[-2:-1] == ("out",) else (0,)


_suggest_names(globals())
