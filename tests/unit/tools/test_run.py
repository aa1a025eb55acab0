"""`kiln run`: a program runs as under Python itself, with the options of its flags."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """\
import json, os, sys
def fail():
    raise ValueError("oh")
kiln = {name: value for name, value in os.environ.items() if name.startswith("KILN_")}
print(json.dumps([__name__, __file__, sys.argv, sys.path[0], sys.flags.optimize, kiln]))
match sys.argv[1:2]:
    case ["fail"]: fail()
    case ["exit"]: sys.exit(int(sys.argv[2]))
    case ["say"]: sys.exit("a reason")
    case ["jax"]:
        import jax
        print(jax.jit.__module__, jax.config.jax_enable_x64)
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return str(path)


def python(*words: str, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )


def run(*words: str, folder: str | None = None) -> subprocess.CompletedProcess[str]:
    return python("-m", "kiln", "run", *words, folder=folder)


@pytest.mark.parametrize(
    "words", [["fail", "--x64"], ["exit", "7"], ["say"]], ids=lambda words: str(words[0])
)
def test_a_program_runs_as_under_python(program: str, words: list[str]) -> None:
    own, same = run(program, *words), python(program, *words)
    assert own.returncode == same.returncode != 0
    assert own.stdout == same.stdout
    assert own.stderr == same.stderr


def test_flags_become_options(program: str) -> None:
    flags = ["--x64", "--threads", "1", "--engine", "reference", "--debug-nans", "--no-cache"]
    done = python("-O", "-m", "kiln", "run", *flags, program, "--x64", "-n", "3")
    name, file, argv, path, optimize, options = json.loads(done.stdout)
    assert (name, file, argv) == ("__main__", program, [program, "--x64", "-n", "3"])
    assert path == str(Path(program).parent)
    assert optimize == 1
    assert options.items() >= {
        ("KILN_DEBUG_NANS", "1"),
        ("KILN_DISK_CACHE", "0"),
        ("KILN_ENABLE_X64", "1"),
        ("KILN_ENGINE", "reference"),
        ("KILN_NUM_THREADS", "1"),
    }


def test_a_module(program: str) -> None:
    folder = str(Path(program).parent)
    done = run("-m", "program", "exit", "3", folder=folder)
    assert done.returncode == 3
    name, file, argv, path, _, _ = json.loads(done.stdout)
    assert (name, file, argv, path) == ("__main__", program, [program, "exit", "3"], folder)


def test_jax_is_kiln(program: str) -> None:
    done = run("--as-jax", "--x64", program, "jax")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == "kiln.api.jit True"


def test_tracebacks_of_programs_for_jax_are_their_own(program: str) -> None:
    own, same = run("--as-jax", program, "fail"), python(program, "fail")
    assert own.returncode == same.returncode == 1
    assert own.stderr == same.stderr


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "none.py")
    own, same = run(path), python(path)
    assert own.returncode == same.returncode == 2
    assert own.stderr == same.stderr


def test_linen_needs_the_door(program: str) -> None:
    done = run("--linen", program)
    assert done.returncode == 2
    assert done.stderr.splitlines()[2] == "write kiln run --as-jax --linen"
