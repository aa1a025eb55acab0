"""Modules behave as Flax's do: names, variables, first values, keys, and the names of errors."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.linen
import kiln.random
from tests.differential.linen_programs.calls import calls
from tests.differential.linen_programs.classes import classes
from tests.differential.linen_programs.given import Given, answer, decoded
from tests.differential.linen_programs.keys import keys
from tests.differential.linen_programs.names import names
from tests.differential.linen_programs.variables import variables
from tests.differential.oracle import Case, Topic, ask, compare

GROUPS = {f.__name__: f for f in (names, variables, keys, classes, calls)}


def program_names(group: str) -> list[str]:
    """Return the names of a group's programs."""
    given = Given(kiln)
    GROUPS[group](given)
    return list(given.programs)


def run(lib: Any, group: str, name: str) -> list[Any]:
    """Run one program with a library."""
    given = Given(lib)
    GROUPS[group](given)
    return answer(given, name)


TOPIC = Topic(
    "linen_modules",
    [
        Case(group, name, lambda lib, group=group, name=name: run(lib, group, name))
        for group in GROUPS
        for name in program_names(group)
    ],
)


@pytest.mark.parametrize("case", TOPIC.cases, ids=lambda case: case.id)
def test_as_flax(case: Case) -> None:
    expected, found = TOPIC.answers()[case.id], ask(case, kiln, own=True)
    assert decoded(found.arrays[0]) == decoded(expected.arrays[0])
    assert compare(found, expected, case.tolerance) == ""
