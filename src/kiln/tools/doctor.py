"""What kiln finds on this machine, and what is missing: `kiln doctor`."""

from __future__ import annotations

import argparse
import glob
import os
import platform
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kiln import __version__, _runtime
from kiln.api.jit import jit
from kiln.api.threads import get_num_threads
from kiln.base.errors import one_line
from kiln.base.lazy import LazyModule, difflib, json
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import Options, options, override
from kiln.base.options.jax_options import FOREIGN
from kiln.base.options.names import ALIASES
from kiln.base.process.memory import MB
from kiln.base.records import metadata_of
from kiln.core.engines.installed import INSTALL_XLA
from kiln.execution.disk_cache import chosen_path, folder
from kiln.export.libraries.shared import c_compiler
from kiln.lax import sin
from kiln.tools import tables

metadata = LazyModule("importlib.metadata")
linking = LazyModule("kiln.engines.native.llvm.linking")
openblas = LazyModule("kiln.engines.native.executables.openblas")

HELP = "what kiln finds on this machine, and what to type for what is missing"
EXAMPLES = """\
examples:
  kiln doctor             a report; the exit status is 1 if something essential is missing
  kiln doctor --json      the same for scripts, and for reports of errors
"""

_DISTRIBUTIONS = ("numpy", "scipy", "llvmlite", "scipy-openblas32", "jaxlib")
_ESSENTIAL = {
    "numpy": "nothing runs without it",
    "scipy": "kiln.scipy needs it",
    "llvmlite": "the native engine compiles with it",
    "scipy-openblas32": "matrix products and factorizations call it",
}
_JAXLIB = "0.10."
"""The beginning of the versions of jaxlib whose private runtime the XLA engine drives."""
_PLUGINS = ("jax-cuda13-pjrt", "libtpu")
_OTHER_VARIABLES = ("KILN_TARGET", "KILN_COORDINATOR_TOKEN", "KILN_LAUNCH_FOLDER")
_OTHER_OF_JAX = (
    *("JAX_COORDINATOR_ADDRESS", "JAX_COORDINATOR_BIND_ADDRESS", "JAX_NUM_PROCESSES"),
    "JAX_PROCESS_ID",
)
_TOLERANCE = 1e-5


class Item(NamedTuple):
    """A fact: `text` is for people, `value` for scripts."""

    section: str
    name: str
    value: Any
    text: str


class Problem(NamedTuple):
    """What is missing, why it matters, what to type; `essential` problems fail the command."""

    what: str
    wrong: str
    remedy: str
    essential: bool


Found = Iterator[Item | Problem]


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--json", action="store_true", help="print JSON")


def command(given: argparse.Namespace) -> int:
    """Print the report; return the exit status."""
    items, problems = examined()
    if given.json:
        print(json.dumps(as_json(items, problems), indent=2))
    else:
        _print(items, problems)
    return int(any(problem.essential for problem in problems))


def examined() -> tuple[list[Item], list[Problem]]:
    """Examine the machine."""
    items, problems = [], []
    for examine in (_versions, _processor, _compilers, _cache, _accelerators, _environment, _check):
        for found in examine():
            if isinstance(found, Item):
                items.append(found)
            else:
                problems.append(found)
    return items, problems


def as_json(items: list[Item], problems: list[Problem]) -> dict[str, Any]:
    """Return the report as JSON: `ok`, `sections` of names and values, `problems`."""
    sections: dict[str, dict[str, Any]] = {}
    for item in items:
        sections.setdefault(item.section, {})[item.name] = item.value
    return {
        "ok": not any(problem.essential for problem in problems),
        "sections": sections,
        "problems": [problem._asdict() for problem in problems],
    }


def _print(items: list[Item], problems: list[Problem]) -> None:
    for section in dict.fromkeys(item.section for item in items):
        rows = [(item.name, item.text) for item in items if item.section == section]
        tables.show(section, (), rows)
    for problem in problems:
        print(f"{'missing' if problem.essential else 'note'}: {problem.what}")
        print(f"  {problem.wrong}\n  {problem.remedy}")
    essential = sum(problem.essential for problem in problems)
    print(f"missing and essential: {essential}" if essential else "nothing essential is missing")


def version_of(distribution: str) -> str | None:
    """Return the version of an installed distribution; None if it is not installed."""
    try:
        found: str = metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None
    return found


def _versions() -> Found:
    yield Item("versions", "kiln", __version__, f"{__version__} in {Path(__file__).parents[1]}")
    python = platform.python_version()
    yield Item("versions", "python", python, f"{python} at {sys.executable}")
    for name in _DISTRIBUTIONS:
        version = version_of(name)
        yield Item("versions", name, version, version or "missing")
        if version is None and name in _ESSENTIAL:
            yield Problem(name, _ESSENTIAL[name], f"pip install {name}", essential=True)
    jaxlib = version_of("jaxlib")
    if jaxlib is None:
        wrong = (
            "several devices or processes need it, StableHLO, and the few programs that the native "
            "engine refuses, which are interpreted without it"
        )
        yield Problem("jaxlib", wrong, INSTALL_XLA, essential=False)
    elif not jaxlib.startswith(_JAXLIB):
        wrong = f"kiln drives the private runtime of {_JAXLIB}x; this one may not work"
        yield Problem(f"jaxlib {jaxlib}", wrong, INSTALL_XLA, essential=False)


def _processor() -> Found:
    section, machine = "processor", platform.machine()
    model = _model()
    yield Item(section, "architecture", machine, machine)
    if model is not None:
        yield Item(section, "model", model, model)
    level = None
    try:
        level = str(linking.host_target().name)
    except (ImportError, RuntimeError, ValueError) as error:
        wrong, remedy = _parts(error, "report the processor, please")
        yield Problem("a microarchitecture level", wrong, remedy, essential=True)
    yield Item(section, "level", level, level or "unknown")
    count, threads = _runtime.processors(), get_num_threads()
    yield Item(section, "processors", count, str(count))
    chosen = "KILN_NUM_THREADS" if options().num_threads else "all that this process may use"
    yield Item(section, "threads", threads, f"{threads} ({chosen})")


def _model() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    found = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else None


def _compilers() -> Found:
    section = "libraries for C"
    beside = Path(_runtime.__file__).parent
    built = sorted(path.name[len("_runtime.") : -2] for path in beside.glob("_runtime.*.a"))
    yield Item(section, "static runtimes", built, ", ".join(built) or "none")
    if not built:
        wrong = "`kiln compile` and kiln.export.library write no libraries without it"
        yield Problem("a static runtime", wrong, "make (in a checkout of kiln)", essential=False)
    try:
        (compiler,) = c_compiler("kiln doctor", None)
    except RuntimeError as error:
        _, wrong, remedy = str(error).splitlines()
        yield Item(section, "C compiler", None, "missing")
        yield Problem("a C compiler", wrong, remedy, essential=False)
    else:
        yield Item(section, "C compiler", compiler, compiler)


def _cache() -> Found:
    section, path = "cache on disk", chosen_path()
    if path is None:
        yield Item(section, "folder", None, "switched off")
        return
    yield Item(section, "folder", path, path)
    place = Path(path)
    if not place.exists():
        above = next(folder for folder in place.parents if folder.exists())
        writable, said = os.access(above, os.W_OK), f"{above} is not writable"
        yield Item(section, "programs", 0, "none yet")
    else:
        writable, said = os.access(path, os.W_OK), f"{path} is not writable"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            opened = folder()
        entries = [] if opened is None else opened.entries()
        size = sum(entry.size for entry in entries)
        if opened is None:
            writable, said = False, str(caught[0].message) if caught else f"{path} cannot be opened"
        text = f"{len(entries)}, {size / MB:.1f} MB of {options().disk_cache_mb} MB"
        yield Item(section, "programs", len(entries), text)
        yield Item(section, "bytes", size, str(size))
    yield Item(section, "writable", writable, "yes" if writable else "no")
    if not writable:
        wrong = f"programs are compiled again by each process: {said}"
        remedy = "export KILN_CACHE_DIR=FOLDER, with a folder of your own"
        yield Problem("a cache on disk", wrong, remedy, essential=False)


def _accelerators() -> Found:
    section = "accelerators"
    devices = len(glob.glob("/dev/nvidia[0-9]*"))
    yield Item(section, "NVIDIA GPUs", devices, str(devices or "none"))
    for name in _PLUGINS:
        version = version_of(name)
        yield Item(section, name, version, version or "not installed")


def _environment() -> Found:
    own = ["KILN_" + name.upper() for name in metadata_of(Options)]
    of_jax = [name.upper() for name in (*ALIASES, *FOREIGN)]
    known = {*own, *_OTHER_VARIABLES, *of_jax, *_OTHER_OF_JAX}
    for name, value in sorted(os.environ.items()):
        if not name.startswith(("KILN_", "JAX_", "XLA_FLAGS")):
            continue
        shown = "(set)" if "TOKEN" in name else value
        yield Item("environment", name, shown, shown)
        if name.startswith("KILN_") and name not in known:
            close = difflib.get_close_matches(name, known, 1)
            remedy = f"did you mean {close[0]}?" if close else f"unset {name}"
            yield Problem(name, "kiln reads no variable of this name", remedy, essential=False)


def _check() -> Found:
    x = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(3, 4)
    wave, product = (lambda x: sin(x) + 1), (lambda x: x @ x.T)
    llvm, blas = "pip install -U llvmlite", "pip install --force-reinstall scipy-openblas32"
    checks: dict[str, tuple[Callable[[Any], Any], Any, str, str]] = {
        "compiled program": (wave, np.sin(x) + 1, "auto", llvm),
        "compiled by LLVM": (wave, np.sin(x) + 1, "llvm", llvm),
        "matrix product": (product, x @ x.T, "auto", blas),
    }
    for name, (fun, wanted, generator, remedy) in checks.items():
        try:
            # What is on disk was compiled before, perhaps by another version of LLVM.
            with override(disk_cache=False, code_generator=generator):
                right = np.allclose(np.asarray(jit(fun)(x)), wanted, atol=_TOLERANCE)
                core = f" ({openblas.core_name()})" if name == "matrix product" else ""
            wrong = "its results are wrong: please report it"
        except Exception as error:  # noqa: BLE001, whatever fails is reported
            right, core = False, ""
            wrong, remedy = _parts(error, remedy)
        yield Item("checks", name, bool(right), f"right{core}" if right else "failed")
        if not right:
            yield Problem(name, wrong, remedy, essential=True)


def _parts(error: Exception, remedy: str) -> tuple[str, str]:
    """Return what is wrong and what to type, which an error of three lines says itself."""
    lines = str(error).splitlines()
    if len(lines) == 3:
        return "; ".join(lines[:2]), lines[2]
    return one_line(error), remedy
