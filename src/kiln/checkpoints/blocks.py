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
from kiln.checkpoints.data_files import Damage, DataFiles
from kiln.checkpoints.entries import Block, Box, Entry
from kiln.checkpoints.index import Blocks
from kiln.checkpoints.plan import Plan
from kiln.checkpoints.tables import ALIGNMENT, head_bytes

_CHUNK = 1 << 24

Advance = Callable[[int], None]


def write_blocks(
    path: Path, plan: Plan, process: int, parts: Sequence[np.ndarray], advance: Advance
) -> None:
    """Write the blocks of a process to its file, in the order and places of the plan.

    No file is written if it has none. `advance` is called with the number of bytes of each write.
    Raises: FileExistsError if there is a file at `path`; OSError if it cannot be written.
    """
    if not parts:
        return
    checksums: list[int] = []
    with path.open("xb") as file:
        at = 0
        for offset, part in zip(plan.offsets(process), parts, strict=True):
            content = _bytes_of(part)
            if at < offset:
                # Of the head, too, which is written when the checksums are known.
                file.write(bytes(offset - at))
            crc = 0
            for i in range(0, len(content), _CHUNK):
                piece = content[i : i + _CHUNK]
                crc = zlib.crc32(piece, crc)
                file.write(piece)
                advance(len(piece))
            checksums.append(crc)
            at = offset + len(content)
        file.seek(0)
        file.write(head_bytes(plan.save, process, checksums))
        file.flush()
        os.fsync(file.fileno())


def _bytes_of(data: np.ndarray) -> memoryview:
    if not data.nbytes:
        return memoryview(b"")
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).data


class BlockReader:
    """Reads regions of one array; each block is read once, and its checksum verified.

    Raises: CorruptCheckpointError, from `region`, with the path.
    """

    def __init__(self, entry: Entry, blocks: Blocks, files: DataFiles, asked: str) -> None:
        self._entry = entry
        self._blocks = blocks
        self._files = files
        self._asked = asked
        self._dtype = entry.stored_dtype
        self._read: dict[tuple[str, int], np.ndarray] = {}

    def whole(self) -> np.ndarray:
        """Return the whole array."""
        return self.region((slice(None),) * len(self._entry.shape))

    def region(self, index: Sequence[slice]) -> np.ndarray:
        """Return the region of the array that slices of step 1 select."""
        shape = self._entry.shape
        box = tuple([s.indices(n)[:2] for s, n in zip(index, shape, strict=True)])
        try:
            return self._assembled(box)
        except Damage as error:
            raise CorruptCheckpointError(
                three_lines(
                    f"{self._asked} at {current_source()}",
                    f"{self._entry.path}: {error}",
                    "restore another checkpoint; Checkpoint(folder).verify() lists all that is "
                    "damaged",
                )
            ) from None

    def _assembled(self, box: Box) -> np.ndarray:
        """Return a region.

        Raises: Damage that says which bytes are damaged.
        """
        blocks = self._blocks.covering(self._entry, box, self._files)
        if len(blocks) == 1 and box == blocks[0].box:
            return self._block(blocks[0])
        for block in blocks:
            # Before memory is allocated for all of them.
            with self._files.opened(block.file) as opened:
                self._require_bytes(block, opened)
        out = _aligned([stop - start for start, stop in box], self._dtype)
        for block in blocks:
            common = [(max(a, c), min(b, d)) for (a, b), (c, d) in zip(box, block.box, strict=True)]
            inside = tuple(slice(a - s, b - s) for (a, b), s in zip(common, block.start))
            here = tuple(slice(a - s, b - s) for (a, b), (s, _) in zip(common, box))
            out[here] = self._block(block)[inside]
        return out

    def _block(self, block: Block) -> np.ndarray:
        if not math.prod(block.shape) * self._dtype.itemsize:
            return _aligned(block.shape, self._dtype)
        found = self._read.get((block.file, block.offset))
        if found is None:
            with self._files.opened(block.file) as opened:
                found = self._from_file(block, opened)
            self._read[block.file, block.offset] = found
        return found

    def _require_bytes(self, block: Block, opened: int) -> None:
        """Check that the file holds the bytes of a block, before allocating memory."""
        size = math.prod(block.shape) * self._dtype.itemsize
        there = os.fstat(opened).st_size - block.offset
        if size and there < size:
            raise Damage(
                f"its file {block.file} ends after {max(0, there)} of {size} bytes of the block"
            )

    def _from_file(self, block: Block, opened: int) -> np.ndarray:
        self._require_bytes(block, opened)
        out = _aligned(block.shape, self._dtype)
        content, crc, at = out.reshape(-1).view(np.uint8).data, 0, 0
        while at < len(content):
            piece = content[at : at + _CHUNK]
            count = os.preadv(opened, [piece], block.offset + at)
            if not count:
                raise Damage(
                    f"its file {block.file} ends after {at} of {len(content)} bytes of the block"
                )
            crc = zlib.crc32(piece[:count], crc)
            at += count
        if crc != block.crc32:
            raise Damage(
                f"{len(content)} bytes at {block.offset} of its file {block.file} are damaged: "
                "their checksum does not match"
            )
        return out


def _aligned(shape: Sequence[int], dtype: np.dtype[Any]) -> np.ndarray:
    """Return an uninitialized array, aligned so that engines use it without a copy."""
    count = math.prod(shape) * dtype.itemsize
    if not count:
        return np.zeros(shape, dtype)
    memory = np.empty(count + ALIGNMENT, np.uint8)
    first = -memory.ctypes.data % ALIGNMENT
    return memory[first : first + count].view(dtype).reshape(shape)
