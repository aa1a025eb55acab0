"""Exchanging arrays with other libraries without a copy: `from_dlpack`, `x.__dlpack__()`."""

from typing import Any

from kiln.base.dtypes import canonicalize_dtype
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.arrays.dlpack import spelled
from kiln.numpy import from_dlpack

__all__ = ["from_dlpack", "is_supported_dtype"]


def is_supported_dtype(dtype: Any) -> bool:
    """Tell whether DLPack supports a dtype."""
    return spelled(canonicalize_dtype(dtype)) is not None


_suggest_names(globals())
