"""Programs are traced to the equations that jax traces them to."""

from __future__ import annotations

import pytest

import kiln
from tests.differential.jaxprs import DIFFERENT, programs, stored, text_of


@pytest.mark.parametrize("program", programs())
def test_as_jax(program: str) -> None:
    found = text_of(kiln, program)
    if program in DIFFERENT:
        assert found != stored()[program], "the exception is needed no more"
    else:
        assert found == stored()[program]
