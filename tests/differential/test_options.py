"""Each option of JAX is known: what it takes, and what it says, by default."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kiln.base.options.config import Options
from kiln.base.options.jax_options import FOREIGN
from kiln.base.options.names import ALIASES, CHOICES
from tests.differential.options import DATA

JAX: dict[str, dict[str, Any]] = json.loads(DATA.read_text(encoding="utf-8"))
OTHER_DEFAULTS = {
    "jax_compilation_cache_max_size": "kiln's cache has a limit",
    "jax_threefry_partitionable": "random numbers are those of jax.random before 0.5",
}
"""Options that differ from JAX's when nobody sets them, and why."""
OTHER_VALUES = {
    "jax_default_matmul_precision": "it is checked where products are made",
    "jax_explicit_x64_dtypes": "64-bit types are on or off",
}
"""Options of kiln that take other values than JAX's, and why."""


def default_of(name: str) -> Any:
    """Return what an option says if nobody sets it, in the environment neither."""
    if name in FOREIGN:
        return FOREIGN[name].values[0]
    alias = ALIASES[name]
    return alias.to_jax(getattr(Options(), alias.field))


def test_every_option_of_jax_is_known() -> None:
    assert {*ALIASES, *FOREIGN} == set(JAX)
    assert len(JAX) > 130


@pytest.mark.parametrize("name", JAX)
def test_an_option_is_what_it_is_in_jax(name: str) -> None:
    asked, default = JAX[name], default_of(name)
    assert (type(default), default) == (type(asked["default"]), asked["default"]) or (
        name in OTHER_DEFAULTS and default != asked["default"]
    )
    kind = {"bool": bool, "int": int, "float": float}.get(asked["kind"], str)
    option = ALIASES[name] if name in ALIASES else FOREIGN[name]
    text = {bool: "0", int: "12", float: "0.5", str: "word"}[kind]
    value = {bool: False, int: 12, float: 0.5, str: "word"}[kind]
    parsed = option.parse(text)
    assert (type(parsed), parsed) == (kind, value)


@pytest.mark.parametrize("name", [name for name in ALIASES if JAX[name]["kind"] == "choice"])
def test_an_option_takes_the_values_that_it_takes_in_jax(name: str) -> None:
    taken = {value for value in CHOICES.get(ALIASES[name].field, ()) if value is not None}
    same = taken == set(JAX[name]["values"])
    assert same != (name in OTHER_VALUES)
