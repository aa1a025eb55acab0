"""Where the tests of a suite are, and what pytest is told to run them."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.libraries.jax_tests.recording import MANY, chosen, file_of
from tests.libraries.jax_tests.running import Session
from tests.libraries.suites.table import Suite

_PLUGINS = Path(__file__).parents[1]
"""The folder below which plugins are named, so that a library may have a package `tests`."""


class MissingSuiteError(Exception):
    """The library is not installed in that release, or there is no copy with its tests."""


@dataclass(frozen=True)
class SuiteFiles:
    """The files of a suite below a folder."""

    suite: Suite
    root: Path
    names: tuple[str, ...]
    source: Path | None = None
    """The folder with the files that have to be converted, if they have to."""

    def sampled(self, at_most: int) -> SuiteFiles:
        """Return every k-th of the files, so that there are at most so many (0: all)."""
        return replace(self, names=tuple(chosen(self.names, at_most=at_most)))

    def session(self, library: str, only: Iterable[str] | None = None) -> Session:
        """Return how to run them on `jax` or on `kiln`: all, or those that hold tests of `only`."""
        suite = self.suite
        wanted = None if only is None else {file_of(test) for test in only}
        files = [name for name in self.names if wanted is None or name in wanted]
        if self.source is not None:
            _convert(self.source, suite, files, self.root)
        plugins = ["-p", "jax_tests.recording"]
        if library == "kiln":
            plugins += ["-p", "suites.on_kiln"]
        settings = str(self.root / suite.settings) if suite.settings else os.devnull
        return Session(
            (
                *plugins,
                *("-c", settings, "--rootdir", str(self.root)),
                *("--continue-on-collection-errors", *suite.options),
                *(str(self.root / name) for name in files),
            ),
            {MANY: "1", "PYTHONPATH": str(_PLUGINS), **suite.environment},
        )


def located(suite: Suite, source: Path | None, built: Path) -> SuiteFiles:
    """Return the tests of a suite; what has to be converted for jax is written below `built`.

    Raises: MissingSuiteError.
    """
    try:
        installed = importlib.metadata.version(suite.distribution)
    except importlib.metadata.PackageNotFoundError:
        raise MissingSuiteError(f"{suite.distribution} is not installed") from None
    if installed != suite.release:
        raise MissingSuiteError(
            f"{suite.distribution} {installed} is installed, the table has {suite.release}"
        )
    root = _root(suite, source)
    names = _files(root, suite)
    if not names:
        raise MissingSuiteError(f"there are no tests in {root}")
    if suite.converter:
        folder = (built / suite.name).resolve()
        return SuiteFiles(suite, folder, tuple(names), root)
    return SuiteFiles(suite, root, tuple(names))


def _root(suite: Suite, source: Path | None) -> Path:
    if not suite.home:
        return Path(str(importlib.metadata.distribution(suite.distribution).locate_file("")))
    if source is None:
        raise MissingSuiteError("its tests are not installed with it, and no sources were named")
    if not (source / suite.home).is_dir():
        raise MissingSuiteError(f"there is no folder {source / suite.home}")
    return (source / suite.home).resolve()


def _files(root: Path, suite: Suite) -> list[str]:
    """Return the names of the files, in order."""
    found = {
        path.relative_to(root).as_posix() for pattern in suite.tests for path in root.glob(pattern)
    }
    return sorted(name for name in found if not name.startswith(suite.without))


def _convert(source: Path, suite: Suite, names: Sequence[str], folder: Path) -> None:
    """Write what the library's own converter makes of its tests for jax, unless it is there."""
    folder.mkdir(parents=True, exist_ok=True)
    if (source / "conftest.py").exists():
        shutil.copy(source / "conftest.py", folder)
    for name in names:
        target = folder / name
        if target.exists():
            continue
        command = [sys.executable, source / suite.converter, "--numpy_to_jax", source / name]
        text = subprocess.run(command, capture_output=True, check=True).stdout
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text)
