"""Metadata and groups of operations: programs compute what they compute without them."""

from __future__ import annotations

from typing import Any

import kiln
import kiln.numpy as jnp
from kiln.experimental.scheduling_groups import scheduling_group, xla_metadata_call
from kiln.experimental.xla_metadata import set_xla_metadata


def f(x: Any, *, by: Any = 1.0) -> Any:
    return jnp.sin(x) * by


def test_programs_are_the_same() -> None:
    plain = kiln.jit(kiln.grad(f)).lower(2.0).as_text()

    @set_xla_metadata(priority=1)
    def decorated(x: Any) -> Any:
        return f(x)

    def in_context(x: Any) -> Any:
        with set_xla_metadata(priority=1):
            return set_xla_metadata(f(x), name="y")

    for fun in (
        *(decorated, in_context, scheduling_group("g")(f), xla_metadata_call(f, a="b")),
        xla_metadata_call(a="b")(f),
    ):
        assert float(kiln.grad(fun)(2.0)) == float(kiln.grad(f)(2.0))
        text = kiln.jit(kiln.grad(fun)).lower(2.0).as_text()
        assert text.partition("{")[2] == plain.partition("{")[2]
    assert float(scheduling_group("g")(f)(2.0, by=2.0)) == float(f(2.0, by=2.0))


def test_trees_of_values_come_back() -> None:
    tree = {"a": jnp.ones(2), "b": 3}
    assert set_xla_metadata(tree, a="b") is tree
