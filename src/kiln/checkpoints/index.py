"""The index of a checkpoint: the tree, its leaves, and which file holds which block of them.

It is a JSON file: `{"format": ..., "version": 1, "crc32": ..., "content": {...}}`, with the
checksum of the content as `_canonical` writes it. Each process writes its blocks to a file of its
own; one index lists them all.
"""

from __future__ import annotations

import errno
import math
import os
import stat
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import CheckpointError, CorruptCheckpointError, three_lines
from kiln.base.lazy import json
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.checkpoints.index_checks import require_apart, require_leaf, require_tree

NAME = "index.json"
_FORMAT = "kiln checkpoint"
_VERSION = 1
_REMEDY = "restore another checkpoint: kiln.checkpoints.Checkpoints(folder).steps() lists them"


class Block(Record):
    """A block of an array: where it starts in the array, and where its bytes are."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    offset: int
    crc32: int


class Entry(Record):
    """The index entry of a leaf: `leaves.Held` with blocks in place of parts."""

    path: str
    kind: str
    value: str | None
    dtype: str | None
    shape: tuple[int, ...]
    weak: bool
    sharding: Any
    implementation: str | None
    blocks: tuple[Block, ...]

    @property
    def stored_dtype(self) -> np.dtype[Any]:
        """The dtype of the bytes."""
        return dtypes.float0 if self.dtype == "float0" else dtypes.SUPPORTED[self.dtype or ""]

    @property
    def nbytes(self) -> int:
        """The number of bytes, 0 for Python values."""
        return math.prod(self.shape) * self.stored_dtype.itemsize if self.dtype else 0


class Index(Record):
    """The content of an index file."""

    tree: Any
    entries: tuple[Entry, ...]
    metadata: Any

    @property
    def files(self) -> set[str]:
        """The names of the files that hold blocks."""
        return {block.file for entry in self.entries for block in entry.blocks}


LEAF = ("path", "kind", "value", "dtype", "shape", "weak", "sharding", "implementation")
_BLOCK = ("start", "shape", "file", "offset", "crc32")


def index_bytes(index: Index, parts: Sequence[Part] = ()) -> bytes:
    """Return the content of an index file, with the blocks that other processes wrote."""
    leaves = []
    for number, entry in enumerate(index.entries):
        blocks = _written(entry)
        for part in parts:
            blocks += part.blocks[number]
        leaves.append({name: getattr(entry, name) for name in LEAF} | {"blocks": blocks})
    content = {"tree": index.tree, "metadata": index.metadata, "leaves": leaves}
    text = _canonical(content)
    head = {"format": _FORMAT, "version": _VERSION, "crc32": zlib.crc32(text)}
    return _canonical(head)[:-1] + b',"content":' + text + b"}\n"


class Part(Record):
    """What another process wrote: the paths of all leaves, and the blocks of each as JSON has them.

    They are not checked before a checkpoint is read: process 0 reads those of all processes.
    """

    paths: list[str]
    blocks: list[list[Any]]


def part_bytes(index: Index) -> bytes:
    """Return the content of the file in which a process lists its blocks for process 0."""
    content = [
        [entry.path for entry in index.entries],
        [_written(entry) for entry in index.entries],
    ]
    text = _canonical(content)
    return b"%d\n%s" % (zlib.crc32(text), text)


def read_part(folder: Path, name: str, asked: str) -> Part:
    """Read such a file.

    Raises: CorruptCheckpointError if it is damaged.
    """
    with open(open_inside(folder, name, asked), "rb") as file:
        checksum, _, text = file.read().partition(b"\n")
    try:
        if int(checksum) != zlib.crc32(text):
            raise ValueError("its checksum does not match")
        paths, blocks = json.loads(text)
    except ValueError as error:
        _damaged(folder, asked, f"{name}: {error}")
    return Part(paths, blocks)


def _written(entry: Entry) -> list[Any]:
    return [{name: getattr(block, name) for name in _BLOCK} for block in entry.blocks]


def _canonical(value: Any) -> bytes:
    return bytes(json.dumps(value, separators=(",", ":")).encode())


def read_index(folder: Path, asked: str) -> Index:
    """Read the index of a checkpoint.

    Raises: FileNotFoundError if there is none, CorruptCheckpointError if it is damaged,
        CheckpointError if a later version of kiln wrote it.
    """
    try:
        with open(open_inside(folder, NAME, asked), "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            three_lines(
                f"{asked} at {current_source()}",
                f"{folder} is not a checkpoint: there is no {NAME} in it",
                "name the folder that kiln.checkpoints.save wrote",
            )
        ) from None
    try:
        found = json.loads(data)
        version, content = found["version"], found["content"]
        if found["format"] != _FORMAT:
            raise ValueError(f"the format is {found['format']!r:.80}")
        text = _canonical(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _damaged(folder, asked, f"{type(error).__name__}: {error}")
    if version != _VERSION:
        raise CheckpointError(
            three_lines(
                f"{asked} at {current_source()}",
                f"the checkpoint has version {version!r:.80} of the format, and this kiln reads "
                f"version {_VERSION}",
                "read it with the version of kiln that wrote it",
            )
        )
    if zlib.crc32(text) != found.get("crc32"):
        _damaged(folder, asked, "its checksum does not match")
    try:
        return _index(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        _damaged(folder, asked, f"{type(error).__name__}: {error}")


def open_inside(folder: Path, name: str, asked: str) -> int:
    """Open a file in the folder of a checkpoint for reading.

    Raises: FileNotFoundError; CorruptCheckpointError if it is a link or not a regular file.
    """
    try:
        # Opening a pipe must not block.
        opened = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            _damaged(
                folder, asked, f"{name} is a link, or not a file", "copy it without links: cp -rL"
            )
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        _damaged(folder, asked, f"{name} is not a file")
    return opened


def _index(content: Any) -> Index:
    leaves = content["leaves"]
    if not isinstance(leaves, list):
        raise ValueError("its leaves are not a list")
    for leaf in leaves:
        require_leaf(leaf)
    entries = tuple(_entry(leaf) for leaf in leaves)
    if len({entry.path for entry in entries}) != len(entries):
        raise ValueError("two leaves have the same path")
    require_tree(content["tree"], len(entries))
    require_apart([each for entry in entries for each in _places(entry)])
    return Index(content["tree"], entries, content["metadata"])


def _places(entry: Entry) -> list[tuple[str, int, int]]:
    if not entry.blocks:
        return []
    size = entry.stored_dtype.itemsize
    return [(b.file, b.offset, math.prod(b.shape) * size) for b in entry.blocks]


def _entry(leaf: Any) -> Entry:
    values = {name: leaf[name] for name in LEAF} | {"shape": tuple(leaf["shape"])}
    blocks = []
    for block in leaf["blocks"]:
        known = {name: block[name] for name in _BLOCK}
        known |= {"start": tuple(block["start"]), "shape": tuple(block["shape"])}
        blocks.append(Block(**known))
    return Entry(**values, blocks=tuple(blocks))


def _damaged(folder: Path, asked: str, wrong: str, remedy: str = _REMEDY) -> NoReturn:
    raise CorruptCheckpointError(
        three_lines(
            f"{asked} at {current_source()}",
            f"the index {folder / NAME} is damaged: {wrong}",
            remedy,
        )
    )
