"""The bytes of arrays: written block by block to a file, read by region from several.

Elements are row-major and little-endian, at least one byte each; blocks are aligned to 64 bytes.
"""

from __future__ import annotations

import math
import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kiln.base.errors import CorruptCheckpointError, three_lines
from kiln.base.source import current_source
from kiln.checkpoints.index import LEAF, Block, Entry
from kiln.checkpoints.index_checks import are_tiles
from kiln.checkpoints.leaves import Held

_ALIGNMENT = 64
_CHUNK = 1 << 24

Advance = Callable[[int], None]
Box = tuple[tuple[int, int], ...]


def write_blocks(path: Path, leaves: Sequence[Held], advance: Advance) -> tuple[Entry, ...]:
    """Write the blocks of leaves to a file, and return their index entries.

    `advance` is called with the number of bytes of each write.
    Raises: FileExistsError if there is a file at `path`; OSError if it cannot be written.
    """
    entries = []
    with path.open("xb") as file:
        offset = 0
        for leaf in leaves:
            blocks = []
            for part in leaf.parts:
                padding = -offset % _ALIGNMENT
                file.write(bytes(padding))
                offset += padding
                content = _bytes_of(part.data)
                crc = 0
                for i in range(0, len(content), _CHUNK):
                    piece = content[i : i + _CHUNK]
                    crc = zlib.crc32(piece, crc)
                    file.write(piece)
                    advance(len(piece))
                blocks.append(Block(part.start, part.data.shape, path.name, offset, crc))
                offset += len(content)
            known = {name: getattr(leaf, name) for name in LEAF}
            entries.append(Entry(**known, blocks=tuple(blocks)))
        file.flush()
        os.fsync(file.fileno())
    return tuple(entries)


def _bytes_of(data: np.ndarray) -> memoryview:
    if not data.nbytes:
        return memoryview(b"")
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


class BlockReader:
    """Reads regions of one array; each block is read once, and its checksum verified.

    Raises: CorruptCheckpointError, from `region`, with the path.
    """

    def __init__(self, entry: Entry, files: dict[str, int], asked: str) -> None:
        self._entry = entry
        self._files = files
        self._asked = asked
        self._read: dict[Block, np.ndarray] = {}

    def whole(self) -> np.ndarray:
        """Return the whole array."""
        return self.region((slice(None),) * len(self._entry.shape))

    def region(self, index: Sequence[slice]) -> np.ndarray:
        """Return the region of the array that slices of step 1 select."""
        entry = self._entry
        box = tuple(s.indices(n)[:2] for s, n in zip(index, entry.shape, strict=True))
        shape = tuple(stop - start for start, stop in box)
        for block in entry.blocks:
            if box == _box(block):
                return self._block(block)
        if not are_tiles([(block.start, block.shape) for block in entry.blocks], entry.shape):
            count = sum(math.prod(block.shape) for block in entry.blocks)
            wanted = math.prod(entry.shape)
            raise self.corrupt(
                "its blocks overlap, or do not form a grid"
                if count == wanted
                else f"its blocks have {count} of the {wanted} elements"
            )
        parts = []
        for block in entry.blocks:
            common = [
                (max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, _box(block), strict=True)
            ]
            if all(a < b for a, b in common):
                self._require_bytes(block)
                parts.append((block, common))
        out = _aligned(shape, entry.stored_dtype)
        for block, common in parts:
            inside = tuple(slice(a - s, b - s) for (a, b), s in zip(common, block.start))
            here = tuple(slice(a - s, b - s) for (a, b), (s, _) in zip(common, box))
            out[here] = self._block(block)[inside]
        return out

    def _require_bytes(self, block: Block) -> int:
        """Check that the file holds the bytes of a block, before allocating memory; return it."""
        opened = self._files.get(block.file)
        if opened is None:
            raise self.corrupt(f"its file {block.file} is missing")
        size = math.prod(block.shape) * self._entry.stored_dtype.itemsize
        there = os.fstat(opened).st_size - block.offset
        if size and there < size:
            raise self.corrupt(
                f"its file {block.file} ends after {max(0, there)} of {size} bytes of the block"
            )
        return opened

    def _block(self, block: Block) -> np.ndarray:
        found = self._read.get(block)
        if found is None:
            found = self._read[block] = self._from_file(block)
        return found

    def _from_file(self, block: Block) -> np.ndarray:
        if not math.prod(block.shape) * self._entry.stored_dtype.itemsize:
            return _aligned(block.shape, self._entry.stored_dtype)
        opened = self._require_bytes(block)
        out = _aligned(block.shape, self._entry.stored_dtype)
        content, crc, at = out.reshape(-1).view(np.uint8).data, 0, 0
        while at < len(content):
            piece = content[at : at + _CHUNK]
            count = os.preadv(opened, [piece], block.offset + at)
            if not count:
                raise self.corrupt(
                    f"its file {block.file} ends after {at} of {len(content)} bytes of the block"
                )
            crc = zlib.crc32(piece[:count], crc)
            at += count
        if crc != block.crc32:
            raise self.corrupt(
                f"{len(content)} bytes at {block.offset} of its file {block.file} are damaged: "
                "their checksum does not match"
            )
        return out

    def corrupt(self, wrong: str) -> CorruptCheckpointError:
        """Return an error about the array's bytes."""
        return CorruptCheckpointError(
            three_lines(
                f"{self._asked} at {current_source()}",
                f"{self._entry.path}: {wrong}",
                "restore another checkpoint; Checkpoint(folder).verify() lists all that is damaged",
            )
        )


def _box(block: Block) -> Box:
    return tuple((start, start + size) for start, size in zip(block.start, block.shape))


def _aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialized array, aligned so that engines use it without a copy."""
    count = math.prod(shape) * dtype.itemsize
    if not count:
        return np.zeros(shape, dtype)
    memory = np.empty(count + _ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % _ALIGNMENT
    return memory[first : first + count].view(dtype).reshape(shape)
