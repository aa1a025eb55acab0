"""Section 10 of the contract: whatever changes, a function made again is what it is now.

Each row of `content_changes.py` makes a function, changes something, and makes it again, from text
with the file name `<string>`, as `exec` and `python -c` do, and from a file.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
from tests.contract.content_changes import CHANGES, HEAD
from tests.contract.marks import contract
from tests.properties.agreement import by_meaning


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield


def results(make: Any) -> tuple[list[Any], list[Any]]:
    """Return what fresh functions give, jitted and not: values, or the type of the error."""

    def of(call: Any) -> list[Any]:
        try:
            out = call(np.float32(5))
        except Exception as error:  # noqa: BLE001 - the same error is the same result
            return [type(error)]
        return [(np.asarray(v).dtype, np.asarray(v).tolist()) for v in kiln.tree.leaves(out)]

    return of(lambda x: kiln.jit(make())(x)), of(lambda x: make()(kiln.numpy.asarray(x)))


def run_row(space: dict[str, Any], then: str) -> None:
    """Make the function of a row twice before and twice after the change."""
    with contextlib.ExitStack() as stack:
        space["stack"] = stack
        try:
            for _ in range(2):
                found, expected = results(space["make"])
                assert found == expected
            exec(f"def then():\n  {then}\nthen()", space)
            for _ in range(2):
                found, expected = results(space["make"])
                assert found == expected
        finally:
            space["undo"]()


@contract("10.6")
@pytest.mark.parametrize("name", CHANGES)
def test_changes_from_text(name: str) -> None:
    text, then = CHANGES[name]
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(HEAD + text, space)
    run_row(space, then)


@contract("10.6")
def test_changes_in_a_program_on_the_command_line() -> None:
    text, then = CHANGES["a global of a method"]
    calls = "print([float(kiln.jit(make())(5.0)) for _ in range(2)])\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{HEAD}{text}{calls}{then.removeprefix('global k; ')}\n{calls}"],
        env={**os.environ, "KILN_ENGINE": "reference"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    assert done.stdout.split("\n")[:2] == ["[20.0, 20.0]", "[30.0, 30.0]"]


@contract("10.6")
@pytest.mark.parametrize("name", CHANGES)
def test_changes_from_files(name: str, tmp_path: Path) -> None:
    text, then = CHANGES[name]
    path = tmp_path / "written.py"
    path.write_text(HEAD + text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("written", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    run_row(vars(module), then)
