"""Arrays as text and as files: NumPy's own functions, on the values."""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.numpy.creation import asarray

set_printoptions = np.set_printoptions
get_printoptions = np.get_printoptions
printoptions = np.printoptions
array_repr, array_str = np.array_repr, np.array_str
save, savez = np.save, np.savez


def load(file: Any, *args: Any, **kwargs: Any) -> Any:
    """Read an array, or a dictionary of arrays, that `save` or `savez` wrote."""
    found = np.load(file, *args, **kwargs)
    return asarray(found) if isinstance(found, np.ndarray) else found
