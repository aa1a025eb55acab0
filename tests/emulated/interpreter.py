"""A Python that the system does not have, as Debian builds it: unpacked without root.

    PATH="$(python -m tests.emulated.interpreter 3.14):$PATH" make wheels

It runs on the C library of its own release, which may be newer than the system's.
"""

from __future__ import annotations

import contextlib
import platform
import re
import shutil
import sys
from pathlib import Path

from tests.emulated import debian
from tests.structure.source_tree import REPOSITORY

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
LOADERS = {"x86_64": "ld-linux-x86-64.so.2", "aarch64": "ld-linux-aarch64.so.1"}


def prepare(version: str) -> Path:
    """Unpack the interpreter under build/ unless it is there, and return the folder of its program.

    Raises: ValueError if no release of Debian has the version.
    """
    machine = platform.machine()
    root = REPOSITORY / "build" / f"python-{version}"
    names = [f"python{version}-venv", f"libpython{version}-dev", "libstdc++6", "libgomp1"]
    debian.unpack(names, debian.release_with(version), _ARCHITECTURES[machine], root)
    usr, multiarch = root / "usr", f"{machine}-linux-gnu"
    write_program(usr / "bin" / f"python{version}", usr / "lib" / multiarch)
    # The header that includes this one relies on a compiler's search for headers of the system.
    include = usr / "include" / multiarch / f"python{version}" / "pyconfig.h"
    shutil.copy2(include, usr / "include" / f"python{version}" / "pyconfig.h")
    # Where `venv` finds pip.
    for path in (usr / "lib" / f"python{version}").glob("_sysconfig*"):
        text = re.sub(r"(?<=['\"])/usr(?=/share/python-wheels/)", str(usr), path.read_text())
        path.write_text(text)
    return usr / "bin"


def write_program(program: Path, libraries: Path) -> None:
    """Replace a program by a script that starts it with its own loader, under the same name.

    So the environments that it makes, whose Python links here, and what they start run too.
    """
    binary = program.with_name(f"{program.name}.binary")
    if not binary.exists():
        program.rename(binary)
    loader = libraries / LOADERS[platform.machine()]
    script = f'exec {loader} --library-path {libraries} --argv0 "$0" {binary} "$@"'
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


if __name__ == "__main__":
    with contextlib.redirect_stdout(sys.stderr):
        folder = prepare(sys.argv[1])
    print(folder)
