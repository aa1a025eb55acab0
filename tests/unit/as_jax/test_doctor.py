"""The doctor says what a program needs that kiln lacks, in words and by its status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PLAIN = ["-q", "-p", "no:cacheprovider", "-p", "no:benchmark", "-p", "no:xdist"]


def doctor(tmp_path: Path, text: str, *options: str, status: int, **environment: str) -> list[str]:
    """Return the lines that the doctor prints about a program of some text."""
    program = tmp_path / "program.py"
    program.write_text(text)
    return examined(*options, str(program), status=status, **environment)


def examined(*arguments: str, status: int, **environment: str) -> list[str]:
    """Return the lines that the doctor prints about a command line."""
    done = subprocess.run(
        [sys.executable, "-m", "kiln.as_jax", "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == status, done.stderr
    return done.stderr.splitlines()


def test_a_program_that_lacks_nothing(tmp_path: Path) -> None:
    lines = doctor(tmp_path, "import jax.numpy as jnp\nassert jnp.sin(0.0) == 0\n", status=0)
    assert lines[0] == f"kiln.as_jax doctor: {tmp_path}/program.py"
    assert lines[1:] == [
        "kiln lacks nothing that was used",
        "the program ran to its end",
        "status 0: nothing is missing",
    ]


def test_several_missing_names_are_found_in_one_run(tmp_path: Path) -> None:
    text = """
import jax
from jax.experimental import compute_on, control_deps
from jax.lax import stage
from jax._src.numpy import lax_numpy
@compute_on.compute_on("device")
def f(x):
    return x + 1
with control_deps.schedule(key=1):
    y = stage(f(1)) + 1
class Spec(jax.profiler.ProfileData):
    pass
Spec()
(-y).shape[0]
lax_numpy._private_sum(1)
assert f(1) == 2
"""
    lines = doctor(tmp_path, text, status=1)
    place = f"{tmp_path}/program.py"
    assert [line for line in lines if line.startswith("missing: ")] == [
        "missing: jax._src.numpy.lax_numpy._private_sum, used once",
        "missing: jax.experimental.compute_on.compute_on, used 2 times",
        "missing: jax.experimental.control_deps.schedule, used 2 times",
        "missing: jax.lax.stage, used 3 times",
        "missing: jax.profiler.ProfileData, used once",
    ]
    about = lines[lines.index("missing: jax.lax.stage, used 3 times") :]
    assert about[1] == f"  at {place}:10, {place}:14"
    assert about[2] == f"  imported or read at {place}:4"
    assert about[3].startswith("  why: it controls XLA's compiler")
    assert about[4].startswith("  instead: leave it out")


def test_a_library_asks(tmp_path: Path) -> None:
    (tmp_path / "library.py").write_text("import jax\ndef g():\n    return jax.lax.psend(1)\n")
    lines = doctor(tmp_path, "import jax, library\nlibrary.g()\n", status=1)
    assert f"  at {tmp_path}/library.py:3" in lines
    assert "  instead: jax.lax.ppermute" in lines


def test_a_placeholder_that_must_be_a_number_ends_the_program(tmp_path: Path) -> None:
    text = "import jax\nx = jax.lax.create_token()\nif x:\n    raise SystemExit(7)\n"
    lines = doctor(tmp_path, text, status=1)
    assert "missing: jax.lax.create_token, used 2 times" in lines
    assert f"the program stopped at {tmp_path}/program.py:3: MissingNameError: " in lines[-2]


def test_names_that_are_only_imported(tmp_path: Path) -> None:
    text = "from jax.lax import stage\nfrom jax.ffi import ffi_call\n"
    lines = doctor(tmp_path, text, status=0)
    assert f"only imported or read: jax.lax.stage at {tmp_path}/program.py:1" in lines
    doctor(tmp_path, text, "--strict", status=1)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        (
            "jax.config.update('jax_disallow_mesh_context_manager', True)",
            "option jax_disallow_mesh_context_manager = True",
        ),
        ("jax.numpy.sum(1.0, no_such=2)", "argument no_such of jax.numpy.sum"),
        ("jax.numpy.ones(2).no_such", "attribute no_such of ConcreteArray"),
        ("jax.numpy.compress([True], [1], out=2)", "compress(..., out=2)"),
    ],
    ids=["option", "argument", "attribute", "not implemented"],
)
def test_what_is_refused(tmp_path: Path, text: str, refused: str) -> None:
    lines = doctor(tmp_path, f"import jax, jax.numpy\n{text}\n", status=1)
    (first,) = [number for number, line in enumerate(lines) if line.startswith("refused: ")]
    assert refused.split("(")[0] in lines[first]
    assert lines[first + 1] == f"  at {tmp_path}/program.py:2"


def test_a_program_goes_on_after_refused_options(tmp_path: Path) -> None:
    text = (
        "import jax\n"
        "jax.config.update('jax_disallow_mesh_context_manager', True)\n"
        "jax.lax.psend(1)\n"
    )
    lines = doctor(tmp_path, text, status=1, JAX_ERROR_CHECKING_BEHAVIOR_NAN="raise")
    assert "refused: option jax_disallow_mesh_context_manager = True, once" in lines
    assert "missing: jax.lax.psend, used once" in lines
    assert "the program ran to its end" in lines


@pytest.mark.parametrize(
    "text",
    [
        "raise ValueError('own')",
        "raise NotImplementedError('own')",
        "import sys; sys.exit(2)",
        "import jax; jax.no_such_name",
        "import no_such_module",
    ],
)
def test_failures_of_the_program_itself(tmp_path: Path, text: str) -> None:
    lines = doctor(tmp_path, text + "\n", status=3)
    assert lines[-1] == "status 3: nothing is missing, the failure is the program's own"


def test_tests_of_a_library(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import jax, jax.numpy as jnp\n"
        "def test_missing():\n    jax.lax.psend(1)\n"
        "def test_refused():\n    jnp.compress([True], [1], out=2)\n"
    )
    arguments = ["-m", "pytest", *PLAIN, "--rootdir", str(tmp_path), str(tmp_path)]
    lines = examined(*arguments, status=1)
    assert "missing: jax.lax.psend, used once" in lines
    assert f"  at {tmp_path}/test_it.py:5" in lines
    assert "the program ended with status 1" in "\n".join(lines)


def test_every_name_that_is_missing_has_something_instead() -> None:
    text = """
import kiln.as_jax
from kiln.as_jax.refusals import NOT_YET, REFUSED
from kiln.as_jax.replacements import replacement
for name in (*REFUSED, *NOT_YET):
    assert replacement(name).startswith("instead: "), name
print(replacement("jax._src.numpy.reductions.logsumexp"))
print(replacement("jax._src.no.such"))
"""
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=120
    )
    public, private = done.stdout.splitlines()
    assert public.startswith("instead: jax.nn.logsumexp or ")
    assert private == "a private name of JAX: use public ones"
