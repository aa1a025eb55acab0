"""The collective operations of compiled programs, read from their text: how much each exchanges."""

from __future__ import annotations

import math
import re

from kiln.base.named_tuples import NamedTuple

KINDS = ("all-reduce", "all-gather", "reduce-scatter", "collective-permute", "all-to-all")
_MODULE = re.compile(r"^HloModule ([\w.\-]+)")
_KIND = "|".join(KINDS)
_LINE = re.compile(rf"^\s*(?:ROOT )?%?(\S+) = (.*?) ({_KIND})(?:-start)?\((.*)$", re.MULTILINE)
_SHAPE = re.compile(r"\b([a-z]+[0-9]*)\[([0-9,]*)\]")
_GROUP = re.compile(r"replica_groups=\{\{([0-9,]+)\}")
_IOTA = re.compile(r"replica_groups=\[[0-9]+,([0-9]+)\]")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\] \{([^}]*)\}")
_AXIS = re.compile(r"'([^']+)'=([0-9]+)")
_PART = re.compile(r"'([^']+)'(?::\([0-9]+\)([0-9]+))?")
"""An axis of a mesh, or a part of one, such as `'x'` and `'x':(2)4`."""
_BYTES = {"pred": 1, "bf16": 2, "c64": 8, "c128": 16}


class Collective(NamedTuple):
    """An operation: its kind, the bytes of its operands on a device, and how many exchange them."""

    kind: str
    nbytes: int
    size: int


known: dict[tuple[str, str], Collective] = {}
"""The operations of the programs that were compiled while the option `profile` was set.

Keys are the names of the program and of the operation.
"""


def note_collectives(text: str) -> None:
    """Add the operations of a program."""
    module = _MODULE.match(text)
    name = module[1] if module else ""
    for operation, types, kind, rest in _LINE.findall(text):
        size = _size(rest)
        nbytes = sum(
            _width(dtype) * math.prod(map(int, filter(None, shape.split(","))))
            for dtype, shape in _SHAPE.findall(types)
        )
        if kind == "all-gather":
            nbytes //= size
        elif kind == "reduce-scatter":
            nbytes *= size
        known[name, operation] = Collective(kind, nbytes, size)


def _size(text: str) -> int:
    """Return how many devices exchange data; 2 for a permutation, where each has one partner."""
    if group := _GROUP.search(text):
        return group[1].count(",") + 1
    if iota := _IOTA.search(text):
        return int(iota[1])
    if mesh := _MESH.search(text):
        sizes = dict(_AXIS.findall(mesh[1]))
        return math.prod(int(part or sizes[axis]) for axis, part in _PART.findall(mesh[2]))
    return 2


def _width(dtype: str) -> int:
    if dtype in _BYTES:
        return _BYTES[dtype]
    digits = re.search(r"[0-9]+", dtype)
    return max(1, int(digits[0]) // 8) if digits else 1
