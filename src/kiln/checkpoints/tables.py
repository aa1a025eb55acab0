"""The head of a data file: which save and process wrote it, and the checksum of each block.

It is 64 bytes, then four bytes for each block, in the order of the blocks in the file. It stands
before the blocks, so that a file that was cut off loses only those at its end.
"""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Sequence

import numpy as np

from kiln.checkpoints.data_files import Damage

ALIGNMENT = 64
"""Blocks start at multiples of this many bytes."""
_MAGIC = b"kiln data file 2"
_HEAD = struct.Struct("<16s16sQQI")
"""The magic bytes, the name of the save, the process, the number of blocks, and a checksum."""


def aligned(nbytes: int) -> int:
    """Return the least multiple of the alignment that is not less."""
    return nbytes + -nbytes % ALIGNMENT


def head_nbytes(count: int) -> int:
    """Return the size of the head of a file with `count` blocks: the offset of the first one."""
    return aligned(ALIGNMENT + 4 * count)


def head_bytes(save: str, process: int, checksums: Sequence[int]) -> bytes:
    """Return the head of a file."""
    table = np.asarray(checksums, "<u4").tobytes()
    said = _HEAD.pack(_MAGIC, bytes.fromhex(save), process, len(checksums), 0)[:-4]
    head = said + struct.pack("<I", zlib.crc32(table, zlib.crc32(said)))
    return head.ljust(ALIGNMENT, b"\0") + table


def read_table(opened: int, name: str, save: str, process: int, count: int) -> np.ndarray:
    """Return the checksums of the blocks of a file, which must have `count` of them.

    Raises: Damage if the head is damaged, or that of another file.
    """
    size = ALIGNMENT + 4 * count
    # Before the memory is allocated.
    there = os.fstat(opened).st_size
    if there < size:
        raise Damage(f"its file {name} ends after {there} bytes, in its table of checksums")
    content = os.pread(opened, size, 0)
    said, table = content[: _HEAD.size - 4], content[ALIGNMENT:]
    (crc,) = struct.unpack_from("<I", content, _HEAD.size - 4)
    if len(content) < size or crc != zlib.crc32(table, zlib.crc32(said)):
        raise Damage(f"the table of checksums of its file {name} is damaged")
    if said != _HEAD.pack(_MAGIC, bytes.fromhex(save), process, count, 0)[:-4]:
        raise Damage(f"its file {name} is not the one that was written with the index")
    return np.frombuffer(table, "<u4")
