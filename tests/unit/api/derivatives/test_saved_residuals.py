"""What is kept between a value and its derivative, and where it comes from."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
from kiln import numpy as jnp
from kiln.ad_checkpoint import checkpoint_name, print_saved_residuals
from kiln.api.derivatives.saved_residuals import saved_residuals

HERE = re.compile(r" from [^ ]*test_saved_residuals\.py:\d+ \(\S+\)$")


def texts(f: Callable[..., Any], *args: Any, **kwargs: Any) -> list[str]:
    found = saved_residuals(f, *args, **kwargs)
    return [f"{aval.str_short(short_dtypes=True)} {HERE.sub('', text)}" for aval, text in found]


def mixed(x: Any, y: Any) -> Any:
    first, second = x
    z = checkpoint_name(jnp.sin(3.0), "z")
    return z * ((first * second) * y) * np.array([3.0])


KNOWN = [
    "f32[1] from a constant",
    "f32[] from the argument x[0]",
    "f32[] from the argument x[1]",
    "f32[] from the argument y",
]


def test_constants_arguments_and_results() -> None:
    assert texts(mixed, (2.0, 3.0), y=4.0) == [*KNOWN, "f32[] named 'z'", "f32[] output of mul"]


def test_operands_that_a_jitted_function_returns_are_arguments() -> None:
    made = "f32[] output of jitted function 'mixed'"
    assert texts(kiln.jit(mixed), (2.0, 3.0), y=4.0) == [*KNOWN, made, made]


def named(x: Any) -> Any:
    y = checkpoint_name(jnp.multiply(2.0, 2.0), "y")
    z = checkpoint_name(jnp.multiply(2.0, 2.0), "z")
    return ((x * y) * z) * jnp.multiply(2.0, 2.0)


@pytest.mark.parametrize("names", [(), ("y",), ("z", "y")])
def test_policies_decide_what_a_checkpoint_keeps(names: tuple[str, ...]) -> None:
    policy = kiln.checkpoint_policies.save_only_these_names(*names)
    assert texts(kiln.checkpoint(named, policy=policy), 1.0) == [
        f"f32[] named '{name}'" for name in sorted(names)
    ]


def test_a_checkpoint_keeps_its_argument() -> None:
    twice = kiln.checkpoint(lambda x: jnp.sin(jnp.sin(x)))
    assert texts(twice, 3.0) == ["f32[] from the argument x"]


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    print_saved_residuals(jnp.sin, 2.0)
    assert HERE.sub("", capsys.readouterr().out.rstrip()).startswith("f32[] output of cos")


def test_only_functions() -> None:
    with pytest.raises(TypeError):
        print_saved_residuals(3, 2.0)  # type: ignore[arg-type]
