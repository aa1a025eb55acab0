"""Flatbuffers tables as dicts, written and read by the field numbers of `layout.py`.

Fields that are not stored read as 0, None or an empty list; unknown fields are ignored.
"""

from __future__ import annotations

import struct
from typing import Any

from kiln.base.lazy import flatbuffers, flatbuffers_table
from kiln.export.layout import TABLES

_NUMBERS = {
    "bool": ("Bool", "<?"),
    "i8": ("Int8", "<b"),
    "i16": ("Int16", "<h"),
    "u16": ("Uint16", "<H"),
    "u32": ("Uint32", "<I"),
}
_OFFSET = 4
_DEEPEST = 200
"""The maximum nesting depth of tables: cyclic references are damage."""
_IDENTIFIER_AT = 4


def write(values: dict[str, Any], table: str, identifier: bytes | None = None) -> bytes:
    """Serialize a table, given the fields to store.

    The identifier, of four bytes, is that of the file type; readers may ignore it.
    """
    builder = flatbuffers.Builder(1 << 12)
    builder.Finish(_write(builder, values, table), identifier)
    return bytes(builder.Output())


def has_identifier(stored: bytes, identifier: bytes) -> bool:
    """Tell whether a table was written with an identifier.

    `stored` is a serialized table; the identifier is at a fixed offset.
    """
    return stored[_IDENTIFIER_AT : _IDENTIFIER_AT + len(identifier)] == identifier


def _write(builder: Any, values: dict[str, Any], table: str) -> int:
    fields = TABLES[table]
    # Children are written before the table that refers to them.
    placed = {
        name: value if fields[name][1] in _NUMBERS else _referred(builder, value, fields[name][1])
        for name, value in values.items()
        if value is not None
    }
    builder.StartObject(1 + max(slot for slot, _ in fields.values()))
    for name, value in placed.items():
        slot, kind = fields[name]
        if kind in _NUMBERS:
            getattr(builder, f"Prepend{_NUMBERS[kind][0]}Slot")(slot, value, 0)
        else:
            builder.PrependUOffsetTRelativeSlot(slot, value, 0)
    return int(builder.EndObject())


def _referred(builder: Any, value: Any, kind: str) -> int:
    if kind == "string":
        return int(builder.CreateString(value))
    if kind == "bytes":
        return int(builder.CreateByteVector(value))
    if not kind.startswith("["):
        return _write(builder, value, kind)
    inner = kind[1:-1]
    if inner in _NUMBERS:
        name, code = _NUMBERS[inner]
        size = struct.calcsize(code)
        builder.StartVector(size, len(value), size)
        for each in reversed(value):
            getattr(builder, f"Prepend{name}")(each)
    else:
        offsets = [_referred(builder, each, inner) for each in value]
        builder.StartVector(_OFFSET, len(offsets), _OFFSET)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def read(stored: bytes, table: str) -> dict[str, Any]:
    """Return the fields of the table at the start of the bytes.

    Raises: ValueError, IndexError, struct.error and the like for other bytes.
    """
    (start,) = struct.unpack_from("<I", stored, 0)
    return _Reading(stored).table(start, table, 0)


class _Reading:
    """Bytes that are read at most once: shared references cannot expand beyond their size."""

    def __init__(self, stored: bytes) -> None:
        self._stored = stored
        self._left = len(stored)

    def _take(self, size: int, what: str, at: int) -> None:
        self._left -= size
        if self._left < 0:
            raise ValueError(f"{what} at byte {at}, beside more than {len(self._stored)} bytes")

    def table(self, at: int, table: str, depth: int) -> dict[str, Any]:
        stored = self._stored
        if depth > _DEEPEST or not 0 <= at <= len(stored) - _OFFSET:
            raise ValueError(f"a table {table} at byte {at} of {len(stored)}")
        self._take(_OFFSET, f"a table {table}", at)
        view = flatbuffers_table.Table(stored, at)
        found: dict[str, Any] = {}
        for name, (slot, kind) in TABLES[table].items():
            offset = view.Offset(4 + 2 * slot)
            place = at + offset if offset else None
            found[name] = self._field(place, kind, depth)
        return found

    def _field(self, place: int | None, kind: str, depth: int) -> Any:
        if kind in _NUMBERS:
            code = _NUMBERS[kind][1]
            return 0 if place is None else struct.unpack_from(code, self._stored, place)[0]
        if place is None:
            return [] if kind.startswith("[") else None
        return self._followed(place, kind, depth)

    def _followed(self, place: int, kind: str, depth: int) -> Any:
        """Return the object at an offset."""
        stored = self._stored
        at = place + struct.unpack_from("<I", stored, place)[0]
        if kind in TABLES:
            return self.table(at, kind, depth + 1)
        (count,) = struct.unpack_from("<I", stored, at)
        at += _OFFSET
        inner = kind[1:-1]
        size = 1 if kind in ("string", "bytes") else _OFFSET
        if inner in _NUMBERS:
            size = struct.calcsize(_NUMBERS[inner][1])
        if at + count * size > len(stored):
            raise ValueError(f"{count} elements at byte {at} of {len(stored)}")
        self._take(count * size, f"{count} elements", at)
        if kind == "string":
            return stored[at : at + count].decode()
        if kind == "bytes":
            return stored[at : at + count]
        places = range(at, at + count * size, size)
        if inner in _NUMBERS:
            return [struct.unpack_from(_NUMBERS[inner][1], stored, i)[0] for i in places]
        return [self._followed(i, inner, depth) for i in places]
