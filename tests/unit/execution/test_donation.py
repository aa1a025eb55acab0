"""Donated arguments: what users are told of those that cannot be used, or are used twice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import JaxRuntimeError
from kiln.base.options.config import override
from kiln.execution.compilation import CachedProgram, compile_jaxpr
from kiln.execution.donation import Donation


def compiled(donated: tuple[int, ...]) -> CachedProgram:
    def step(x: Any, y: Any) -> Any:
        return x + y

    avals = [jnp.ones(3), jnp.ones(3)]
    jaxpr = kiln.make_jaxpr(step)(*avals).jaxpr
    with override(engine="reference"):
        return compile_jaxpr(jaxpr, "step", donated=donated)


def test_the_first_donated_input_gives_its_memory() -> None:
    donation = Donation(compiled((0, 1)), ["x", "y"])
    assert (donation.donated, donation.usable) == ((0, 1), {0: 0})
    assert donation.function == "step"


def test_a_donated_array_that_no_result_can_use_is_named() -> None:
    donation = Donation(compiled((0, 1)), ["x", "y"])
    with pytest.warns(UserWarning, match=r"float32\[3\]\ncall of step: .* argument y"):
        donation.warn_of_unusable([jnp.ones(3), jnp.ones(3)])


def test_values_that_are_no_arrays_are_donated_in_silence(recwarn: Any) -> None:
    donation = Donation(compiled((0, 1)), ["x", "y"])
    donation.warn_of_unusable([np.ones(3, np.float32), np.ones(3, np.float32)])
    assert not recwarn.list


def test_an_array_that_is_donated_and_read_is_refused() -> None:
    donation = Donation(compiled((0,)), ["x", "y"])
    x = jnp.ones(3) * 2
    with pytest.raises(JaxRuntimeError, match=r"one array of type .* as x and as y"):
        donation.refuse_second_use([x, x])
