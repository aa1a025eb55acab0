"""Tables as bytes, and bytes that are none."""

from __future__ import annotations

import struct

import numpy as np
import pytest

pytest.importorskip("flatbuffers")

from kiln.export.layout import OWN, TABLES
from kiln.export.tables import read, write

VALUES = {
    "function_name": "fµn",
    "in_tree": {"kind": 2, "children": [{"kind": 0}, {"kind": 4, "keys": ["a"], "children": []}]},
    "platforms": ["cpu", "tpu"],
    "module": b"\0\1\2",
    "kept": [0, 300],
    "in_types": [1 << 20],
    "nr_devices": 70000,
    "calling_convention_version": 10,
    "uses_global_constants": True,
    "vjp": {"function_name": "inner"},
    "types": [{"shape": ["b", "2"], "dtype": 10}],
}


def test_what_is_written_is_read():
    found = read(write(VALUES, "Exported"), "Exported")
    for name in ("function_name", "platforms", "module", "kept", "in_types", "nr_devices"):
        assert found[name] == VALUES[name]
    assert found["uses_global_constants"] is True and found["vjp"]["function_name"] == "inner"
    assert [child["kind"] for child in found["in_tree"]["children"]] == [0, 4]
    assert found["in_tree"]["children"][1]["keys"] == ["a"]
    assert found["types"][0]["shape"] == ["b", "2"]


def test_what_is_not_stored():
    found = read(write({}, "Exported"), "Exported")
    assert found.keys() == TABLES["Exported"].keys()
    assert found["nr_devices"] == 0 and found["vjp"] is None and found["platforms"] == []


def test_the_numbers_of_a_table_are_its_own():
    for table, fields in TABLES.items():
        slots = [slot for slot, _ in fields.values() if slot < OWN]
        assert slots == list(range(len(slots))), table


def test_a_table_that_is_referred_to_again_and_again():
    # Forty levels of trees, each with the next one as both of its children.
    begin = struct.pack("<I6HiI", 16, 10, 8, 0, 0, 4, 0, 12, 12)
    level = struct.pack("<4HiIIII", 8, 8, 0, 4, 8, 4, 2, 16, 12)
    stored = begin + 40 * level + struct.pack("<4Hi", 0, 0, 4, 4, 4)
    with pytest.raises(ValueError, match="more than"):
        read(stored, "Exported")


def test_damaged_bytes_are_an_error_or_other_values():
    stored = write(VALUES, "Exported")
    rng = np.random.default_rng(0)
    for _ in range(300):
        damaged = bytearray(stored[: rng.integers(len(stored))] if rng.integers(2) else stored)
        if damaged:
            damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
        try:
            assert read(bytes(damaged), "Exported").keys() == TABLES["Exported"].keys()
        except (ValueError, IndexError, TypeError, struct.error):
            continue
