"""Trees as lists of leaves with paths, and what is kept of each leaf until it is written.

A path joins the names from the root to the leaf by `/`. Lists, tuples, dicts and None are described
in the index, so they are restored without a target; containers of other classes are restored as
dicts by the names of their children.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.process.identity import process_count, process_index
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import KeyPath, keystr, tree_flatten_with_path
from kiln.checkpoints.divisions import Divisions
from kiln.checkpoints.entries import Entry, Layout
from kiln.core.arrays.array import ConcreteArray
from kiln.core.arrays.placement import shards_on_host
from kiln.core.trace import Tracer, require_unmasked
from kiln.random.keys import key_data, key_impl

PYTHON = {"bool": bool, "int": int, "float": float, "complex": complex, "str": str, "bytes": bytes}
"""The Python values that can be leaves, by the name of their kind."""


def python_value(kind: str, text: str) -> Any:
    """Parse a Python value of a kind.

    Raises: ValueError if the text is invalid.
    """
    if kind == "bool":
        if text not in ("True", "False"):
            raise ValueError(f"{text!r:.40} is not a bool")
        return text == "True"
    return bytes.fromhex(text) if kind == "bytes" else PYTHON[kind](text)


ARRAYS = ("array", "keys", "numpy", "scalar")
"""The kinds of leaves that have bytes: arrays, random keys, NumPy's arrays and scalars."""


class Held(Record):
    """What is saved of a leaf: its entry, and the blocks that this process writes, in order."""

    entry: Entry
    parts: tuple[np.ndarray, ...] = ()


def path_text(keys: KeyPath) -> str:
    """Return the path of a leaf as text; `/` and `%` in names are written `%2F` and `%25`.

    `keys` are the entries of the key path.
    """
    return "/".join(map(_name, keys))


def _name(key: Any) -> str:
    name = keystr((key,), simple=True)
    return name.replace("%", "%25").replace("/", "%2F") or "%"


def _is_none(x: Any) -> bool:
    return x is None


def leaves_with_paths(tree: Any) -> tuple[list[tuple[str, Any]], Any]:
    """Return the leaves of a tree, including None, with their paths; and the structure."""
    pairs, treedef = tree_flatten_with_path(tree, _is_none)
    return [(path_text(keys), leaf) for keys, leaf in pairs], treedef


def structure_of(tree: Any) -> Any:
    """Return a description of a tree's containers that can be written as JSON; a leaf is None."""
    pairs, _ = tree_flatten_with_path(tree, lambda x: x is not tree or x is None)
    if len(pairs) == 1 and not pairs[0][0]:
        return None
    children = [structure_of(child) for _, child in pairs]
    if type(tree) in (list, tuple):
        return {type(tree).__name__: children}
    if type(tree) is dict:
        keys = [getattr(path[0], "key", None) for path, _ in pairs]
        names = [key if type(key) in (str, int, bool) else str(key) for key in keys]
        return {"dict": [list(pair) for pair in zip(names, children, strict=True)]}
    names = [keystr(path, simple=True) for path, _ in pairs]
    return {
        "class": f"{type(tree).__module__}.{type(tree).__qualname__}",
        "dict": [list(pair) for pair in zip(names, children, strict=True)],
    }


def rebuilt(structure: Any, leaves: Any) -> Any:
    """Return the tree of a description, with the leaves of an iterator.

    `structure` is the result of `structure_of`: None for a leaf, otherwise a dict.
    """
    if structure is None:
        return next(leaves)
    if "dict" in structure:
        return {key: rebuilt(child, leaves) for key, child in structure["dict"]}
    if "tuple" in structure:
        return tuple([rebuilt(child, leaves) for child in structure["tuple"]])
    return [rebuilt(child, leaves) for child in structure["list"]]


def held(tree: Any, asked: str, copy: bool) -> list[Held]:
    """Return what to write of each leaf; after this, arrays may be donated or deleted.

    With `copy`, NumPy arrays may be modified as well. Views hold the arrays, which prevents a
    donation from reusing their memory.

    Raises: TypeError and ValueError with the path, for leaves that cannot be saved.
    """
    pairs, _ = leaves_with_paths(tree)
    divisions = Divisions()
    found = [
        _held(number, path, leaf, divisions, asked, copy)
        for number, (path, leaf) in enumerate(pairs)
    ]
    if len({path for path, _ in pairs}) != len(pairs):
        paths = [path for path, _ in pairs]
        twice = next(path for i, path in enumerate(paths) if path in paths[:i])
        raise ValueError(
            three_lines(
                f"{asked} at {current_source()}",
                f"two leaves have the path {twice}",
                "use keys whose text differs",
            )
        )
    return found


def _held(number: int, path: str, leaf: Any, divisions: Divisions, asked: str, copy: bool) -> Held:
    if leaf is None:
        return Held(Entry(number, path, "none"))
    if isinstance(leaf, ConcreteArray):
        return _held_array(number, path, leaf, divisions, asked)
    if isinstance(leaf, (np.ndarray, np.generic)):
        require_unmasked(leaf)
        value = np.asarray(leaf)
        if not dtypes.is_supported(value.dtype):
            raise TypeError(
                three_lines(
                    _asked_for(asked, path),
                    f"checkpoints hold numbers, and the array has dtype {value.dtype}",
                    "convert it to numbers; single strings can be leaves as they are",
                )
            )
        value = value.astype(value.dtype.newbyteorder("<"), copy=copy)
        kind = "scalar" if isinstance(leaf, np.generic) else "numpy"
        layout = divisions.whole(value.ndim)
        name = dtypes.long_name(value.dtype)
        entry = Entry(number, path, kind, None, name, value.shape, layout=layout)
        # The same in all processes: process 0 writes it.
        return Held(entry, () if process_index() else (value,))
    kind = type(leaf).__name__
    if PYTHON.get(kind) is type(leaf):
        text = leaf.hex() if type(leaf) is bytes else str(leaf)
        return Held(Entry(number, path, kind, text))
    wrong = f"a checkpoint has no {kind}: its leaves are arrays, numbers, strings and None"
    if isinstance(leaf, Tracer):
        wrong = f"it is a tracer, which has no value: {leaf.aval}"
    raise TypeError(
        three_lines(
            _asked_for(asked, path),
            wrong,
            "return the value from the function and save it outside"
            if isinstance(leaf, Tracer)
            else "save what it holds (of a reference, ref[...]), or take it out of the tree",
        )
    )


def _asked_for(asked: str, path: str) -> str:
    return f"{asked}: the leaf {path or '(the tree itself)'} at {current_source()}"


def _held_array(number: int, path: str, x: ConcreteArray, divisions: Divisions, asked: str) -> Held:
    if x.is_deleted():
        raise ValueError(
            three_lines(
                _asked_for(asked, path),
                f"the array {x.aval} was deleted, or donated to a program",
                "save the result of the program, or save before the call",
            )
        )
    words: Any = x
    implementation = None
    if isinstance(x.dtype, dtypes.KeyDtype):
        keys: Any = x
        words, implementation = key_data(keys), key_impl(keys)
    layout, parts = _divided(words, divisions)
    entry = Entry(
        number,
        path,
        "array" if implementation is None else "keys",
        None,
        dtypes.long_name(words.dtype),
        tuple(words.shape),
        x.aval.weak_type,
        divisions.described(x.sharding, x.ndim) if x.committed and not _is_local(x) else None,
        implementation,
        layout,
    )
    return Held(entry, parts)


def _is_local(x: Any) -> bool:
    """Tell whether an array is on devices of this process alone, of several processes."""
    return process_count() > 1 and bool(x.is_fully_addressable)


def _divided(x: Any, divisions: Divisions) -> tuple[Layout, tuple[np.ndarray, ...]]:
    """Return how an array is divided, and the blocks that this process must write."""
    # The devices of an array without a placement are not queried: that would start the engine that
    # manages devices.
    if process_index() and (not x.committed or x.is_fully_addressable):
        # The same in all processes, as a NumPy array is.
        return divisions.whole(x.ndim), ()
    if not x.committed or len(x.sharding.devices) == 1 or x.sharding.unreduced:
        return divisions.whole(x.ndim), (np.asarray(x),)
    layout, mine = divisions.division(x.sharding, x.ndim)
    return layout, shards_on_host(x, mine)
