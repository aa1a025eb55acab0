"""Libraries for macOS on ARM are linked here, and what they define and need is checked.

Nothing of them runs: there is no macOS. zig brings the list of what its libSystem defines, and
links no program that needs anything else.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, export
from kiln.core.engines.linking import MACOS_TARGET
from kiln.engines.native.library.archive import read_archive
from kiln.engines.native.library.object_files import object_file
from tests.programs.exported import ONE, function_of
from tests.programs.library_cases import GROUPS, calls_of, supported, written
from tests.programs.models import MODELS

RUNTIME = Path(_runtime.__file__).parent / f"_runtime.{MACOS_TARGET}.a"
MISSING = [
    *["zig (pip install ziglang)"] * (importlib.util.find_spec("ziglang") is None),
    *["a static runtime for it (make cross)"] * (not RUNTIME.exists()),
]
pytestmark = [
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)}"),
    pytest.mark.full,
    pytest.mark.timeout(1800),
]
OF_THE_LINKER = {"__mh_dylib_header", "___dso_handle"}
"""Symbols that zig's linker adds to every library."""
LIBSYSTEM = "/usr/lib/libSystem.B.dylib"
ZIG = (sys.executable, "-m", "ziglang", "cc", "-target", "aarch64-macos.11.0")


def _public(folder: Path) -> set[str]:
    """Return the names of a library's functions, from its description."""
    (file,) = folder.glob("*.json")
    described = json.loads(file.read_text())
    name = described["name"]
    names = {f"{name}_{end}" for end in ("create", "destroy", "error", "workspace_size")}
    for function in described["functions"]:
        names |= {function["symbol"], f"{function['symbol']}_workspace_size"}
    return names


def _linked(folders: list[Path], to: Path, *options: str) -> Path:
    """Link a program that refers to all functions of some libraries."""
    names = sorted({name for folder in folders for name in _public(folder)})
    (to / "main.c").write_text(
        "".join(f"void {name}(void);\n" for name in names)
        + f"void (*volatile functions_of_all[])(void) = {{{', '.join(names)}}};\n"
        + "int main(void) { return functions_of_all[0] == 0; }\n"
    )
    archives = [str(next(folder.glob("lib*.a"))) for folder in folders]
    command = [*ZIG, "-o", "main", "main.c", *archives, "-Wl,-dead_strip", *options]
    done = subprocess.run(command, cwd=to, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    return to / "main"


def _check_archive(folder: Path) -> None:
    (file,) = folder.glob("lib*.a")
    name = file.stem.removeprefix("lib")
    for member, content in read_archive(file.read_bytes()):
        for symbol in object_file(content).symbols():
            if symbol.is_defined:
                assert symbol.name.startswith(name), (member, symbol)
            assert not symbol.name.startswith("\1"), (member, symbol)


class _Linked:
    """What a program or a shared library defines, needs, and is signed by."""

    def __init__(self, path: Path) -> None:
        reader = pytest.importorskip("macholib.MachO")
        symbols = pytest.importorskip("macholib.SymbolTable")
        file = reader.MachO(str(path))
        (part,) = file.headers
        assert part.header.cputype == 0x100000C
        commands = [(command.get_cmd_name(), own) for command, _, own in part.commands]
        self.exported = {name.decode() for _, name in symbols.SymbolTable(file).extdefsyms}
        self.own_name = [own for kind, own in commands if kind == "LC_ID_DYLIB"]
        self.libraries = {
            own.rstrip(b"\0").decode() for kind, own in commands if kind == "LC_LOAD_DYLIB"
        }
        self.is_signed = "LC_CODE_SIGNATURE" in dict(commands)


WEIGHTS = np.arange(840, dtype=np.float32).reshape(21, 40)


def _work(x: Any) -> Any:
    return jnp.sort(jnp.fft.rfft(jnp.tanh(x @ x.T)).real @ WEIGHTS)


def test_files_and_symbols(tmp_path: Path) -> None:
    x = np.ones((40, 40), "f")
    path = tmp_path / "work"
    made = export.library(
        kiln.jit(_work), x, name="work", path=path, target=MACOS_TARGET, threads=True, mapped=True
    )
    assert made.target == MACOS_TARGET
    assert {
        "libwork.a", "libwork.dylib", "work.h", "work.hpp", "work.pc", "workConfig.cmake",
    } <= made.files.keys()  # fmt: skip
    assert "libwork.so" not in made.files
    assert "-Wl,-dead_strip" in (path / "work.pc").read_text()
    assert "libwork.dylib" in (path / "workConfig.cmake").read_text()
    _check_archive(path)
    shared = _Linked(path / "libwork.dylib")
    public = _public(path) | {"work_set_threads", "work_map_constants"}
    assert shared.exported - OF_THE_LINKER == {f"_{name}" for name in public}
    assert shared.own_name[0].rstrip(b"\0") == b"@rpath/libwork.dylib"
    assert shared.libraries == {LIBSYSTEM}
    # Processors of this kind run no code without a signature.
    assert shared.is_signed
    _linked([path], tmp_path, "-pthread")
    assert _Linked(tmp_path / "main").libraries == {LIBSYSTEM}


def test_a_program_with_the_shared_library(tmp_path: Path) -> None:
    path = tmp_path / "work"
    export.library(_work, np.ones((40, 40), "f"), name="work", path=path, target=MACOS_TARGET)
    (tmp_path / "main.c").write_text(
        '#include "work.h"\n'
        "static float x[40 * 40], out[40 * 40];\n"
        "int main(void) {\n"
        "  work_context *context = work_create(work_workspace_size());\n"
        "  const int status = work(context, x, out);\n"
        "  work_destroy(context);\n"
        "  return status;\n"
        "}\n"
    )
    command = [*ZIG, "-std=c11", "-Wall", "-Werror", "-o", "main", "main.c", f"-I{path}"]
    subprocess.run([*command, f"-L{path}", "-lwork"], cwd=tmp_path, check=True)
    assert _Linked(tmp_path / "main").libraries == {LIBSYSTEM, "@rpath/libwork.dylib"}


@pytest.mark.parametrize("part", range(4))
def test_models(part: int, tmp_path: Path) -> None:
    folders = []
    for name in list(MODELS)[part::4]:
        path = written(function_of(name, kiln), ONE, name, tmp_path, target=MACOS_TARGET)
        if path is not None:
            _check_archive(path)
            folders.append(path)
    assert folders
    _linked(folders, tmp_path)


@pytest.mark.parametrize("group", range(len(GROUPS)))
def test_cases(group: int, tmp_path: Path) -> None:
    with kiln.enable_x64(True):
        calls = calls_of(supported(group), tmp_path, target=MACOS_TARGET)
    if not calls:
        pytest.skip("none is compiled, or has types that C has")
    folders = [call.folder for call, _, _ in calls]
    for folder in folders:
        _check_archive(folder)
    _linked(folders, tmp_path)
