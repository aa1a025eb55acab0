"""Checkpoints of version 1, which are read and no longer written: the index lists all blocks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from kiln.checkpoints.data_files import FILE, Damage, DataFiles
from kiln.checkpoints.entries import Block, Box, Entry
from kiln.checkpoints.index_checks import (
    END,
    are_sizes,
    is_size,
    named,
    require,
    require_leaf,
    require_sharding,
)
from kiln.checkpoints.shardings import require_description

_BLOCK = ("start", "shape", "file", "offset", "crc32")


class ListedBlocks:
    """The blocks of each leaf, in the order of the leaves."""

    def __init__(self, blocks: Sequence[Sequence[Block]]) -> None:
        self._blocks = blocks

    @property
    def files(self) -> set[str]:
        """The names of the files that hold blocks."""
        return {block.file for blocks in self._blocks for block in blocks}

    def covering(self, entry: Entry, box: Box, files: DataFiles) -> list[Block]:
        """Return the blocks of a leaf that hold the elements of a region.

        Raises: Damage if its blocks are not the tiles of a grid.
        """
        blocks = self._blocks[entry.number]
        for block in blocks:
            if box == block.box:
                return [block]
        if not are_tiles([(block.start, block.shape) for block in blocks], entry.shape):
            count = sum(math.prod(block.shape) for block in blocks)
            wanted = math.prod(entry.shape)
            raise Damage(
                "its blocks overlap, or do not form a grid"
                if count == wanted
                else f"its blocks have {count} of the {wanted} elements"
            )
        return [
            block
            for block in blocks
            if all(max(a, c) < min(b, d) for (a, b), (c, d) in zip(box, block.box, strict=True))
        ]


def listed_blocks(leaves: Any) -> ListedBlocks:
    """Return the blocks that an index of version 1 lists, and check all of its leaves.

    Raises: ValueError and KeyError that name what is invalid.
    """
    require(isinstance(leaves, list), "its leaves are not a list")
    found, places = [], []
    for leaf in leaves:
        itemsize = require_leaf(leaf)
        with named(leaf):
            if itemsize is None:
                require((leaf["sharding"], leaf["blocks"]) == (None, []), "a value has parts")
            else:
                _require_parts(leaf, itemsize)
        blocks = [_block(block) for block in leaf["blocks"]]
        places += [(b.file, b.offset, math.prod(b.shape) * (itemsize or 0)) for b in blocks]
        found.append(blocks)
    require_apart(places)
    return ListedBlocks(found)


def _block(block: dict[str, Any]) -> Block:
    known = {name: block[name] for name in _BLOCK}
    known |= {"start": tuple(block["start"]), "shape": tuple(block["shape"])}
    return Block(**known)


def require_apart(blocks: Sequence[tuple[str, int, int]]) -> None:
    """Check that blocks, each a file, an offset and a number of bytes, share no bytes.

    Otherwise a small file could expand to any amount of memory.

    Raises: ValueError.
    """
    ends: dict[str, int] = {}
    for file, offset, size in sorted(block for block in blocks if block[2]):
        require(offset >= ends.get(file, 0), f"two blocks share bytes of {file}")
        ends[file] = offset + size


def are_tiles(blocks: Sequence[tuple[Sequence[int], Sequence[int]]], shape: Sequence[int]) -> bool:
    """Tell whether blocks, each a start and a shape, are the tiles of a grid that fills an array.

    This holds for all shardings, and implies that every element is in exactly one block.
    """
    if 0 in shape:
        return True
    blocks, count = [block for block in blocks if 0 not in block[1]], 1
    for axis, size in enumerate(shape):
        ranges = sorted({(start[axis], start[axis] + extent[axis]) for start, extent in blocks})
        edges = [0, *[end for _, end in ranges]]
        if [start for start, _ in ranges] != edges[:-1] or edges[-1] != size:
            return False
        count *= len(ranges)
    return count == len(blocks) == len({tuple(start) for start, _ in blocks})


def _require_parts(leaf: dict[str, Any], itemsize: int) -> None:
    if leaf["sharding"] is not None:
        require_description(leaf["sharding"])
        require_sharding(leaf, leaf["sharding"])
    require(isinstance(leaf["blocks"], list), "its blocks")
    for block in leaf["blocks"]:
        _require_block(block, leaf["shape"], itemsize)


def _require_block(block: Any, shape: Sequence[int], itemsize: int) -> None:
    require(isinstance(block, dict), "a block is not an object")
    start, extent, offset, crc = (block[n] for n in ("start", "shape", "offset", "crc32"))
    require(are_sizes(start) and are_sizes(extent), "where a block is")
    require(len(start) == len(extent) == len(shape), "a block has other axes")
    inside = all(a + n <= size for a, n, size in zip(start, extent, shape, strict=True))
    require(inside, "a block is not in the array")
    name = block["file"]
    require(isinstance(name, str), "a block has no file")
    # Such names cannot refer to anything outside the folder.
    require(bool(FILE.fullmatch(name)), f"{name[:80]!r} is not the name of a file of blocks")
    require(is_size(offset) and is_size(crc) and crc < 2**32, "where the bytes of a block are")
    require(offset + math.prod(extent) * itemsize < END, "where the bytes of a block are")
