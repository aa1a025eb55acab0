"""Primitives that are objects compute what jax's do, and are refused where jax's are."""

from __future__ import annotations

import pytest

import kiln
from tests.differential.hijax_programs import PROGRAMS
from tests.differential.oracle import Case, Topic
from tests.differential.program_groups import compiled

TOPIC = Topic(
    "hijax",
    [Case(group, run.__name__, compiled(run)) for group, runs in PROGRAMS.items() for run in runs],
)


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
