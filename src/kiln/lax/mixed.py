"""Operations on operands of several dtypes."""

from __future__ import annotations

from kiln.base import dtypes
from kiln.core.array_type import Array, ArrayLike, DTypeLike
from kiln.execution.eager_plans import eager
from kiln.ops.elements import elementwise
from kiln.ops.elements.conversion import convert_element_type


@eager
def mul(x: ArrayLike, y: ArrayLike, *, out_dtype: DTypeLike | None = None) -> Array:
    """Multiply two arrays of the same dtype; with `out_dtype`, after conversion to it.

    With it, the dtypes of the operands may differ.
    Example:
        >>> kiln.lax.mul(jnp.int8([100]), jnp.int8([100]), out_dtype=jnp.int32)
        Array([10000], dtype=int32)
    """
    if out_dtype is not None:
        out_dtype = dtypes.canonicalize_dtype(dtypes.as_dtype(out_dtype))
        x, y = convert_element_type(x, out_dtype), convert_element_type(y, out_dtype)
    return elementwise.mul(x, y)


mul.__module__ = "kiln.lax"
