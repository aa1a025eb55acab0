"""What pkg-config and CMake read of a library, and its description in JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.lazy import json
from kiln.core.engines.linking import MACOS_TARGET, LinkedCode
from kiln.export.libraries.header import ABI_VERSION
from kiln.export.libraries.signature import Array, Signature, Struct
from kiln.ir.sizes.size import Dim


def dropping(target: str) -> str:
    """Return the option for C compilers by which linkers for a `target` drop unused code."""
    return "-Wl,-dead_strip" if target == MACOS_TARGET else "-Wl,--gc-sections"


def shared_ending(target: str) -> str:
    """Return what names of shared libraries for a `target` end with."""
    return "dylib" if target == MACOS_TARGET else "so"


def pkg_config(prefix: str, code: LinkedCode, version: str, blas: Sequence[str]) -> str:
    """Return the file for pkg-config: it is found in the folder of the library."""
    return (
        f"libdir=${{pcfiledir}}\n\nName: {prefix}\n"
        f"Description: Functions compiled by kiln for {code.target}\n"
        f"Version: {version}\nCflags: -I${{libdir}}\n"
        f"Libs: -L${{libdir}} -l{prefix} {' '.join([*blas, '-lm'])} {dropping(code.target)}\n"
    )


def cmake_config(prefix: str, target: str, blas: Sequence[str], *, has_shared: bool) -> str:
    """Return the file for CMake's `find_package`: targets with the static and shared library."""
    rest = ";".join([*blas, "m"])
    lines = []
    kinds = (("STATIC", "a"), ("SHARED", shared_ending(target)))
    for kind, ending in kinds[: 1 + has_shared]:
        imported = f"{prefix}::{prefix}" + ("_shared" if kind == "SHARED" else "")
        links = ""
        if kind == "STATIC":
            links = f'\n    INTERFACE_LINK_LIBRARIES "{rest}"'
            links += f'\n    INTERFACE_LINK_OPTIONS "{dropping(target)}"'
        lines.append(
            f"if(NOT TARGET {imported})\n  add_library({imported} {kind} IMPORTED)\n"
            f"  set_target_properties({imported} PROPERTIES\n"
            f'    IMPORTED_LOCATION "${{CMAKE_CURRENT_LIST_DIR}}/lib{prefix}.{ending}"\n'
            f'    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_LIST_DIR}}"{links})\nendif()\n'
        )
    return "".join(lines)


def description(
    prefix: str, signatures: Sequence[Signature], code: LinkedCode, versions: dict[str, str]
) -> str:
    """Return the description of a library: signatures, sizes, target, versions."""
    functions = [
        {
            "symbol": signature.symbol,
            "function": signature.fun_name,
            "sizes": list(signature.sizes),
            "workspace_bytes": _dim(workspace),
            "arguments": [
                {"name": each.name, "type": each.type_name or "array", **_described(each.value)}
                for each in signature.arguments
            ],
        }
        for signature, workspace in zip(signatures, code.workspaces, strict=True)
    ]
    found = {
        "name": prefix,
        "abi_version": ABI_VERSION,
        "target": code.target,
        "needs_blas": code.needs_blas,
        "constant_bytes": code.constant_bytes,
        "externals": list(code.externals),
        "versions": versions,
        "functions": functions,
    }
    text: str = json.dumps(found, indent=2)
    return text + "\n"


def _described(value: Array | Struct) -> dict[str, Any]:
    if isinstance(value, Struct):
        return {"fields": [{"name": f.name, **_described(f)} for f in value.fields]}
    return {
        "path": value.path,
        "dtype": value.dtype,
        "shape": [_dim(size) for size in value.shape],
        "direction": "in"
        if not value.is_written
        else "out"
        if value.leaf.operand is None
        else "inout",
    }


def _dim(size: Dim) -> int | str:
    return size if isinstance(size, int) else str(size)
