"""What the array API standard asks of a namespace about itself.

https://data-apis.org/array-api/2024.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.api.arrays import devices
from kiln.base import dtypes
from kiln.base.dtypes import promotion
from kiln.base.errors import three_lines
from kiln.base.source import current_source

__array_api_version__ = "2024.12"

_NAMES = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64"),
    "complex floating": ("complex64", "complex128"),
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}


class __array_namespace_info__:
    """What arrays there are: devices, dtypes, and what cannot be done with them."""

    def capabilities(self) -> dict[str, Any]:
        """Return which optional parts of the standard there are; shapes never depend on values."""
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """Return the device of new arrays: None, as they are placed where they are first used."""
        return None

    def devices(self) -> list[Any]:
        """Return the devices, and None for that of new arrays."""
        return [None, *devices()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype]:
        """Return the dtypes of new arrays, by kind."""
        integer = promotion.default_int_dtype()
        return {
            "real floating": promotion.default_float_dtype(),
            "complex floating": promotion.default_complex_dtype(),
            "integral": integer,
            "indexing": integer,
        }

    def dtypes(
        self, *, device: Any = None, kind: str | tuple[str, ...] | None = None
    ) -> dict[str, np.dtype]:
        """Return the standard's dtypes of a kind, of several, or all; with 64 bits if x64 is on.

        Raises: ValueError for an unknown kind.
        """
        kinds = tuple(_NAMES) if kind is None else (kind,) if isinstance(kind, str) else kind
        names: list[str] = []
        for one in kinds:
            if one not in _NAMES and one not in _UNIONS:
                raise ValueError(
                    three_lines(
                        f"dtypes(kind={kind!r}) at {current_source()}",
                        f"{one!r} is not a kind of dtypes",
                        f"use {', '.join(map(repr, (*_NAMES, *_UNIONS)))}",
                    )
                )
            for part in _UNIONS.get(one, (one,)):
                names.extend(_NAMES[part])
        return {
            name: np.dtype(name)
            for name in names
            if dtypes.canonicalize_dtype(name) == np.dtype(name)
        }
