"""The tables of the container of exported programs: fields by number, in JAX's format.

The numbers are those of JAX 0.10; fields may be added to a table, but never change their numbers. A
kind is a number type (`u16`), `string`, `bytes`, the name of a table, or one of these in brackets
for a vector.
"""

from __future__ import annotations

from collections.abc import Mapping

Fields = Mapping[str, tuple[int, str]]

STORED_VERSION = 3
"""The version of the format: readers from 2025 accept no other number."""

OWN = 128
"""Fields from this number on are kiln's: JAX, which has far fewer, ignores them."""

TABLES: Mapping[str, Fields] = {
    "Exported": {
        "serialization_version": (0, "u16"),
        "function_name": (1, "string"),
        "in_tree": (2, "Tree"),
        "in_avals": (3, "[Type]"),
        "out_tree": (4, "Tree"),
        "out_avals": (5, "[Type]"),
        "nr_devices_short": (6, "i16"),
        "in_shardings": (7, "[Sharding]"),
        "out_shardings": (8, "[Sharding]"),
        "platforms": (9, "[string]"),
        "ordered_effects": (10, "[Effect]"),
        "unordered_effects": (11, "[Effect]"),
        "disabled_checks": (12, "[Check]"),
        "module": (13, "bytes"),
        "calling_convention_version": (14, "u16"),
        "kept": (15, "[u16]"),
        "uses_global_constants": (16, "bool"),
        "vjp": (17, "Exported"),
        "nr_devices": (18, "u32"),
        "types": (19, "[Type]"),
        "meshes": (20, "[Mesh]"),
        "shardings": (21, "[NamedSharding]"),
        "in_types": (22, "[u32]"),
        "out_types": (23, "[u32]"),
        "in_sharding_numbers": (24, "[u32]"),
        "out_sharding_numbers": (25, "[u32]"),
        "constraints": (OWN, "[string]"),
    },
    "Tree": {
        "kind": (0, "i8"),
        "children": (1, "[Tree]"),
        "keys": (2, "[string]"),
        "class_name": (3, "string"),
        "data": (4, "bytes"),
    },
    "Type": {
        "kind": (0, "i8"),
        "shape": (1, "[string]"),
        "dtype": (2, "i8"),
        "memory": (3, "i8"),
    },
    "Sharding": {"kind": (0, "i8"), "hlo": (1, "bytes"), "named": (2, "NamedSharding")},
    "NamedSharding": {
        "mesh": (0, "Mesh"),
        "spec": (1, "Spec"),
        "memory_kind": (2, "string"),
        "mesh_number": (3, "u32"),
    },
    "Mesh": {
        "sizes": (0, "[u32]"),
        "names": (1, "[string]"),
        "kinds": (2, "[i8]"),
        "device": (3, "Device"),
    },
    "Device": {"kind": (0, "string"), "cores": (1, "u32"), "platform": (2, "string")},
    "Spec": {"entries": (0, "[Axes]"), "reduced": (1, "[string]"), "unreduced": (2, "[string]")},
    "Axes": {"names": (0, "[string]")},
    "Effect": {"name": (0, "string")},
    "Check": {"kind": (0, "i8"), "target": (1, "string")},
}
