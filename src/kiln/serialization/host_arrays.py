"""Converting arrays for storage (whole, on the host, little-endian) and placing loaded ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.api.arrays import device_put
from kiln.base.dtypes.kinds import KeyDtype
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.core.arrays.array import ConcreteArray
from kiln.jit.signatures.struct import ShapeDtypeStruct


def host_array(value: Any, path: str) -> np.ndarray:
    """Convert an array to a NumPy array, gathering all its shards.

    Raises: TypeError for arrays of keys, ValueError for arrays of objects, text and records.
    """
    asked = f"saving of an array of dtype {value.dtype} at path {path} at {current_source()}"
    if isinstance(value.dtype, KeyDtype):
        raise TypeError(
            three_lines(
                asked,
                "files hold numbers, and this is an array of random keys",
                "save kiln.random.key_data(keys), and restore keys with kiln.random.wrap_key_data",
            )
        )
    array = np.asarray(value)
    if array.dtype.kind in "OSU" or array.dtype.fields is not None:
        raise ValueError(
            three_lines(
                asked,
                "Object and structured dtypes not supported for serialization of ndarrays.",
                "save numbers; single strings can be saved in messages as they are",
            )
        )
    return array.astype(array.dtype.newbyteorder("<"), copy=False)


def place_like(target: Any, loaded: Any) -> Any:
    """Place each array of a loaded tree like the target's.

    NumPy arrays stay on the host. For a `ShapeDtypeStruct` the array goes to its sharding, or to
    the default device if it has none.
    """

    def place(old: Any, new: Any) -> Any:
        if not hasattr(new, "dtype"):
            return new
        if isinstance(old, ConcreteArray):
            return device_put(new, old.sharding if old.committed else None)
        if isinstance(old, ShapeDtypeStruct):
            return device_put(new, old.sharding)
        return new

    return tree_map(place, target, loaded, is_leaf=lambda x: x is None)
