"""The index of a checkpoint: the tree, its leaves, and which file holds which block of them.

It is a JSON file: `{"format": ..., "version": 1, "crc32": ..., "content": {...}}`, where the
checksum is that of the content as `_canonical` writes it. Every process writes its blocks to a file
of its own; one index names them all.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import CheckpointError, CorruptCheckpointError, three_lines
from kiln.base.lazy import json
from kiln.base.records import Record
from kiln.base.source import current_source

NAME = "index.json"
_FORMAT = "kiln checkpoint"
_VERSION = 1


class Block(Record):
    """A block of an array: where it starts in the array, and where its bytes are."""

    start: tuple[int, ...]
    shape: tuple[int, ...]
    file: str
    offset: int
    crc32: int


class Entry(Record):
    """What the index says of a leaf, as `leaves.Held`, with blocks in place of parts."""

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


def index_bytes(index: Index) -> bytes:
    """Return the content of an index file."""
    content = {
        "tree": index.tree,
        "metadata": index.metadata,
        "leaves": [
            {name: getattr(entry, name) for name in LEAF}
            | {"blocks": [{n: getattr(b, n) for n in _BLOCK} for b in entry.blocks]}
            for entry in index.entries
        ],
    }
    text = _canonical(content)
    head = {"format": _FORMAT, "version": _VERSION, "crc32": zlib.crc32(text)}
    return _canonical(head)[:-1] + b',"content":' + text + b"}\n"


def _canonical(value: Any) -> bytes:
    return bytes(json.dumps(value, separators=(",", ":")).encode())


def read_index(folder: Path, asked: str, name: str = NAME) -> Index:
    """Read the index of a checkpoint, or of the part of one that a process wrote.

    Raises: FileNotFoundError if there is none, CorruptCheckpointError if it is damaged,
        CheckpointError if a later version of kiln wrote it.
    """
    try:
        data = (folder / name).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            three_lines(
                f"{asked} at {current_source()}",
                f"{folder} is not a checkpoint: there is no {name} in it",
                "name the folder that kiln.checkpoints.save wrote",
            )
        ) from None
    try:
        found = json.loads(data)
        version, content = found["version"], found["content"]
        if found["format"] != _FORMAT:
            raise ValueError(f"the format is {found['format']}")
    except (ValueError, KeyError, TypeError) as error:
        _damaged(folder, asked, f"{type(error).__name__}: {error}")
    if version != _VERSION:
        raise CheckpointError(
            three_lines(
                f"{asked} at {current_source()}",
                f"the checkpoint has version {version} of the format, and this kiln reads version "
                f"{_VERSION}",
                "read it with the version of kiln that wrote it",
            )
        )
    if zlib.crc32(_canonical(content)) != found.get("crc32"):
        _damaged(folder, asked, "its checksum is another")
    try:
        entries = tuple(_entry(leaf) for leaf in content["leaves"])
        return Index(content["tree"], entries, content["metadata"])
    except (ValueError, KeyError, TypeError) as error:
        _damaged(folder, asked, f"{type(error).__name__}: {error}")


def _entry(leaf: Any) -> Entry:
    values = {name: leaf[name] for name in LEAF} | {"shape": tuple(leaf["shape"])}
    blocks = []
    for block in leaf["blocks"]:
        known = {name: block[name] for name in _BLOCK}
        known |= {"start": tuple(block["start"]), "shape": tuple(block["shape"])}
        blocks.append(Block(**known))
    return Entry(**values, blocks=tuple(blocks))


def _damaged(folder: Path, asked: str, wrong: str) -> NoReturn:
    raise CorruptCheckpointError(
        three_lines(
            f"{asked} at {current_source()}",
            f"the index {folder / NAME} is damaged: {wrong}",
            "restore another checkpoint: kiln.checkpoints.Checkpoints(folder).steps() lists them",
        )
    )
