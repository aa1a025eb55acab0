"""Matching a checkpoint with a target: every difference, by path, before anything is read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.base import dtypes
from kiln.base.errors import CheckpointError, three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.checkpoints.entries import Entry
from kiln.checkpoints.leaves import ARRAYS, PYTHON
from kiln.checkpoints.shardings import Rebuilder, device_count_of
from kiln.core.arrays.array import ConcreteArray
from kiln.ir.shardings.sharding import Sharding, misfit
from kiln.random.keys import key_dtype

_MOST_LISTED = 10


class Wanted(Record):
    """How to restore a leaf: as an "array" (also keys), "numpy", "scalar", or as a Python value."""

    kind: str
    sharding: Sharding | None
    weak: bool


def shape_of(entry: Entry) -> tuple[int, ...]:
    """Return the shape of a leaf; keys are stored as words along an extra last axis.

    `entry` is the row of the index that describes the leaf.
    """
    return entry.shape[:-1] if entry.implementation else entry.shape


def dtype_of(entry: Entry) -> Any:
    """Return the dtype of a leaf.

    `entry` is the row of the index that describes the leaf; typed keys have the dtype of their
    generator.
    """
    return key_dtype(entry.implementation) if entry.implementation else entry.stored_dtype


def wanted_by_target(
    entries: Mapping[str, Entry],
    target: Sequence[tuple[str, Any]],
    strict: bool,
    asked: str,
) -> dict[str, Wanted]:
    """Return how to restore the leaves of a target.

    Raises: CheckpointError that lists all missing and unexpected paths, shapes and dtypes.
    """
    found: dict[str, Wanted] = {}
    problems, kinds = [], set()
    for path, leaf in target:
        entry = entries.get(path)
        if entry is None:
            problems.append(f"{_shown(path)} is missing in the checkpoint")
            kinds.add("missing")
            continue
        wrong = _difference(entry, leaf)
        if wrong:
            problems.append(f"{_shown(path)}: {wrong}")
            kinds.add("other")
        found[path] = _wanted(entry, leaf)
    names = {path for path, _ in target}
    if strict:
        for path in entries:
            if path not in names:
                problems.append(f"{_shown(path)} is missing in the target")
                kinds.add("unexpected")
    if problems:
        remedy = "pass a target like the saved tree, for example Checkpoint(folder).structs()"
        if kinds == {"unexpected"}:
            remedy = "pass strict=False to leave out what the target does not have"
        _refuse(asked, problems, remedy)
    return found


def _difference(entry: Entry, leaf: Any) -> str:
    """Describe how a leaf of the checkpoint differs from the target's; "" if it does not."""
    shape, dtype = getattr(leaf, "shape", None), getattr(leaf, "dtype", None)
    if shape is None or dtype is None or isinstance(leaf, type):
        kind = "none" if leaf is None else type(leaf).__name__
        if kind == entry.kind:
            return ""
        return f"the checkpoint has {_a_kind(entry)}, the target {_a(kind)}"
    if entry.kind not in ARRAYS:
        return f"the checkpoint has {_a_kind(entry)}, the target an array"
    wrong = []
    if tuple(shape) != shape_of(entry):
        wrong.append(f"the checkpoint has the shape {shape_of(entry)}, the target {tuple(shape)}")
    if dtype != dtype_of(entry):
        wrong.append(
            f"the checkpoint has the dtype {dtypes.long_name(dtype_of(entry))}, the target "
            f"{dtypes.long_name(dtype)}"
        )
    return ", and ".join(wrong)


def _a_kind(entry: Entry) -> str:
    return "an array" if entry.kind in ARRAYS else _a(entry.kind)


def _a(kind: str) -> str:
    if kind == "none":
        return "None"
    return f"a Python {kind}" if kind in PYTHON else f"a value of type {kind}"


def _wanted(entry: Entry, leaf: Any) -> Wanted:
    if isinstance(leaf, np.generic):
        return Wanted("scalar", None, False)
    if isinstance(leaf, np.ndarray):
        return Wanted("numpy", None, False)
    if entry.kind not in ARRAYS:
        return Wanted(entry.kind, None, False)
    placed = not isinstance(leaf, ConcreteArray) or leaf.committed
    sharding = getattr(leaf, "sharding", None) if placed else None
    return Wanted("array", sharding, bool(getattr(leaf, "weak_type", False)))


def wanted_as_saved(
    entries: Iterable[Entry], asked: str, ignore_shardings: bool = False
) -> dict[str, Wanted]:
    """Return how to restore leaves as they were.

    Raises: CheckpointError if arrays were on devices that do not exist here.
    """
    found, problems, rebuilder = {}, [], Rebuilder()
    for entry in entries:
        kind = "array" if entry.kind == "keys" else entry.kind
        sharding = None
        if entry.sharding is not None and not ignore_shardings:
            sharding = rebuilder.sharding(entry.sharding)
            if sharding is None:
                count = device_count_of(entry.sharding)
                problems.append(
                    f"{_shown(entry.path)} was on {count} devices, not all of which exist here"
                )
        found[entry.path] = Wanted(kind, sharding, entry.weak)
    if problems:
        _refuse(
            asked,
            problems,
            "give sharding=..., a sharding or a function of the path; or a target with shardings",
        )
    return found


def require_fits(entries: Mapping[str, Entry], wanted: Mapping[str, Wanted], asked: str) -> None:
    """Check that every array can get the requested sharding.

    Raises: CheckpointError that lists all paths whose shape is not divisible.
    """
    problems = []
    for path, how in wanted.items():
        wrong = misfit(how.sharding, shape_of(entries[path])) if how.sharding is not None else ""
        if wrong:
            problems.append(f"{_shown(path)}: {wrong}")
    if problems:
        _refuse(asked, problems, "choose PartitionSpecs that fit, or fewer devices")


def _shown(path: str) -> str:
    return path or "the leaf"


def _refuse(asked: str, problems: Sequence[str], remedy: str) -> NoReturn:
    listed = "; ".join(problems[:_MOST_LISTED])
    if len(problems) > _MOST_LISTED:
        listed += f"; and {len(problems) - _MOST_LISTED} more"
    raise CheckpointError(three_lines(f"{asked} at {current_source()}", listed, remedy))
