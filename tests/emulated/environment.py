"""An environment for aarch64 under build/: Debian's Python, packages, the tree, kiln's wheel."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

from tests.emulated import debian
from tests.emulated.cross_wheel import (
    FOLDER,
    ROOT,
    TRIPLE,
    VERSION,
    build,
    install_packages,
    unpack_python,
)
from tests.emulated.interpreter import LOADERS
from tests.structure.source_tree import REPOSITORY

PYTHON, TREE = FOLDER / "venv" / "bin" / "python", FOLDER / "tree"
PROGRAM, COMPILER = PYTHON.parent / "emulated", PYTHON.parent / "cc"
"""Commands that run a program, and that compile C, for aarch64."""
_PACKAGES = FOLDER / "venv" / "lib" / f"python{VERSION}" / "site-packages"
# The emulator's own has matrix instructions; the results of OpenBLAS's kernels for them are wrong.
_PROCESSOR = "neoverse-n1"
_EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")


def prepare() -> None:
    """Make all that is missing, and build kiln's wheel again where its sources have changed."""
    unpack_python()
    _write_commands(_emulator())
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["test"], *extras["examples"]]
    install_packages(needed, _PACKAGES)
    _copy_tree()
    _install_kiln()


def _emulator() -> str:
    """Return the path of the emulator: the system's, or Debian's, linked statically."""
    for name in _EMULATORS:
        found = shutil.which(name)
        if found is not None:
            return found
    folder = FOLDER / "emulator"
    debian.unpack(["qemu-user-static"], debian.OLDEST, "amd64", folder)
    return str(folder / "usr" / "bin" / _EMULATORS[1])


def _write_commands(emulator: str) -> None:
    """Write a virtual environment whose Python starts itself under the emulator; a C compiler.

    Its own name is its first argument, so that programs that it starts with `sys.executable` are
    emulated too. The loader is told where its libraries are: with the emulator's option for a
    folder of them, `/` would be this folder for who opens it, and the host's root for all others.
    """
    PYTHON.parent.mkdir(parents=True, exist_ok=True)
    libraries = [f"{ROOT}/{folder}/aarch64-linux-gnu" for folder in ("lib", "usr/lib")]
    loader = next(p for each in libraries if (p := Path(each, LOADERS["aarch64"])).exists())
    run = f"{emulator} -cpu {_PROCESSOR} {loader} --library-path {':'.join(libraries)}"
    for path, command in {
        PYTHON: f'{run} --argv0 "$0" {ROOT}/usr/bin/python{VERSION}',
        PROGRAM: run,
        COMPILER: f"{sys.executable} -m ziglang cc -target {TRIPLE}",
    }.items():
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    config = f"home = {ROOT}/usr/bin\ninclude-system-site-packages = false\nversion = {VERSION}\n"
    (FOLDER / "venv" / "pyvenv.cfg").write_text(config)


def _copy_tree() -> None:
    """Copy the files that git would keep, as they are now."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True).stdout
    kept = set()
    for name in listed.decode().rstrip("\0").split("\0"):
        source, copy = REPOSITORY / name, TREE / name
        if not source.is_file():
            continue
        kept.add(copy)
        if not copy.exists() or copy.stat().st_mtime_ns != source.stat().st_mtime_ns:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy)
    for copy in (TREE / "src", TREE / "tests"):
        for path in copy.rglob("*.py"):
            if path not in kept:
                path.unlink()


def _install_kiln() -> None:
    """Build kiln's wheel, and use its compiled parts in the copy of the tree."""
    with zipfile.ZipFile(build()) as files:
        for name in files.namelist():
            if name.startswith("kiln/_runtime.") and not name.endswith(".pyi"):
                files.extract(name, TREE / "src")
            elif ".dist-info/" in name:
                files.extract(name, _PACKAGES)
    (_PACKAGES / "kiln.pth").write_text(f"{TREE}/src\n")
