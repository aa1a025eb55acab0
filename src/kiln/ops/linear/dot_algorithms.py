"""Names of algorithms for products of matrices, which a caller may ask for as a precision.

The CPU has one algorithm per dtype, at least as precise as any of these: all are accepted where a
`Precision` is, and computed as HIGHEST.
"""

from __future__ import annotations

import enum
from typing import Any

from kiln.base.named_tuples import NamedTuple
from kiln.ops.linear.contraction import Precision


class DotAlgorithm(NamedTuple):
    """An algorithm in detail: the dtypes of operands and sums, and the number of products.

    Example:
        >>> lax.DotAlgorithm(np.float32, np.float32, np.float32).lhs_component_count
        1
    """

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name: dtypes of the operands and of the sum, and the number of products.

    Example:
        >>> lax.DotAlgorithmPreset.BF16_BF16_F32.name
        'BF16_BF16_F32'
    """

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()


PrecisionLike = Precision | str | DotAlgorithm | DotAlgorithmPreset | tuple[Any, Any] | None


def names_algorithm(precision: Any) -> bool:
    """Tell whether a precision is an algorithm, or the name of one."""
    if isinstance(precision, str):
        return precision in DotAlgorithmPreset.__members__
    return isinstance(precision, (DotAlgorithm, DotAlgorithmPreset))
