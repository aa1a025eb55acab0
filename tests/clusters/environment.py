"""The managers under build/clusters: Open MPI, MPICH and SLURM of Debian, Ray and Dask of PyPI."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.emulated import debian
from tests.structure.source_tree import REPOSITORY

FOLDER = REPOSITORY / "build" / "clusters"
PYTHON = FOLDER / "venv" / "bin" / "python"
PACKAGES = ("ray>=2.40,<3", "distributed>=2025.1", "kubernetes-validate>=1.30")
DEBIAN = {
    "openmpi": ("openmpi-bin",),
    "mpich": ("mpich",),
    "slurm": ("slurmctld", "slurmd", "slurm-client", "munge"),
}
_OF_THE_HOST = ("libc6", "libgcc-s1", "gcc-12-base", "libstdc++6", "adduser", "passwd", "debconf")
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MOST_S = 240.0


def prepare() -> None:
    """Make all that is missing."""
    for name, packages in DEBIAN.items():
        architecture = _ARCHITECTURES[platform.machine()]
        debian.unpack(packages, debian.OLDEST, architecture, FOLDER / name, _OF_THE_HOST)
    stamp, text = FOLDER / "packages.txt", "\n".join(PACKAGES)
    if stamp.exists() and stamp.read_text() == text:
        return
    print(f"{', '.join(PACKAGES)}, into {PYTHON.parents[1]}", flush=True)
    shutil.rmtree(PYTHON.parents[1], ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(PYTHON.parents[1])], check=True)
    # All that is installed for this interpreter, kiln included, is found there too.
    above, version = sysconfig.get_path("purelib"), f"python{sysconfig.get_python_version()}"
    packages = PYTHON.parents[1] / "lib" / version / "site-packages"
    (packages / "above.pth").write_text(f"import site; site.addsitedir({above!r})\n")
    quiet = ["--quiet", "--disable-pip-version-check"]
    subprocess.run([str(PYTHON), "-m", "pip", *quiet, "install", *PACKAGES], check=True)
    stamp.write_text(text)


def has(name: str) -> bool:
    """Tell whether a manager of Debian has been unpacked."""
    return (FOLDER / name / ".complete").exists()


def with_libraries(name: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which the programs of a manager find their libraries."""
    root = FOLDER / name
    triple = f"{platform.machine()}-linux-gnu"
    folders = [root / "usr/lib" / triple, root / "lib" / triple]
    nested = [folders[0] / each for each in ("slurm-wlm", "openmpi/lib")]
    paths = [str(each) for each in (*folders, *nested) if each.is_dir()]
    return {**environment, "LD_LIBRARY_PATH": ":".join(paths), "OPAL_PREFIX": f"{root}/usr"}


def task(module: str, *words: str) -> list[str]:
    """Return the command of a task: a module of the tests, without the manager's libraries."""
    clean = ["env", "-u", "LD_LIBRARY_PATH", "-u", "OPAL_PREFIX"]
    return [*clean, sys.executable, "-m", module, *words]


def own_environment(folder: Path) -> dict[str, str]:
    """Return the environment of tasks, without the options of the test run."""
    left_out = ("KILN_", "JAX_", "XLA_", "SLURM_", "OMPI_", "PMI")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    return {**kept, "KILN_CACHE_DIR": str(folder / "cache"), "PYTHONPATH": str(REPOSITORY)}


def run(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and never for long."""
    return subprocess.run(
        command,
        cwd=REPOSITORY,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MOST_S,
        check=False,
    )
