"""Saving trees to files and loading them: atomic writes, arrays restored to their devices."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.files.writing import PathLike, write_atomically
from kiln.base.source import current_source
from kiln.serialization.host_arrays import place_like
from kiln.serialization.messages import msgpack_restore, to_bytes
from kiln.serialization.npz import from_npz, to_npz
from kiln.serialization.safetensors import from_safetensors, pieces
from kiln.serialization.state_dicts import from_state_dict, to_state_dict

_SUFFIXES = (".msgpack", ".npz", ".safetensors")


def save(path: PathLike, target: Any, *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree to a file: `.msgpack` in Flax's format, `.safetensors`, or `.npz`.

    The file is replaced atomically, once it is complete. `metadata` holds strings for a
    `.safetensors` file.

    Raises: ValueError for another suffix, TypeError and ValueError for values that cannot be saved.
    """
    suffix = _suffix("save", path)
    if suffix == ".safetensors":
        write_atomically(path, pieces(target, metadata))
        return
    if metadata is not None:
        raise ValueError(
            three_lines(
                f"save({str(path)!r}, ..., metadata=...) at {current_source()}",
                "only .safetensors files have metadata",
                "make the strings part of the tree",
            )
        )
    write_atomically(path, [to_npz(target) if suffix == ".npz" else to_bytes(target)])


def load(path: PathLike, target: Any = None, *, strict: bool = True) -> Any:
    """Load the tree from a file written by `save`, Flax or another program.

    With a target (arrays, or the result of `kiln.eval_shape`) the tree has its structure, and each
    array is placed like the target's. Without one, it is nested dicts of NumPy arrays. Unless
    `strict`, names that the target does not have are ignored.

    Raises: ValueError with the path, for missing or unexpected names, wrong shapes and wrong
        dtypes.
    """
    suffix = _suffix("load", path)
    data = Path(path).read_bytes()
    try:
        if suffix == ".safetensors":
            loaded = from_safetensors(target, data, strict)
        elif suffix == ".npz":
            loaded = from_npz(target, data, strict)
        else:
            state = msgpack_restore(data)
            if strict and target is not None:
                _refuse_unexpected(to_state_dict(target), state)
            loaded = from_state_dict(target, state)
    except ValueError as error:
        raise ValueError(f"load({os.fspath(path)!r}): {error}") from None
    return loaded if target is None else place_like(target, loaded)


def _suffix(function: str, path: PathLike) -> str:
    suffix = Path(path).suffix
    if suffix not in _SUFFIXES:
        raise ValueError(
            three_lines(
                f"{function}({os.fspath(path)!r}) at {current_source()}",
                f"the suffix determines the format, and {suffix!r} is not one of {_SUFFIXES}",
                f"name the file {Path(path).with_suffix('.msgpack').name!r}; or use to_bytes, "
                "from_bytes, to_safetensors, from_safetensors, to_npz, from_npz",
            )
        )
    return suffix


def _refuse_unexpected(wanted: Any, state: Any) -> None:
    unexpected = list(_unexpected(wanted, state, "."))
    if unexpected:
        raise ValueError(
            three_lines(
                f"{len(unexpected)} names in the file are not in the target at {current_source()}",
                f"unexpected: {', '.join(unexpected)}",
                "pass strict=False to leave them out, or load without a target to see all",
            )
        )


def _unexpected(wanted: Any, state: Any, path: str) -> Iterator[str]:
    if not isinstance(wanted, dict) or not isinstance(state, dict):
        return
    for key, child in state.items():
        if key in wanted:
            yield from _unexpected(wanted[key], child, f"{path}/{key}")
        else:
            yield f"{path}/{key}"
