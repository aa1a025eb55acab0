"""The container of an exported program: its serialized form, which JAX writes and reads, too.

It is a flatbuffers table (`layout.py`). Types and shardings are stored in tables of their own and
referred to by number, and again where releases before April 2026 expect them. kiln appends a
checksum to the table, and marks that by an identifier at the front; JAX ignores both.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from kiln.base.errors import InconclusiveSizeError, three_lines
from kiln.base.files.checksums import is_marked, with_checksum, without_checksum
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import PyTreeDef
from kiln.export.constraints import facts_of_text
from kiln.export.layout import STORED_VERSION
from kiln.export.tables import has_identifier, read, write
from kiln.export.trees import tree_of, tree_table
from kiln.export.types import (
    mesh_of,
    mesh_table,
    spec_of,
    spec_table,
    type_of,
    type_table,
)
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.sizes.facts import facts_of
from kiln.ir.types import ShapedArray

_PLATFORM, _CUSTOM_CALL = range(2)
_WITH_CHECKSUM = b"KILN"
Shardings = tuple[NamedSharding | None, ...]


class Contents(Record, eq=False):
    """The contents of a container; `platform_check` and `custom_calls` are the disabled checks."""

    fun_name: str
    in_tree: PyTreeDef
    out_tree: PyTreeDef
    in_avals: tuple[ShapedArray, ...]
    out_avals: tuple[ShapedArray, ...]
    in_shardings: Shardings
    out_shardings: Shardings
    nr_devices: int
    platforms: tuple[str, ...]
    any_platform: bool
    custom_calls: tuple[str, ...]
    module: bytes
    kept: tuple[int, ...]
    is_refined: bool
    calling_convention_version: int
    vjp: Contents | None = None


def to_bytes(contents: Contents) -> bytes:
    """Serialize a container.

    Raises: ValueError, TypeError or NotImplementedError for trees and types that cannot be stored.
    """
    return with_checksum(write(_table(contents), "Exported", _WITH_CHECKSUM))


def _table(contents: Contents) -> dict[str, Any]:
    types = list(dict.fromkeys(map(_strong, (*contents.in_avals, *contents.out_avals))))
    shardings = list(
        dict.fromkeys(s for s in (*contents.in_shardings, *contents.out_shardings) if s)
    )
    meshes = list(dict.fromkeys(s.mesh for s in shardings))
    named = [
        {
            "mesh": mesh_table(s.mesh),
            "spec": spec_table(s.spec),
            "mesh_number": meshes.index(s.mesh),
        }
        for s in shardings
    ]

    def numbers(found: Shardings) -> list[int]:
        return [0 if s is None else 1 + shardings.index(s) for s in found]

    def written(found: Shardings) -> list[dict[str, Any]]:
        return [{} if s is None else {"named": named[shardings.index(s)]} for s in found]

    checks: list[dict[str, Any]] = [{"kind": _PLATFORM}] * contents.any_platform
    checks += [{"kind": _CUSTOM_CALL, "target": target} for target in contents.custom_calls]
    return {
        "serialization_version": STORED_VERSION,
        "function_name": contents.fun_name,
        "in_tree": tree_table(contents.in_tree),
        "in_avals": list(map(type_table, contents.in_avals)),
        "out_tree": tree_table(contents.out_tree),
        "out_avals": list(map(type_table, contents.out_avals)),
        "in_shardings": written(contents.in_shardings),
        "out_shardings": written(contents.out_shardings),
        "platforms": list(contents.platforms),
        "ordered_effects": [],
        "unordered_effects": [],
        "disabled_checks": checks,
        "module": contents.module,
        "calling_convention_version": contents.calling_convention_version,
        "kept": list(contents.kept),
        "uses_global_constants": contents.is_refined,
        "vjp": None if contents.vjp is None else _table(contents.vjp),
        "nr_devices": contents.nr_devices,
        "types": list(map(type_table, types)),
        "meshes": list(map(mesh_table, meshes)),
        "shardings": named,
        "in_types": [types.index(_strong(aval)) for aval in contents.in_avals],
        "out_types": [types.index(_strong(aval)) for aval in contents.out_avals],
        "in_sharding_numbers": numbers(contents.in_shardings),
        "out_sharding_numbers": numbers(contents.out_shardings),
        "constraints": _constraints(contents),
    }


def _constraints(contents: Contents) -> list[str] | None:
    facts = facts_of(*[dim for aval in contents.in_avals for dim in aval.shape])
    return None if facts is None else [fact.text for fact in facts.facts]


def _strong(aval: ShapedArray) -> ShapedArray:
    return aval.with_(weak_type=False)


def from_bytes(stored: bytes) -> tuple[Contents, bool]:
    """Return the contents of a container, and whether a checksum protects them.

    Raises: ValueError for bytes that are not a container, for an unknown class of tree nodes, and
        for a program with shardings that kiln does not support; NotImplementedError for one with
        effects, or with sizes that kiln does not support.
    """
    try:
        is_checked = has_identifier(stored, _WITH_CHECKSUM) or is_marked(stored)
        table = without_checksum(stored) if is_checked else stored
        fields = read(table, "Exported")
        if not is_checked:
            fields["constraints"] = []
        return _contents(fields), is_checked
    except InconclusiveSizeError as error:
        raise NotImplementedError(
            three_lines(
                f"loading an exported program at {current_source()}",
                "its types have a size that kiln cannot express: "
                + str(error).splitlines()[0].removeprefix("sizes: "),
                "divide sizes by constants only, or export it for constant sizes",
            )
        ) from None
    except (
        AttributeError,
        IndexError,
        OverflowError,
        RecursionError,
        TypeError,
        struct.error,
    ) as error:
        raise _unreadable(stored, error) from None
    except ValueError as error:
        # Three-line errors already say what to do.
        if str(error).count("\n") == 2:
            raise
        raise _unreadable(stored, error) from None


def _unreadable(stored: bytes, error: BaseException) -> ValueError:
    return ValueError(
        three_lines(
            f"loading an exported program from {len(stored)} bytes at {current_source()}",
            f"they are not what Exported.serialize() writes: {type(error).__name__}: {error}",
            "pass all bytes, unchanged",
        )
    )


def _contents(table: dict[str, Any]) -> Contents:
    if not table["module"] or not table["platforms"]:
        raise ValueError("it has no program")
    name = table["function_name"]
    effects = [each["name"] for each in table["ordered_effects"] + table["unordered_effects"]]
    if effects:
        raise NotImplementedError(
            three_lines(
                f"loading the exported program {name} at {current_source()}",
                f"cannot deserialize effect type {', '.join(effects)}: kiln runs only "
                "stored programs without effects",
                "export a function without effects",
            )
        )
    meshes = list(map(mesh_of, table["meshes"]))
    named = [_sharding(each, meshes) for each in table["shardings"]]
    facts = facts_of_text(table["constraints"])
    types = [type_of(each, facts) for each in table["types"]]

    def avals(numbers: str, written: str) -> tuple[ShapedArray, ...]:
        if table[numbers]:
            return tuple([types[i] for i in table[numbers]])
        return tuple([type_of(each, facts) for each in table[written]])

    def shardings(numbers: str, written: str) -> Shardings:
        if table[numbers]:
            return tuple([named[i - 1] if i else None for i in table[numbers]])
        return tuple([_written_sharding(each, table["nr_devices"]) for each in table[written]])

    in_tree, out_tree = tree_of(table["in_tree"]), tree_of(table["out_tree"])
    in_avals, out_avals = avals("in_types", "in_avals"), avals("out_types", "out_avals")
    if len(in_avals) != in_tree.num_leaves or len(out_avals) != out_tree.num_leaves:
        raise ValueError("the numbers of leaves of its trees differ from the numbers of types")
    checks = table["disabled_checks"]
    return Contents(
        fun_name=name,
        in_tree=in_tree,
        out_tree=out_tree,
        in_avals=in_avals,
        out_avals=out_avals,
        in_shardings=shardings("in_sharding_numbers", "in_shardings"),
        out_shardings=shardings("out_sharding_numbers", "out_shardings"),
        nr_devices=table["nr_devices"] or table["nr_devices_short"],
        platforms=tuple(table["platforms"]),
        any_platform=any(each["kind"] == _PLATFORM for each in checks),
        custom_calls=tuple([c["target"] for c in checks if c["kind"] == _CUSTOM_CALL]),
        module=table["module"],
        kept=tuple(table["kept"]),
        is_refined=bool(table["uses_global_constants"]),
        calling_convention_version=table["calling_convention_version"],
        vjp=None if table["vjp"] is None else _contents(table["vjp"]),
    )


def _sharding(table: dict[str, Any], meshes: Sequence[Any]) -> NamedSharding:
    mesh = meshes[table["mesh_number"]] if meshes else mesh_of(table["mesh"])
    return NamedSharding(mesh, spec_of(table["spec"]))


def _written_sharding(table: dict[str, Any], nr_devices: int) -> NamedSharding | None:
    if table["named"] is not None:
        return _sharding(table["named"], ())
    if table["hlo"] and nr_devices > 1:
        raise ValueError("its shardings are in the format before January 2026, without named axes")
    return None
