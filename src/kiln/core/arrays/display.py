"""Arrays in notebooks: HTML of their type and a few of their values, and treescope's view of them.

Values are read as `repr` reads them; of a large array only the edges are written.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.lazy import html, treescope_ndarray_adapters, treescope_numpy
from kiln.core.arrays.text import printable, representation
from kiln.ir.printing.display import preformatted
from kiln.ir.shardings.pictures import sharding_svg
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray

EDGE = 5
"""The number of rows and columns shown on each side of the omitted ones."""


def array_html(value: np.ndarray, aval: ShapedArray, sharding: Sharding) -> str:
    """Return an array as HTML: its type, a table of its values, and where its shards are.

    Arrays of three dimensions and more, and keys, are shown as text.
    """
    parts = [f"<div><code>{html.escape(_title(aval))}</code></div>"]
    shown = printable(value, aval)
    if shown.size and 0 < shown.ndim <= 2 and shown is value:
        parts.append(_table(shown))
    elif shown.size and shown.ndim == 0:
        parts.append(preformatted(str(shown)))
    elif shown.size:
        parts.append(preformatted(representation(value, aval)))
    if len(sharding.devices) > 1 and aval.ndim in (1, 2):
        parts.append(sharding_svg(value.shape, sharding))
    return f"<div>{''.join(parts)}</div>"


def _title(aval: ShapedArray) -> str:
    return f"Array {aval.str_short()}{' (weakly typed)' if aval.weak_type else ''}"


def _table(value: np.ndarray) -> str:
    """Return the edges of a vector or matrix as a table."""
    rows = value.reshape((-1, value.shape[-1]))
    down, across = _edges(rows.shape[0]), _edges(rows.shape[1])
    places = [[(i, j) for j in across] for i in down]
    known = [rows[i, j] for line in places for i, j in line if i is not None and j is not None]
    # Formatted together, so that their decimal points line up.
    texts = iter(np.array2string(np.array([x], rows.dtype), threshold=9)[1:-1] for x in known)
    cell = '<td style="text-align:right;padding:0 0.4em">'
    lines = []
    for line in places:
        cells = [next(texts) if i is not None and j is not None else "…" for i, j in line]
        lines.append("".join(f"{cell}{html.escape(text)}</td>" for text in cells))
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f'<table style="font-family:monospace;border-collapse:collapse">{body}</table>'


def _edges(size: int) -> list[int | None]:
    if size <= 2 * EDGE + 1:
        return list(range(size))
    return [*range(EDGE), None, *range(size - EDGE, size)]


class TreescopeAdapter:
    """How treescope draws and summarizes an array: as the NumPy array of its values.

    Source: the documentation of `treescope.ndarray_adapters.NDArrayAdapter`.
    """

    def get_axis_info_for_array_data(self, array: Any) -> tuple[Any, ...]:
        """Return the axes with their sizes."""
        axis = treescope_ndarray_adapters.PositionalAxisInfo
        return tuple([axis(i, size) for i, size in enumerate(array.shape)])

    def get_array_data_with_truncation(
        self, array: Any, mask: Any, edge_items_per_axis: tuple[int | None, ...]
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the array truncated to its edges, and the mask of valid entries."""
        mask = None if mask is None else np.asarray(mask)
        found: tuple[np.ndarray, np.ndarray] = self._numpy().get_array_data_with_truncation(
            np.asarray(array), mask, edge_items_per_axis
        )
        return found

    def get_array_summary(self, array: Any, fast: bool) -> str:
        """Return the type, and unless `fast` the range of the values."""
        text = f"kiln.Array {array.aval.str_short()}"
        value = np.asarray(array)
        if fast or not value.size or value.size > 100_000 or value.dtype.kind not in "iuf":
            return text
        return (
            f"{text} [≥{value.min():.2}, ≤{value.max():.2}]"
            if value.dtype.kind == "f"
            else (f"{text} [≥{value.min()}, ≤{value.max()}]")
        )

    def get_numpy_dtype(self, array: Any) -> np.dtype | None:
        """Return the dtype of the values."""
        return np.asarray(array).dtype

    def get_sharding_info_for_array_data(self, array: Any) -> Any:
        """Return which device holds which part, or None for an array on one device."""
        sharding = array.sharding
        if len(sharding.devices) == 1:
            return None
        return treescope_ndarray_adapters.ShardingInfo(
            shard_shape=sharding.shard_shape(array.shape),
            device_index_to_shard_slices={
                device.id: index
                for device, index in sharding.devices_indices_map(array.shape).items()
            },
            device_type=sharding.devices[0].platform.upper(),
            fully_replicated=sharding.is_fully_replicated,
        )

    def should_autovisualize(self, array: Any) -> bool:
        """Tell whether to draw the array: not keys, whose values are not numbers."""
        return isinstance(array.dtype, np.dtype) and not array.is_deleted()

    def _numpy(self) -> Any:
        return treescope_numpy.NumpyArrayAdapter()


ADAPTER = TreescopeAdapter()
