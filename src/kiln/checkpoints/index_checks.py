"""Validation of an index: everything that its readers rely on, checked before anything is read.

An index is untrusted. A valid one names only files in its own folder; its blocks are inside their
arrays and do not overlap; its leaves match the tree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from kiln.base import dtypes
from kiln.checkpoints.leaves import ARRAYS, PYTHON, python_value
from kiln.checkpoints.shardings import require_description
from kiln.ops.random.random_bits import NAMES

FILE = re.compile(r"data-[0-9]{1,9}-[0-9a-f]{32}\.bin")
"""The names of the files that hold blocks."""
_MOST_AXES = 64
"""The maximum rank of a NumPy array."""
_END = 2**63


def require_leaf(leaf: Any) -> None:
    """Check the description of a leaf.

    Raises: ValueError that names the invalid field.
    """
    _require(isinstance(leaf, dict), "a leaf is not an object")
    path, kind = leaf.get("path"), leaf.get("kind")
    _require(isinstance(path, str), "a leaf has no path")
    try:
        _require(kind == "none" or kind in ARRAYS or kind in PYTHON, f"the kind {kind!r:.40}")
        if kind in ARRAYS:
            _require_array(leaf)
        else:
            nothing = (leaf["dtype"], leaf["shape"], leaf["weak"], leaf["sharding"], leaf["blocks"])
            _require(nothing == (None, [], False, None, []), "a value, not an array, has parts")
            _require(
                leaf["implementation"] is None, "a value that is not a key has a key implementation"
            )
            if kind == "none":
                _require(leaf["value"] is None, "None has a value")
            else:
                _require(isinstance(leaf["value"], str), "a value is not a string")
                python_value(kind, leaf["value"])
    except KeyError as error:
        raise ValueError(f"{path[:80]!r}: the field {error} is missing") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{path[:80]!r}: {error}") from None


def require_tree(tree: Any, count: int) -> None:
    """Check the description of a tree with `count` leaves.

    Raises: ValueError; RecursionError if it is nested too deeply.
    """
    found = _leaves(tree)
    _require(found == count, f"the tree has {found} leaves, and the index {count}")


def require_apart(blocks: Sequence[tuple[str, int, int]]) -> None:
    """Check that blocks, each a file, an offset and a number of bytes, share no bytes.

    Otherwise a small file could expand to any amount of memory.

    Raises: ValueError.
    """
    ends: dict[str, int] = {}
    for file, offset, size in sorted(block for block in blocks if block[2]):
        _require(offset >= ends.get(file, 0), f"two blocks share bytes of {file}")
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


def _require_array(leaf: dict[str, Any]) -> None:
    kind, shape, name = leaf["kind"], leaf["shape"], leaf["dtype"]
    _require(leaf["value"] is None, "an array has a value")
    _require(isinstance(leaf["weak"], bool), "weak is neither true nor false")
    _require(isinstance(name, str) and (name in dtypes.SUPPORTED or name == "float0"), "its dtype")
    _require(_are_sizes(shape) and len(shape) <= _MOST_AXES, "its shape")
    _require(kind != "scalar" or not shape, "a scalar has axes")
    itemsize = 0 if name == "float0" else dtypes.SUPPORTED[name].itemsize
    _require(math.prod(filter(None, shape)) * max(itemsize, 1) < _END, "its shape is too large")
    made = leaf["implementation"]
    _require((made is None) == (kind != "keys"), "the generator of its keys")
    if kind == "keys":
        known = isinstance(made, str) and made in NAMES
        _require(known, f"the generator {made!r:.40} of its keys")
        words = dtypes.KeyDtype(NAMES[made]).words
        _require(name == "uint32" and shape[-1:] == [words], "the words of its keys")
    if leaf["sharding"] is not None:
        _require(kind in ("array", "keys"), "a sharding of an array on the host")
        require_description(leaf["sharding"])
    _require(isinstance(leaf["blocks"], list), "its blocks")
    for block in leaf["blocks"]:
        _require_block(block, shape, itemsize)


def _require_block(block: Any, shape: Sequence[int], itemsize: int) -> None:
    _require(isinstance(block, dict), "a block is not an object")
    start, extent, offset, crc = (block[n] for n in ("start", "shape", "offset", "crc32"))
    _require(_are_sizes(start) and _are_sizes(extent), "where a block is")
    _require(len(start) == len(extent) == len(shape), "a block has other axes")
    inside = all(a + n <= size for a, n, size in zip(start, extent, shape, strict=True))
    _require(inside, "a block is not in the array")
    name = block["file"]
    _require(isinstance(name, str), "a block has no file")
    # Such names cannot refer to anything outside the folder.
    _require(bool(FILE.fullmatch(name)), f"{name[:80]!r} is not the name of a file of blocks")
    _require(_is_size(offset) and _is_size(crc) and crc < 2**32, "where the bytes of a block are")
    _require(offset + math.prod(extent) * itemsize < _END, "where the bytes of a block are")


def _leaves(tree: Any) -> int:
    if tree is None:
        return 1
    _require(isinstance(tree, dict), "a node of the tree is not an object")
    kinds = set(tree)
    if kinds in ({"list"}, {"tuple"}):
        (children,) = tree.values()
        _require(isinstance(children, list), "the children of a node are not a list")
        return sum(map(_leaves, children))
    _require(kinds in ({"dict"}, {"dict", "class"}), "a node of the tree is of an unknown kind")
    pairs = tree["dict"]
    _require(isinstance(pairs, list) and all(map(_is_pair, pairs)), "the children of a node")
    return sum([_leaves(child) for _, child in pairs])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) in (str, int, bool)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 <= value < _END


def _are_sizes(values: Any) -> bool:
    return isinstance(values, list) and all(map(_is_size, values))


def _require(holds: bool, wrong: str) -> None:
    if not holds:
        raise ValueError(f"what it says is wrong: {wrong}")
