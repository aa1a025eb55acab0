"""Validation of an index: everything that its readers rely on, checked before anything is read.

An index is untrusted. In a valid one the layouts divide the leaves into equal blocks, no offset of
a block is beyond the largest file, and the leaves match the tree. `first_version.py` has what is
different in version 1.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

from kiln.base import dtypes
from kiln.checkpoints.entries import Entry, Layout
from kiln.checkpoints.leaves import ARRAYS, PYTHON, python_value
from kiln.checkpoints.shardings import fits, require_description
from kiln.checkpoints.tables import aligned
from kiln.ops.random.random_bits import NAMES

_SAVE = re.compile(r"[0-9a-f]{32}")
_MOST_PROCESSES = 10**9
_MOST_AXES = 64
"""The maximum rank of a NumPy array."""
END = 2**63
"""Offsets are less than this."""


def require_content(content: Any) -> None:
    """Check the name of the save, and the tables of shardings and layouts.

    Raises: ValueError and KeyError that name what is invalid.
    """
    save = content["save"]
    # Such names cannot refer to anything outside the folder.
    require(isinstance(save, str) and bool(_SAVE.fullmatch(save)), "the name of the save")
    for name in ("leaves", "shardings", "layouts"):
        require(isinstance(content[name], list), f"its {name} are not a list")
    for description in content["shardings"]:
        require_description(description)
    for layout in content["layouts"]:
        require(isinstance(layout, dict), "a layout is not an object")
        grid, owners = layout["grid"], layout["owners"]
        require(are_sizes(grid) and 0 not in grid and len(grid) <= _MOST_AXES, "a grid")
        require(are_sizes(owners), "the owners of blocks")
        require(math.prod(grid) == len(owners), "a layout has another number of blocks")
        require(max(owners) < _MOST_PROCESSES, "the owner of a block")


def require_leaves(leaves: list[Any], shardings: list[Any], layouts: Sequence[Layout]) -> None:
    """Check the leaves of an index with these shardings and layouts.

    Raises: ValueError that names the invalid field.
    """
    total = 0
    for leaf in leaves:
        itemsize = require_leaf(leaf)
        with named(leaf):
            sharding, number = leaf["sharding"], leaf["layout"]
            if itemsize is None:
                require((sharding, number) == (None, None), "a value, not an array, has parts")
                continue
            if sharding is not None:
                require(is_size(sharding) and sharding < len(shardings), "its sharding")
                require_sharding(leaf, shardings[sharding])
            require(is_size(number) and number < len(layouts), "its layout")
            total += _nbytes_in(layouts[number], leaf["shape"], itemsize)
            require(total < END, "the checkpoint is too large")


def require_sharding(leaf: dict[str, Any], description: dict[str, Any]) -> None:
    """Check that a leaf can have the sharding of a description, which was checked.

    Raises: ValueError.
    """
    kind, shape = leaf["kind"], leaf["shape"]
    require(kind in ("array", "keys"), "a sharding of an array on the host")
    # The words of keys are not sharded.
    wanted = shape[:-1] if kind == "keys" else shape
    require(fits(description, wanted), "its sharding does not fit its shape")


def _nbytes_in(layout: Layout, shape: Sequence[int], itemsize: int) -> int:
    grid = layout.grid
    require(len(grid) == len(shape), "its layout has other axes")
    require(not any(n % p for n, p in zip(shape, grid, strict=True)), "its blocks are not equal")
    return len(layout.owners) * aligned(math.prod(shape) // len(layout.owners) * itemsize)


def require_leaf(leaf: Any) -> int | None:
    """Check the description of a leaf, without its parts; return the bytes of an element.

    None for a value that is not an array.

    Raises: ValueError that names the invalid field.
    """
    require(isinstance(leaf, dict), "a leaf is not an object")
    kind = leaf.get("kind")
    require(isinstance(leaf.get("path"), str), "a leaf has no path")
    with named(leaf):
        require(kind == "none" or kind in ARRAYS or kind in PYTHON, f"the kind {kind!r:.40}")
        if kind in ARRAYS:
            return _require_array(leaf)
        nothing = (leaf["dtype"], leaf["shape"], leaf["weak"])
        require(nothing == (None, [], False), "a value, not an array, has parts")
        require(
            leaf["implementation"] is None, "a value that is not a key has a key implementation"
        )
        if kind == "none":
            require(leaf["value"] is None, "None has a value")
        else:
            require(isinstance(leaf["value"], str), "a value is not a string")
            python_value(kind, leaf["value"])
    return None


@contextlib.contextmanager
def named(leaf: dict[str, Any]) -> Iterator[None]:
    """Put the path of a leaf before what is wrong with it.

    Raises: ValueError.
    """
    try:
        yield
    except KeyError as error:
        raise ValueError(f"{leaf['path'][:80]!r}: the field {error} is missing") from None
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{leaf['path'][:80]!r}: {error}") from None


def require_tree(tree: Any, entries: Sequence[Entry]) -> None:
    """Check that a description of a tree has the leaves, whose paths differ.

    Raises: ValueError; RecursionError if it is nested too deeply.
    """
    require(len({entry.path for entry in entries}) == len(entries), "two leaves have the same path")
    found = _leaves(tree)
    require(found == len(entries), f"the tree has {found} leaves, and the index {len(entries)}")


def _require_array(leaf: dict[str, Any]) -> int:
    kind, shape, name = leaf["kind"], leaf["shape"], leaf["dtype"]
    require(leaf["value"] is None, "an array has a value")
    require(isinstance(leaf["weak"], bool), "weak is neither true nor false")
    require(isinstance(name, str) and (name in dtypes.SUPPORTED or name == "float0"), "its dtype")
    require(are_sizes(shape) and len(shape) <= _MOST_AXES, "its shape")
    require(kind != "scalar" or not shape, "a scalar has axes")
    itemsize = 0 if name == "float0" else dtypes.SUPPORTED[name].itemsize
    require(math.prod(filter(None, shape)) * max(itemsize, 1) < END, "its shape is too large")
    made = leaf["implementation"]
    require((made is None) == (kind != "keys"), "the generator of its keys")
    if kind == "keys":
        known = isinstance(made, str) and made in NAMES
        require(known, f"the generator {made!r:.40} of its keys")
        words = dtypes.KeyDtype(NAMES[made]).words
        require(name == "uint32" and shape[-1:] == [words], "the words of its keys")
    return itemsize


def _leaves(tree: Any) -> int:
    if tree is None:
        return 1
    require(isinstance(tree, dict), "a node of the tree is not an object")
    kinds = set(tree)
    if kinds in ({"list"}, {"tuple"}):
        (children,) = tree.values()
        require(isinstance(children, list), "the children of a node are not a list")
        return sum(map(_leaves, children))
    require(kinds in ({"dict"}, {"dict", "class"}), "a node of the tree is of an unknown kind")
    pairs = tree["dict"]
    require(isinstance(pairs, list) and all(map(_is_pair, pairs)), "the children of a node")
    return sum([_leaves(child) for _, child in pairs])


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and type(value[0]) in (str, int, bool)


def is_size(value: Any) -> bool:
    """Tell whether a value is a number that can be a size or an offset."""
    return type(value) is int and 0 <= value < END


def are_sizes(values: Any) -> bool:
    """Tell whether a value is a list of sizes."""
    return isinstance(values, list) and all(map(is_size, values))


def require(holds: bool, wrong: str) -> None:
    """Raise ValueError with what is wrong unless a condition holds."""
    if not holds:
        raise ValueError(f"what it says is wrong: {wrong}")
