"""What mypy and pyright say of programs: the types they show, and the mistakes they find."""

from __future__ import annotations

import importlib.util
import inspect
import json
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import kiln
from kiln.api.derivatives import grad, jacobian
from tests.structure.source_tree import REPOSITORY

USER_CODE = REPOSITORY / "tests" / "typing" / "user_code.py"

PROGRAM = """\
import kiln
import kiln.numpy as jnp
from kiln import Array


def loss(weights: dict[str, Array], inputs: Array, *, scale: float = 1.0) -> Array:
    return jnp.sum(inputs @ weights["w"]) * scale


"""
SHOWN = {
    "kiln.jit(loss)": (
        "Jitted[(weights: dict[str, Array], inputs: Array, *, scale: float = 1), Array]"
    ),
    "kiln.jit(loss).lower": "(...) -> Lowered",
    "kiln.vmap(loss)": ("(weights: dict[str, Array], inputs: Array, *, scale: float = 1) -> Array"),
    "kiln.checkpoint(loss)": (
        "(weights: dict[str, Array], inputs: Array, *, scale: float = 1) -> Array"
    ),
    "kiln.grad(loss)": "Gradient[dict[str, Array], (inputs: Array, *, scale: float = 1)]",
    "kiln.value_and_grad(loss)": (
        "ValueAndGradient[dict[str, Array], (inputs: Array, *, scale: float = 1), Array]"
    ),
    "kiln.jit(kiln.grad(loss))": (
        "Jitted[(x: dict[str, Array], /, inputs: Array, *, scale: float = 1), dict[str, Array]]"
    ),
    "kiln.custom_vjp(loss)": (
        "custom_vjp[(weights: dict[str, Array], inputs: Array, *, scale: float = 1), Array]"
    ),
}
"""Expressions, and what an editor shows of them."""

needs_pyright = pytest.mark.skipif(
    importlib.util.find_spec("basedpyright") is None, reason="basedpyright is not installed"
)
needs_mypy = pytest.mark.skipif(
    importlib.util.find_spec("mypy") is None, reason="mypy is not installed"
)


def _pyright(*files: Path) -> list[dict[str, typing.Any]]:
    """Return the messages of pyright, as it reads files for an editor."""
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable]
    found = subprocess.run(
        [*command, *map(str, files)], check=False, capture_output=True, cwd=REPOSITORY
    )
    said: list[dict[str, typing.Any]] = json.loads(found.stdout)["generalDiagnostics"]
    return said


@needs_pyright
def test_editors_show_signatures(tmp_path):
    # Three seconds: pyright reads all that the program imports.
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "".join(f"reveal_type({each})\n" for each in SHOWN))
    pattern = re.compile(r'Type of "(.*)" is "(.*)"', re.DOTALL)
    said = [
        pattern.match(each["message"])
        for each in _pyright(program)
        if each["severity"] == "information"
    ]
    assert {found[1]: found[2] for found in said if found} == SHOWN


@needs_pyright
def test_pyright_finds_the_mistakes_of_users_and_no_others():
    assert not [each for each in _pyright(USER_CODE) if each["severity"] == "error"]


@needs_pyright
def test_another_type_is_an_error(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM + "found: str = kiln.grad(loss)({}, jnp.ones(2))\nloss(1)\n")
    rules = [each.get("rule") for each in _pyright(program) if each["severity"] == "error"]
    assert {"reportAssignmentType", "reportCallIssue"} <= set(rules)


@pytest.mark.full
@needs_mypy
@pytest.mark.timeout(600)
def test_mypy_finds_the_mistakes_of_users_and_no_others():
    # A minute without a cache: mypy reads all of kiln.
    command = [sys.executable, "-m", "mypy", str(USER_CODE)]
    found = subprocess.run(command, check=False, capture_output=True, text=True, cwd=REPOSITORY)
    assert found.returncode == 0, found.stdout


@pytest.mark.parametrize(
    "fun",
    [kiln.jit, grad.grad, grad.value_and_grad, jacobian.jacfwd, jacobian.jacrev, jacobian.hessian],
    ids=lambda fun: fun.__name__,
)
def test_overloads_have_the_parameters_of_the_function(fun):
    wanted = set(inspect.signature(fun).parameters)
    found = [set(inspect.signature(each).parameters) for each in typing.get_overloads(fun)]
    assert wanted == set.union(*found)
    assert all(wanted - each <= {"fun"} for each in found)
