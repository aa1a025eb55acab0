"""The rows of a batch: the first axis of the leaves whose sharding divides it; padding."""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.api.sharding.process_arrays import global_shape_of
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.tree import broadcast_prefix, tree_flatten, tree_map, tree_unflatten
from kiln.ir.shardings.mesh import PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, Sharding
from kiln.ops.sharding import resolved

_NAME = "kiln.data.Batches"
_LONGEST = 400
"""How much of the description of a batch messages show, in characters."""


class Local(NamedTuple):
    """A batch of this process: leaves as NumPy arrays, and how their rows are divided.

    `rows` is the number of rows, None if no leaf has any; `has_rows` tells which leaves do; `parts`
    is the number of equal parts into which the devices of this process divide the rows; `text`
    describes everything but the number of rows.
    """

    leaves: Sequence[np.ndarray]
    tree: Any
    shardings: Sequence[Any]
    has_rows: Sequence[bool]
    rows: int | None
    parts: int
    text: str

    def resized(self, rows: int) -> tuple[Any, np.ndarray]:
        """Return the batch with zeros after its rows, and which rows are its own."""
        have = self.rows or 0
        leaves = [
            _padded(leaf[:have], rows) if has_rows else leaf
            for leaf, has_rows in zip(self.leaves, self.has_rows, strict=True)
        ]
        return tree_unflatten(self.tree, leaves), np.arange(rows) < have

    def without_rows(self) -> Local:
        """Return a batch of the same leaves that has no rows of its own."""
        return self._replace(rows=0)

    def all_rows(self, rows: int, asked: str) -> int:
        """Return the number of rows of all processes, if each has `rows`; 0 without any."""
        for leaf, place, has in zip(self.leaves, self.shardings, self.has_rows, strict=True):
            if has:
                if not isinstance(place, Sharding):
                    return rows
                return global_shape_of(place, (rows, *leaf.shape[1:]), asked)[0]
        return 0

    def mask_sharding(self) -> Any:
        """Return the sharding of an array of one value for each row."""
        place = self.shardings[self.has_rows.index(True)]
        if isinstance(place, NamedSharding):
            return NamedSharding(place.mesh, PartitionSpec(*place.spec[:1]))
        return place


def local_batch(batch: Any, sharding: Any, asked: str) -> Local:
    """Return a batch that a source gave.

    Raises: ValueError if its leaves have different numbers of rows; TypeError for values that are
        not numbers.
    """
    values, tree = tree_flatten(batch)
    shardings = broadcast_prefix(sharding, batch, is_leaf=lambda s: s is None)
    leaves = [np.asarray(value) for value in values]
    for leaf in leaves:
        if leaf.dtype.kind in "OUSMm":
            raise TypeError(
                three_lines(
                    asked,
                    f"a leaf of the batch has the dtype {leaf.dtype}, and arrays hold numbers",
                    "leave it out of the batches, or convert it to numbers",
                )
            )
    has_rows = [_has_rows(*each) for each in zip(leaves, shardings, strict=True)]
    found = {leaf.shape[0] for leaf, has in zip(leaves, has_rows, strict=True) if has}
    if len(found) > 1:
        raise ValueError(
            three_lines(
                asked,
                f"the leaves of the batch have different numbers of rows: {sorted(found)}",
                "give all leaves the same first axis, or a sharding that does not divide it",
            )
        )
    divided = zip(leaves, shardings, has_rows, strict=True)
    parts = math.lcm(*[_parts(place, leaf.ndim) for leaf, place, has in divided if has])
    shown = [
        f"{leaf.dtype}[{', '.join(['rows'] * has + [str(n) for n in leaf.shape[has:]])}]"
        for leaf, has in zip(leaves, has_rows, strict=True)
    ]
    text = f"{tree_unflatten(tree, shown)}".replace("'", "")
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}... ({zlib.crc32(text.encode()):08x})"
    rows = found.pop() if found else None
    return Local(leaves, tree, shardings, has_rows, rows, parts, text)


def with_devices(sharding: Any) -> Any:
    """Return a tree of shardings in which partition specs refer to the mesh of this thread.

    Raises: RuntimeError for a partition spec without a mesh.
    """
    is_spec = (Sharding, PartitionSpec)
    return tree_map(
        lambda place: resolved(place, _NAME) if isinstance(place, is_spec) else place,
        sharding,
        is_leaf=lambda place: isinstance(place, is_spec),
    )


def _has_rows(leaf: np.ndarray, place: Any) -> bool:
    if not leaf.ndim:
        return False
    if isinstance(place, NamedSharding):
        return bool(place.spec) and place.spec[0] is not None
    return not isinstance(place, Sharding) or place.blocks(leaf.ndim).parts[0] > 1


def _parts(place: Any, ndim: int) -> int:
    if not isinstance(place, Sharding):
        return 1
    at = place.blocks(ndim).at
    return len({at[i][0] for i in place.addressable_order})


def _padded(leaf: np.ndarray, rows: int) -> np.ndarray:
    if len(leaf) == rows:
        return leaf
    return np.concatenate([leaf, np.zeros((rows - len(leaf), *leaf.shape[1:]), leaf.dtype)])
