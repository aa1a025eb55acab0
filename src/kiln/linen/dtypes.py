"""Operands and parameters of a layer -> one dtype to compute in."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.trace import is_typed


def canonicalize_dtype(*args: Any, dtype: Any = None, inexact: bool = True) -> Any:
    """Return the requested dtype, or the one that the arrays promote to; Nones are ignored.

    Raises: ValueError for a dtype that is not inexact, unless `inexact` is False.
    """
    found = dtype
    if found is None:
        found = dtypes.result_type(*[_array(x) for x in args if x is not None])
        if inexact and not dtypes.issubdtype(found, np.inexact):
            found = dtypes.promote_types(np.float32, found)
    if inexact and not dtypes.issubdtype(found, np.inexact):
        raise ValueError(
            three_lines(
                f"canonicalize_dtype(dtype={dtype!r}) at {current_source()}",
                f"Dtype must be inexact: {found}",
                "use a floating or complex dtype, or inexact=False",
            )
        )
    return found


def promote_dtype(*args: Any, dtype: Any = None, inexact: bool = True) -> list[Any]:
    """Convert arrays to the requested dtype, or to the one they promote to; Nones are kept.

    Without `dtype` integers become floats if `inexact`.
    Raises: ValueError if `dtype` is not inexact, but `inexact` is requested.
    """
    dtype = canonicalize_dtype(*args, dtype=dtype, inexact=inexact)
    return [None if x is None else jnp.asarray(x, dtype) for x in args]


def _array(x: Any) -> Any:
    return x if is_typed(x) else jnp.asarray(x)
