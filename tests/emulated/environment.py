"""An environment for aarch64 under build/: Debian's Python, packages, the tree, kiln's wheel."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile

from tests.emulated import debian
from tests.structure.source_tree import REPOSITORY

FOLDER = REPOSITORY / "build" / "aarch64"
ROOT, PYTHON, TREE = FOLDER / "root", FOLDER / "venv" / "bin" / "python", FOLDER / "tree"
PROGRAM, COMPILER = PYTHON.parent / "emulated", PYTHON.parent / "cc"
"""Commands that run a program, and that compile C, for aarch64."""
_VERSION = "3.11"
_PACKAGES = FOLDER / "venv" / "lib" / f"python{_VERSION}" / "site-packages"
_INCLUDE = ROOT / "usr" / "include"
_PLATFORMS = [f"manylinux_2_{n}_aarch64" for n in (17, 24, 26, 27, 28)] + ["manylinux2014_aarch64"]
# The emulator's own has matrix instructions; the results of OpenBLAS's kernels for them are wrong.
_PROCESSOR = "neoverse-n1"
_TRIPLE = "aarch64-linux-gnu.2.28"
_TAG = "manylinux_2_28_aarch64"
_EMULATORS = ("qemu-aarch64", "qemu-aarch64-static")
_DEBIAN = (f"python{_VERSION}", f"libpython{_VERSION}-dev", "libstdc++6", "libgomp1")


def prepare() -> None:
    """Make all that is missing, and build kiln's wheel again where its sources have changed."""
    debian.unpack(_DEBIAN, "arm64", ROOT)
    _write_commands(_emulator())
    _install_packages()
    _copy_tree()
    _install_kiln()


def _emulator() -> str:
    """Return the path of the emulator: the system's, or Debian's, linked statically."""
    for name in _EMULATORS:
        found = shutil.which(name)
        if found is not None:
            return found
    folder = FOLDER / "emulator"
    debian.unpack(["qemu-user-static"], "amd64", folder)
    return str(folder / "usr" / "bin" / _EMULATORS[1])


def _write_commands(emulator: str) -> None:
    """Write a virtual environment whose Python starts itself under the emulator; a C compiler.

    Its own name is its first argument, so that programs that it starts with `sys.executable` are
    emulated too.
    """
    PYTHON.parent.mkdir(parents=True, exist_ok=True)
    run = f"{emulator} -cpu {_PROCESSOR} -L {ROOT}"
    for path, command in {
        PYTHON: f'{run} -0 "$0" {ROOT}/usr/bin/python{_VERSION}',
        PROGRAM: run,
        COMPILER: f"{sys.executable} -m ziglang cc -target {_TRIPLE}",
    }.items():
        path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        path.chmod(0o755)
    config = f"home = {ROOT}/usr/bin\ninclude-system-site-packages = false\nversion = {_VERSION}\n"
    (FOLDER / "venv" / "pyvenv.cfg").write_text(config)


def _install_packages() -> None:
    """Install what kiln and its tests need, as wheels for aarch64."""
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *extras["test"], *extras["examples"]]
    stamp, text = FOLDER / "packages.txt", "\n".join(needed)
    if stamp.exists() and stamp.read_text() == text:
        return
    print(f"NumPy, jaxlib and others for aarch64, into {_PACKAGES}", flush=True)
    shutil.rmtree(_PACKAGES, ignore_errors=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
    command += ["--target", str(_PACKAGES), "--only-binary=:all:", "--python-version", _VERSION]
    command += [f"--platform={name}" for name in _PLATFORMS]
    subprocess.run([*command, "--implementation", "cp", *needed], check=True)
    stamp.write_text(text)


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
    wheels = FOLDER / "wheels"
    shutil.rmtree(wheels, ignore_errors=True)
    options = {
        "CMAKE_TOOLCHAIN_FILE": f"{REPOSITORY}/cmake/aarch64-linux.cmake",
        "CMAKE_CXX_FLAGS": f"-idirafter {_INCLUDE}",
        "Python_INCLUDE_DIR": f"{_INCLUDE}/python{_VERSION}",
        "Python_NumPy_INCLUDE_DIR": f"{_PACKAGES}/numpy/_core/include",
        "KILN_CROSS": "aarch64",
    }
    env = {
        **os.environ,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{_VERSION.replace('.', '')}-aarch64-linux-gnu.so",
        "SKBUILD_CMAKE_DEFINE": ";".join(f"{key}={value}" for key, value in options.items()),
        "SKBUILD_BUILD_DIR": str(FOLDER / "objects"),
    }
    print("kiln's wheel for aarch64", flush=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel"]
    command += ["--no-build-isolation", "--no-deps", "--wheel-dir", str(wheels), str(REPOSITORY)]
    subprocess.run(command, check=True, env=env)
    (wheel,) = wheels.glob("*.whl")
    tagging = [sys.executable, "-m", "wheel", "tags", "--remove", f"--platform-tag={_TAG}"]
    subprocess.run([*tagging, str(wheel)], check=True, stdout=subprocess.DEVNULL)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        for name in files.namelist():
            if name.startswith("kiln/_runtime.") and not name.endswith(".pyi"):
                files.extract(name, TREE / "src")
            elif ".dist-info/" in name:
                files.extract(name, _PACKAGES)
    (_PACKAGES / "kiln.pth").write_text(f"{TREE}/src\n")
