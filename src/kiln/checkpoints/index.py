"""The index of a checkpoint: the tree, its leaves, and how each is divided into blocks.

It is a JSON file: `{"format": ..., "version": 2, "crc32": ..., "content": {...}}`, with the
checksum of the content as `_canonical` writes it. Leaves share tables of shardings and layouts, so
that its size does not depend on the number of blocks. Where the bytes of a block are follows from
it (`plan.py`); their checksums are in the file of the process that wrote them (`tables.py`).
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from kiln.base.errors import CheckpointError, three_lines
from kiln.base.lazy import json
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.checkpoints.data_files import INDEX, DataFiles, open_inside, refuse_index
from kiln.checkpoints.entries import Block, Box, Entry, Layout, Numbered
from kiln.checkpoints.first_version import listed_blocks
from kiln.checkpoints.index_checks import require_content, require_leaves, require_tree
from kiln.checkpoints.plan import Plan

VERSION = 2
_FORMAT = "kiln checkpoint"

_LEAF = ("path", "kind", "value", "dtype", "shape", "weak", "implementation")


class Blocks(Protocol):
    """Where the blocks of all leaves are."""

    @property
    def files(self) -> set[str]:
        """The names of the files that hold blocks."""
        ...

    def covering(self, entry: Entry, box: Box, files: DataFiles) -> Sequence[Block]:
        """Return the blocks of a leaf that hold the elements of a region.

        Raises: Damage if there is none for some of them.
        """
        ...


class Index(Record):
    """The content of an index file."""

    tree: Any
    entries: tuple[Entry, ...]
    metadata: Any
    blocks: Blocks


def index_bytes(tree: Any, entries: Sequence[Entry], metadata: Any, save: str) -> bytes:
    """Return the content of an index file.

    `save` is the name of the save, which the names of its data files contain.
    """
    shardings: Numbered[Any] = Numbered(_canonical)
    layouts: Numbered[Layout] = Numbered(lambda layout: layout)
    leaves = []
    for entry in entries:
        leaf = {name: getattr(entry, name) for name in _LEAF}
        leaf["sharding"] = None if entry.sharding is None else shardings.number(entry.sharding)
        leaf["layout"] = None if entry.layout is None else layouts.number(entry.layout)
        leaves.append(leaf)
    content = {
        "tree": tree,
        "metadata": metadata,
        "save": save,
        "shardings": shardings.values,
        "layouts": [{"grid": each.grid, "owners": each.owners} for each in layouts.values],
        "leaves": leaves,
    }
    text = _canonical(content)
    head = {"format": _FORMAT, "version": VERSION, "crc32": zlib.crc32(text)}
    return _canonical(head)[:-1] + b',"content":' + text + b"}\n"


def _canonical(value: Any) -> bytes:
    return bytes(json.dumps(value, separators=(",", ":")).encode())


def read_index(folder: Path, asked: str) -> Index:
    """Read the index of a checkpoint.

    Raises: FileNotFoundError if there is none, CorruptCheckpointError if it is damaged,
        CheckpointError if a later version of kiln wrote it.
    """
    try:
        with open(open_inside(folder, INDEX, asked), "rb") as file:
            data = file.read()
    except (FileNotFoundError, NotADirectoryError):
        raise FileNotFoundError(
            three_lines(
                f"{asked} at {current_source()}",
                f"{folder} is not a checkpoint: there is no {INDEX} in it",
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
        refuse_index(folder, asked, f"{type(error).__name__}: {error}")
    reader = _READERS.get(version) if isinstance(version, int) else None
    if reader is None:
        raise CheckpointError(
            three_lines(
                f"{asked} at {current_source()}",
                f"the checkpoint has version {version!r:.80} of the format, and this kiln reads "
                f"the versions up to {VERSION}",
                "read it with the version of kiln that wrote it",
            )
        )
    if zlib.crc32(text) != found.get("crc32"):
        refuse_index(folder, asked, "its checksum does not match")
    try:
        return reader(content)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        refuse_index(folder, asked, f"{type(error).__name__}: {error}")


def _second(content: Any) -> Index:
    require_content(content)
    leaves, shardings = content["leaves"], content["shardings"]
    layouts = [Layout(tuple(each["grid"]), tuple(each["owners"])) for each in content["layouts"]]
    require_leaves(leaves, shardings, layouts)
    entries = tuple(
        [
            _entry(
                number,
                leaf,
                None if leaf["sharding"] is None else shardings[leaf["sharding"]],
                None if leaf["layout"] is None else layouts[leaf["layout"]],
            )
            for number, leaf in enumerate(leaves)
        ]
    )
    require_tree(content["tree"], entries)
    plan = Plan(content["save"], entries)
    return Index(content["tree"], entries, content["metadata"], plan)


def _first(content: Any) -> Index:
    blocks = listed_blocks(content["leaves"])
    entries = tuple(
        [
            _entry(number, leaf, leaf["sharding"], None)
            for number, leaf in enumerate(content["leaves"])
        ]
    )
    require_tree(content["tree"], entries)
    return Index(content["tree"], entries, content["metadata"], blocks)


_READERS = {1: _first, VERSION: _second}


def _entry(number: int, leaf: Any, sharding: Any, layout: Layout | None) -> Entry:
    values = {name: leaf[name] for name in _LEAF} | {"shape": tuple(leaf["shape"])}
    return Entry(number=number, sharding=sharding, layout=layout, **values)
