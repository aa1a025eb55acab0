"""A program runs in this process as it would under Python."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

# In a process of its own, since the program becomes its main module.
RUN = (
    "import functools, sys; from kiln.base.main_program import run_file, status_of\n"
    "sys.path.pop(0)\n"
    "sys.exit(status_of(functools.partial(run_file, sys.argv[1], sys.argv[2:])))"
)


def same(path: Path, *words: str) -> tuple[int, str, str]:
    """Run a program both ways; return what both do."""
    both = []
    for command in (["-c", RUN], []):
        done = subprocess.run(
            [sys.executable, *command, str(path), *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        both.append((done.returncode, done.stdout, done.stderr))
    assert both[0] == both[1]
    return both[0]


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("import sys; print(sys.argv, sys.path[0], __name__, __spec__, __file__)", 0),
        ("def f(): 1 / 0\ntry:\n    f()\nexcept ZeroDivisionError:\n    raise OSError('oh')", 1),
        ("x = (", 1),
        ("import sys; sys.exit('why')", 1),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit()", 0),
        (
            "import atexit, pickle\nclass C: pass\n"
            "atexit.register(lambda: print(pickle.loads(pickle.dumps(C())).__class__))",
            0,
        ),
        (
            "import multiprocessing as m\ndef f(x): return x + 1\n"
            "if __name__ == '__main__':\n"
            "    with m.get_context('spawn').Pool(1) as pool: print(pool.map(f, [1]))",
            0,
        ),
    ],
    ids=["names", "error", "syntax", "text", "number", "none", "exit", "spawn"],
)
def test_files(tmp_path: Path, text: str, status: int) -> None:
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    assert same(program, "-x", "1")[0] == status


def test_archives_and_files_that_are_not_there(tmp_path: Path) -> None:
    archive = tmp_path / "program.pyz"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("__main__.py", "import sys; print(sys.argv); sys.exit(4)")
    assert same(archive, "a")[0] == 4
    assert same(tmp_path / "none.py")[0] == 2
