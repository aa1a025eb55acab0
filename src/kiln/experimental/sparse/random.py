"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from kiln import numpy as jnp
from kiln import random
from kiln.api.mapping.vmap import vmap
from kiln.base import dtypes
from kiln.experimental.sparse.bcoo_array import BCOO, invalid

__all__ = ["random_bcoo"]


def random_bcoo(
    key: Any,
    shape: Sequence[int],
    *,
    dtype: Any = jnp.float_,
    indices_dtype: Any = None,
    nse: float = 0.2,
    n_batch: int = 0,
    n_dense: int = 0,
    unique_indices: bool = True,
    sorted_indices: bool = False,
    generator: Callable[..., Any] = random.uniform,
    **kwds: Any,
) -> BCOO:
    """Return a random BCOO array; `nse` is a number of elements, or a fraction below 1.

    Values are `generator(key, shape=..., dtype=..., **kwds)`.
    Raises: ValueError for an impossible layout or number of elements.
    """
    shape = tuple(map(operator.index, shape))
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise invalid(
            f"random_bcoo of shape {shape}", f"Invalid {n_batch=}, {n_dense=}", "choose fewer axes"
        )
    batch, inner = shape[:n_batch], shape[n_batch : n_batch + n_sparse]
    places = math.prod(inner)
    if not 0 <= nse < places:
        raise invalid(
            f"random_bcoo of shape {shape}",
            f"got {nse=}, expected to be between 0 and {places}",
            "choose a smaller nse",
        )
    count = math.ceil(nse * places) if 0 < nse < 1 else operator.index(nse)  # type: ignore[arg-type]
    kind = dtypes.canonicalize_dtype(int) if indices_dtype is None else jnp.dtype(indices_dtype)
    if places > jnp.iinfo(kind).max:
        raise invalid(
            f"random_bcoo of shape {shape}",
            f"indices_dtype={kind} does not have enough range for {places} places",
            "use a larger one",
        )

    def indices_of(one: Any) -> Any:
        if not inner:
            return jnp.zeros((count, 0), kind)
        flat = random.choice(one, places, shape=(count,), replace=not unique_indices)
        return jnp.stack(jnp.unravel_index(flat.astype(kind), inner), -1)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(
        keys[0], shape=(*batch, count, *shape[n_batch + n_sparse :]), dtype=dtype, **kwds
    )
    indices = vmap(indices_of)(keys[1:]).reshape(*batch, count, n_sparse).astype(kind)
    mat = BCOO((data, indices), shape=shape)
    return mat.sort_indices() if sorted_indices else mat
