"""Dtypes and their promotion, by the names of `jax.dtypes`."""

from ml_dtypes import bfloat16

from kiln.base.dtypes import (
    extended,
    float0,
    prng_key,
    promote_types,
    result_type,
    scalar_dtype,
)
from kiln.base.dtypes.questions import (
    canonicalize_dtype,
    finfo,
    iinfo,
    issubdtype,
    itemsize_bits,
    scalar_type_of,
)
from kiln.base.errors import TypePromotionError
from kiln.base.lazy import suggest_names as _suggest_names

__all__ = [
    "TypePromotionError",
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "itemsize_bits",
    "prng_key",
    "promote_types",
    "result_type",
    "scalar_dtype",
    "scalar_type_of",
]

_suggest_names(globals())
