"""References hold what jax's hold, and are refused where jax's are."""

from __future__ import annotations

import pytest

import kiln
from tests.differential.oracle import Case, Topic
from tests.differential.program_groups import compiled
from tests.differential.ref_programs import PROGRAMS

TOPIC = Topic(
    "refs",
    [Case(group, run.__name__, compiled(run)) for group, runs in PROGRAMS.items() for run in runs],
)


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
