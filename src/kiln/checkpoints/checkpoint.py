"""Reading checkpoints: the whole tree, as saved or onto other shardings, or single paths."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from kiln.api.arrays import device_put, make_array_from_callback
from kiln.base.errors import CorruptCheckpointError, three_lines
from kiln.base.files.writing import PathLike
from kiln.base.options.config import override
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import keystr, tree_map_with_path
from kiln.checkpoints.blocks import BlockReader
from kiln.checkpoints.data_files import DataFiles, open_inside
from kiln.checkpoints.entries import Entry
from kiln.checkpoints.index import Index, read_index
from kiln.checkpoints.leaves import ARRAYS, PYTHON, leaves_with_paths, python_value, rebuilt
from kiln.checkpoints.matching import (
    Wanted,
    dtype_of,
    require_fits,
    shape_of,
    wanted_as_saved,
    wanted_by_target,
)
from kiln.checkpoints.saving import FILES
from kiln.checkpoints.shardings import Rebuilder
from kiln.core.arrays.array import from_host, with_type
from kiln.core.arrays.placement import adopted_shards
from kiln.core.arrays.shards import cuts
from kiln.core.arrays.transfers import explicit
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.random.keys import wrap_key_data
from kiln.serialization.files import load as load_file

Placement = Sharding | Callable[[str], Sharding | None] | None
"""The shardings of arrays: one for all, or a function of the path (None: not committed)."""

_TRIES = 5


class Checkpoint(Mapping[str, Any]):
    """A saved checkpoint, open for reading: a mapping from paths to leaves, which are read lazily.

    A path joins the names from the root to the leaf by `/`. The checkpoint stays readable, until it
    is closed, even if another is saved under its name, unless more than 128 processes wrote it.

    Raises: FileNotFoundError, CorruptCheckpointError.
    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/step"
        >>> _ = kiln.checkpoints.save(folder, {"layer": {"w": jnp.ones(2), "b": jnp.zeros(2)}})
        >>> checkpoint = kiln.checkpoints.Checkpoint(folder)
        >>> list(checkpoint)
        ['layer/b', 'layer/w']
        >>> checkpoint["layer/w"]
        Array([1., 1.], dtype=float32)
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self._asked = f"checkpoints.Checkpoint({os.fspath(path)!r})"
        self._index, self._files = _opened(self.path, self._asked)
        self._entries = {entry.path: entry for entry in self._index.entries}
        self.close = weakref.finalize(self, self._files.close)
        """Close the files."""

    @property
    def metadata(self) -> Any:
        """The metadata passed to `save`."""
        return self._index.metadata

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.close()

    @api_boundary
    def __getitem__(self, path: str) -> Any:
        entry = self._entries[path]
        wanted = wanted_as_saved([entry], self._asked)
        require_fits(self._entries, wanted, self._asked)
        return self._read(entry, wanted[path])

    @api_boundary
    def read(self, path: str, sharding: Sharding | None = None) -> Any:
        """Return one leaf; an array gets the sharding, or is not committed.

        Only the blocks that this process needs are read.

        Raises: KeyError, CheckpointError, CorruptCheckpointError, ValueError if it is closed.
        """
        entry = self._entries[path]
        wanted = wanted_as_saved([entry], self._asked, ignore_shardings=True)
        wanted = _placed(wanted, {path: entry}, sharding)
        require_fits(self._entries, wanted, f"{self._asked}.read({path!r})")
        return self._read(entry, wanted[path])

    def structs(self) -> Any:
        """Return the tree with a `ShapeDtypeStruct` in place of each array; no array is read.

        It can be passed to `restore` as the target. The structs have the shardings of the arrays if
        the devices are present.
        """
        rebuilder = Rebuilder()
        return self._tree(_struct(entry, rebuilder) for entry in self._index.entries)

    @api_boundary
    def restore(
        self, target: Any = None, *, sharding: Placement = None, strict: bool = True
    ) -> Any:
        """Return the tree that was saved; see `kiln.checkpoints.restore`."""
        asked = f"checkpoints.restore({str(self.path)!r})"
        if target is None:
            wanted = wanted_as_saved(self._entries.values(), asked, sharding is not None)
        else:
            pairs, treedef = leaves_with_paths(target)
            wanted = wanted_by_target(self._entries, pairs, strict, asked)
        wanted = _placed(wanted, self._entries, sharding)
        require_fits(self._entries, wanted, asked)
        if target is None:
            return self._tree(self._read(e, wanted[e.path]) for e in self._index.entries)
        return treedef.unflatten(
            [self._read(self._entries[path], wanted[path]) for path, _ in pairs]
        )

    @api_boundary
    def verify(self) -> None:
        """Read all blocks and verify their checksums.

        Raises: CorruptCheckpointError that lists every damaged path.
        """
        wrong = []
        for entry in self._entries.values():
            if entry.kind in ARRAYS:
                try:
                    self._reader(entry.path).whole()
                except CorruptCheckpointError as error:
                    wrong.append(str(error).splitlines()[1])
        if wrong:
            raise CorruptCheckpointError(
                three_lines(
                    f"{self._asked}.verify() at {current_source()}",
                    "; ".join(wrong),
                    "the other paths can be read: Checkpoint(folder)[path]",
                )
            )

    def __repr__(self) -> str:
        nbytes = sum(entry.nbytes for entry in self._entries.values())
        return f"Checkpoint({str(self.path)!r}, {len(self)} leaves, {nbytes} bytes)"

    def _tree(self, leaves: Iterator[Any]) -> Any:
        found = list(leaves)
        try:
            return rebuilt(self._index.tree, iter(found))
        except RecursionError:
            raise CorruptCheckpointError(
                three_lines(
                    f"{self._asked} at {current_source()}",
                    "the tree is nested deeper than Python's recursion limit allows",
                    "read its leaves by their paths: Checkpoint(folder)[path]",
                )
            ) from None

    def _reader(self, path: str) -> BlockReader:
        if self._files.is_closed:
            raise ValueError(
                three_lines(
                    f"{self._asked} at {current_source()}",
                    f"{path} is read after the checkpoint was closed",
                    "read it before, or open the checkpoint again",
                )
            )
        return BlockReader(self._entries[path], self._index.blocks, self._files, self._asked)

    @explicit
    def _read(self, entry: Entry, how: Wanted) -> Any:
        if entry.kind == "none":
            return None
        if entry.kind in PYTHON:
            return python_value(entry.kind, entry.value or "")
        reader = self._reader(entry.path)
        if how.kind == "numpy":
            return reader.whole()
        if how.kind == "scalar":
            return reader.whole()[()]
        made = _array(entry, reader, how.sharding)
        return with_type(made, made.aval.with_(weak_type=True)) if how.weak else made


def _array(entry: Entry, reader: BlockReader, sharding: Sharding | None) -> Any:
    dtype = entry.stored_dtype
    if sharding is None:
        made: Any = from_host(reader.whole(), ShapedArray(entry.shape, dtype))
    elif sharding.unreduced or not sharding.addressable_order or not dtype.itemsize:
        # With the dtype that was saved, even if it has 64 bits and `enable_x64` is off.
        with override(enable_x64=True):
            made = make_array_from_callback(entry.shape, sharding, reader.region, dtype)
    else:
        parts: list[np.ndarray] = []
        for index, first in cuts(sharding, entry.shape):
            parts.append(reader.region(index) if first == len(parts) else parts[first])
        made = adopted_shards(ShapedArray(entry.shape, dtype), sharding, parts)
    if entry.implementation is None:
        return made
    keys = wrap_key_data(made, impl=entry.implementation)
    return keys if sharding is None else device_put(keys, sharding)


def _struct(entry: Entry, rebuilder: Rebuilder) -> Any:
    if entry.kind == "none":
        return None
    if entry.kind in PYTHON:
        return python_value(entry.kind, entry.value or "")
    sharding = None if entry.sharding is None else rebuilder.sharding(entry.sharding)
    return ShapeDtypeStruct(
        shape_of(entry), dtype_of(entry), sharding=sharding, weak_type=entry.weak
    )


def _placed(
    wanted: Mapping[str, Wanted], entries: Mapping[str, Entry], sharding: Placement
) -> dict[str, Wanted]:
    """Return how leaves are restored if `sharding` determines the placement of arrays."""
    if sharding is None:
        return dict(wanted)
    found = {}
    for path, how in wanted.items():
        if entries[path].kind in ARRAYS:
            place = sharding if isinstance(sharding, Sharding) else sharding(path)
            if place is not None:
                how = Wanted("array", place, how.weak)
            elif how.kind == "array":
                how = Wanted("array", None, how.weak)
        found[path] = how
    return found


def _opened(folder: Path, asked: str) -> tuple[Index, DataFiles]:
    """Return the index and its files, opened unless they are many; missing ones are left out."""
    files = DataFiles(lambda name: open_inside(folder, name, asked))
    index = read_index(folder, asked)
    try:
        for _ in range(_TRIES):
            if files.hold(index.blocks.files):
                break
            # A save may have replaced index and files since the index was read.
            again = read_index(folder, asked)
            # Each save chooses new random names for its files.
            if again.blocks.files == index.blocks.files:
                break
            index = again
    except BaseException:
        files.close()
        raise
    return index, files


@api_boundary
def restore(
    path: PathLike,
    target: Any = None,
    *,
    sharding: Placement = None,
    strict: bool = True,
) -> Any:
    """Return the tree that `save` wrote.

    Without a target, arrays are restored onto the devices they were on, and containers of classes
    other than dict, list and tuple as dicts. With a target (arrays, or `ShapeDtypeStruct`s with
    shardings) the result has the target's structure, and each array is placed like the target's:
    NumPy arrays stay on the host. `sharding` overrides the placement: a sharding, or a function of
    the path. Unless `strict`, paths that are missing in the target are left out.

    A path with the suffix `.safetensors` or `.npz` is read as such a file: nested dicts of arrays.

    Raises: CheckpointError that lists every path that is missing or unexpected, or has another
        shape or dtype; CorruptCheckpointError that names the path whose bytes are damaged;
        FileNotFoundError.
    """
    if Path(path).suffix not in FILES:
        with Checkpoint(path) as checkpoint:
            return checkpoint.restore(target, sharding=sharding, strict=strict)
    loaded = load_file(path, target, strict=strict)
    if sharding is None:
        return loaded

    def place(keys: Any, leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray) and not hasattr(leaf, "sharding"):
            return leaf
        path = keystr(keys, simple=True, separator="/")
        where = sharding if isinstance(sharding, Sharding) else sharding(path)
        return leaf if where is None else device_put(leaf, where)

    return tree_map_with_path(place, loaded)
