"""Building from a source tree: what is missing is said in one line, what changed is built again."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.structure.source_tree import REPOSITORY

pytestmark = pytest.mark.tree

SYSTEMS = ("Debian, Ubuntu: apt-get install", "Fedora: dnf install", "macOS:")
PROGRAMS = {
    name: shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("cmake", "ninja", "make")
}
with_cmake = pytest.mark.skipif(
    not (PROGRAMS["cmake"] and PROGRAMS["ninja"]), reason="needs cmake and ninja"
)


def configured(build: Path, *options: str, **environment: str) -> str:
    """Return the line that says what CMake misses; nothing is compiled."""
    done = subprocess.run(
        [
            str(PROGRAMS["cmake"]),
            *("-S", str(REPOSITORY), "-B", str(build), "-G", "Ninja"),
            f"-DCMAKE_MAKE_PROGRAM={PROGRAMS['ninja']}",
            f"-DPython_EXECUTABLE={sys.executable}",
            *options,
        ],
        env={name: text for name, text in os.environ.items() if name != "CXX"} | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    (line,) = [line for line in done.stderr.splitlines() if "kiln needs" in line]
    return line


@with_cmake
def test_a_compiler_then_headers_are_missing(tmp_path: Path) -> None:
    build = tmp_path / "build"
    for environment in ({"PATH": str(tmp_path)}, {"CXX": "/bin/false"}):
        line = configured(build, **environment)
        assert "a C++ compiler" in line
        assert all(system in line for system in SYSTEMS)
    # Now there is one: what was not found is looked for again.
    line = configured(build, f"-DPython_INCLUDE_DIR={tmp_path}")
    version = "{}.{}".format(*sys.version_info)
    assert f"the headers of Python {version}" in line
    assert f"python{version}-dev " in line
    assert all(system in line for system in SYSTEMS)


def planned(*arguments: str, **environment: str) -> str:
    """Return the commands that `make` would run."""
    done = subprocess.run(
        [str(PROGRAMS["make"]), "--dry-run", f"PYTHON={sys.executable}", *arguments],
        cwd=REPOSITORY,
        env={name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def environment(tmp_path: Path) -> str:
    """Return an environment in which everything is installed already, as far as `make` can see."""
    (tmp_path / "bin").mkdir()
    for stamp in ("bin/python", ".has-runtime", ".has-test"):
        (tmp_path / stamp).touch()
    return f"VENV={tmp_path}"


def test_nothing_is_built_if_nothing_changed(environment: str) -> None:
    commands = planned(environment, "test")
    assert "-m pytest" in commands
    assert "pip" not in commands


@pytest.mark.parametrize("path", ["module.cc", "trees/tree.cc", "linear/products/gemm.h"])
def test_a_file_of_the_extension_that_changed_is_built_again(environment: str, path: str) -> None:
    commands = planned(environment, "test", f"--what-if=src/kiln/_runtime/{path}")
    assert "install --no-build-isolation --no-deps --editable ." in commands
    assert ".has-test" not in commands


def test_requirements_that_changed_are_installed(environment: str) -> None:
    assert '".[test,examples]"' in planned(environment, "test", "--what-if=pyproject.toml")


@pytest.mark.parametrize("target", ["wheel", "wheel-aarch64", "test-aarch64"])
def test_what_builds_a_wheel_has_what_checks_it(environment: str, target: str) -> None:
    (tools,) = [line for line in planned(environment, target).splitlines() if "wheels" in line]
    assert "pip --quiet --disable-pip-version-check install cmake ninja" in tools


def python_of_version(version: str, folder: Path) -> Path:
    """Return a program that says it is this version of Python."""
    path = folder / f"python{version}"
    path.write_text(f"#!/bin/sh\necho {version}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_hooks_of_git_call_what_make_knows(environment: str) -> None:
    text = (REPOSITORY / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    calls = re.findall(r"entry: make --no-print-directory (.+)", text)
    assert len(calls) == text.count("entry:") == 3
    commands = [planned(environment, *call.split()) for call in calls]
    for tool in ("ruff format .", "clang-format -i", "ruff check", "mypy", "pytest -q"):
        assert any(tool in command for command in commands)


def test_each_version_of_python_has_its_environment(tmp_path: Path) -> None:
    other = python_of_version("3.99", tmp_path)
    assert ".venv-3.99/bin/python -m pytest" in planned("test", f"PYTHON={other}")
    assert ".venv-{}.{}/bin/python -m pytest".format(*sys.version_info) in planned("test")


def test_all_pythons_are_tested(tmp_path: Path) -> None:
    pythons = [python_of_version(version, tmp_path) for version in ("3.98", "3.99")]
    commands = planned("test-pythons", f"PYTHONS={' '.join(map(str, pythons))}")
    for version in ("3.98", "3.99"):
        assert f".venv-{version}/bin/python -m pytest" in commands


def test_pythons_are_found_by_the_versions_supported(tmp_path: Path) -> None:
    for version in ("3.10", "3.12", "3.13"):
        python_of_version(version, tmp_path)
    commands = planned("test-pythons", PATH=f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    assert "=== python3.12" in commands
    assert "=== python3.13" in commands
    assert "python3.10" not in commands
