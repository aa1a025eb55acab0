"""Dtypes and their promotion, by the names of `jax.dtypes`."""

from kiln.base.dtype_questions import canonicalize_dtype, finfo, iinfo, issubdtype
from kiln.base.dtypes import (
    bfloat16,
    extended,
    float0,
    prng_key,
    promote_types,
    result_type,
    scalar_dtype,
)

__all__ = [
    "bfloat16",
    "canonicalize_dtype",
    "extended",
    "finfo",
    "float0",
    "iinfo",
    "issubdtype",
    "prng_key",
    "promote_types",
    "result_type",
    "scalar_dtype",
]
