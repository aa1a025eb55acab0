"""The examples in C, C++, Rust and Python are built in a clean folder and call a library.

Threads call one at once, and sanitizers look on.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from tests.programs.c_driver import HERE
from tests.structure.source_tree import REPOSITORY

EXAMPLES = REPOSITORY / "examples" / "library"
THREADS = REPOSITORY / "tests" / "programs" / "library_threads.c"
MOST_LINES = 60
WARNINGS = ("-Wall", "-Wextra", "-pedantic", "-Werror")
ANSWERS = ["1.0000", "0.9934", "0.0001"]


def needs(*programs: str) -> pytest.MarkDecorator:
    """Skip a test by name where a program is missing."""
    missing = [program for program in programs if shutil.which(program) is None]
    if HERE.emulate:
        missing.append("the processor that compilers here compile for")
    return pytest.mark.skipif(bool(missing), reason=f"needs {', '.join(missing)}")


@pytest.fixture(scope="module")
def circle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library of the model of the examples, written by the command line."""
    path = tmp_path_factory.mktemp("circle")
    options = ["--arg", "f32[n,2]", "--name", "circle", "-o", str(path)]
    command = [sys.executable, "-m", "kiln", "compile", "model:predict", *options]
    subprocess.run(command, cwd=EXAMPLES, check=True, capture_output=True)
    return path


BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)


@needs("gcc", "cc")
def test_the_page_takes_a_stranger_to_an_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Do what docs/library.md says, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    printed = io.StringIO()
    scope: dict[str, object] = {}
    for kind, block in BLOCK.findall((REPOSITORY / "docs" / "library.md").read_text()):
        match kind:
            case "python":
                if not Path("model.py").exists():
                    Path("model.py").write_text(block)
                with contextlib.redirect_stdout(printed):
                    exec(compile(block, "library.md", "exec"), scope)
            case "c":
                Path("main.c").write_text(block)
            case "sh":
                done = subprocess.run(
                    ["sh", "-ec", block], capture_output=True, text=True, check=True
                )
                printed = io.StringIO("" if "kiln compile" in block else done.stdout)
                printed.seek(0, io.SEEK_END)
            case "text":
                assert printed.getvalue() == block
                printed = io.StringIO()


def said(*command: str | Path, folder: Path, **environment: str) -> list[str]:
    """Run a program; return the lines that it prints."""
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env={**os.environ, **environment},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.splitlines()


def test_no_example_is_long() -> None:
    files = [path for path in EXAMPLES.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert len(files) >= 6
    for path in files:
        assert len(path.read_text().splitlines()) <= MOST_LINES, path


@needs("gcc")
def test_c(circle: Path, tmp_path: Path) -> None:
    command = ["gcc", "-std=c11", *WARNINGS, EXAMPLES / "main.c", f"-I{circle}", f"-L{circle}"]
    said(*command, "-l:libcircle.a", "-lm", "-Wl,--gc-sections", "-o", "main", folder=tmp_path)
    assert said(tmp_path / "main", folder=tmp_path) == ANSWERS


@needs("gcc")
def test_c_with_the_shared_library(circle: Path, tmp_path: Path) -> None:
    command = ["gcc", "-std=c11", *WARNINGS, EXAMPLES / "main.c", f"-I{circle}", f"-L{circle}"]
    said(*command, "-lcircle", f"-Wl,-rpath,{circle}", "-o", "main", folder=tmp_path)
    assert said(tmp_path / "main", folder=tmp_path) == ANSWERS


@needs("g++")
def test_cpp(circle: Path, tmp_path: Path) -> None:
    command = ["g++", "-std=c++20", *WARNINGS, EXAMPLES / "main.cpp", f"-I{circle}", f"-L{circle}"]
    said(*command, "-l:libcircle.a", "-lm", "-o", "main", folder=tmp_path)
    refused = "a size is less than its least value, or too large"
    assert said(tmp_path / "main", folder=tmp_path) == [*ANSWERS, refused]


@needs("cargo", "rustc", "cc")
def test_rust(circle: Path, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / "rust", tmp_path / "crate")
    command = ["cargo", "run", "--quiet", "--offline"]
    assert said(*command, folder=tmp_path / "crate", CIRCLE=str(circle)) == ANSWERS


@needs("cc")
def test_python_without_kiln(circle: Path, tmp_path: Path) -> None:
    program = ["-S", "-E", EXAMPLES / "main.py", circle]
    assert said(sys.executable, *program, folder=tmp_path) == ANSWERS


@needs("pkg-config", "gcc")
def test_pkg_config(circle: Path, tmp_path: Path) -> None:
    flags = said(
        "pkg-config", "--cflags", "--libs", "circle", folder=tmp_path, PKG_CONFIG_PATH=str(circle)
    )
    command = ["gcc", EXAMPLES / "main.c", "-o", "main", *" ".join(flags).split()]
    said(*command, f"-Wl,-rpath,{circle}", folder=tmp_path)
    assert said(tmp_path / "main", folder=tmp_path) == ANSWERS


@needs("cmake", "gcc")
def test_cmake(circle: Path, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.20)\nproject(example LANGUAGES C)\n"
        "find_package(circle CONFIG REQUIRED)\n"
        f"add_executable(main {EXAMPLES / 'main.c'})\n"
        "target_link_libraries(main PRIVATE circle::circle)\n"
    )
    said("cmake", "-S", ".", "-B", "build", f"-Dcircle_DIR={circle}", folder=tmp_path)
    said("cmake", "--build", "build", folder=tmp_path)
    assert said(tmp_path / "build" / "main", folder=tmp_path) == ANSWERS


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose kernels need scratch memory: products, transforms, sorting."""
    path = tmp_path_factory.mktemp("work")
    kernels_at_work(path)
    return path


def kernels_at_work(path: Path) -> None:
    """Write the library that the program in C calls from eight threads."""
    f = lambda x: jnp.sort(jnp.fft.rfft(jnp.tanh(x @ x.T)).real @ jnp.ones((21, 40)))
    export.library(
        kiln.jit(f), np.ones((40, 40), "f"), name="work", path=path, threads=True, shared=False
    )


def _threads(work: Path, folder: Path, *options: str) -> list[str]:
    command = ["gcc", "-std=c11", *WARNINGS, "-g", "-pthread", *options, THREADS, f"-I{work}"]
    said(*command, work / "libwork.a", "-lm", "-o", "main", folder=folder)
    return said(folder / "main", folder=folder)


@needs("gcc")
def test_threads(work: Path, tmp_path: Path) -> None:
    assert _threads(work, tmp_path) == ["0 failures"]


@pytest.mark.full
@needs("gcc")
@pytest.mark.parametrize("sanitizer", ["address,undefined", "thread"])
def test_sanitizers(sanitizer: str, work: Path, tmp_path: Path) -> None:
    assert _threads(work, tmp_path, f"-fsanitize={sanitizer}") == ["0 failures"]
