"""Primitives hand operations to the trace in force, and say which rules they lack."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kiln.base.errors import MissingRule
from kiln.core.primitive import Primitive
from kiln.core.trace import Trace, in_force, state


class Double(Primitive):
    name = "double"

    def infer(self, x: Any) -> Any:
        return x

    def numpy(self, x: Any) -> Any:
        return x + x


class Listening(Trace):
    __slots__ = ("heard",)

    def __init__(self) -> None:
        super().__init__(state.trace)
        self.heard: list[Any] = []

    def process(self, primitive: Any, args: Any, params: Any) -> Any:
        self.heard.append((primitive, args, params))
        return "result"


def test_bind_asks_the_trace_in_force() -> None:
    double = Double()
    with in_force(Listening()) as trace:
        assert double.bind(1, k=2) == "result"
    assert trace.heard == [(double, (1,), {"k": 2})]


def test_the_name_is_the_class_or_the_instance() -> None:
    assert repr(Double()) == "double"
    assert Double("twice").name == "twice"


def test_which_rules_there_are() -> None:
    assert Double().has("infer")
    assert Double().has("numpy")
    assert not any(Double().has(rule) for rule in ("jvp", "transpose", "batch", "expand"))


@pytest.mark.parametrize(
    ("rule", "call", "why"),
    [
        ("jvp", lambda p: p.jvp([1], [1]), "it is not differentiable"),
        ("transpose", lambda p: p.transpose(1, 2), "it is not linear"),
        ("batch", lambda p: p.batch_over(type("Axis", (), {"size": 2}), [1], [0]), "no batch rule"),
        ("expand", lambda p: p.expand(1), "no expand rule"),
        ("infer", lambda p: Primitive("bare").infer(1), "no infer rule"),
        ("numpy", lambda p: Primitive("bare").numpy(1), "no numpy rule"),
    ],
)
def test_missing_rules_are_named(rule: str, call: Any, why: str) -> None:
    with pytest.raises(MissingRule, match=f"^{rule} of ") as caught:
        call(Double())
    lines = str(caught.value).splitlines()
    assert len(lines) == 3
    assert why in lines[1]
    # The line of the user, here this file.
    assert "test_operation.py" in lines[0]


def test_without_rules_effects_are_none() -> None:
    assert Double().effects({}) == frozenset()


def test_meaning_runs_eagerly() -> None:
    x = np.arange(3, dtype=np.float32)
    double = Double()
    double.on_host = True  # type: ignore[misc]
    assert np.asarray(double.bind(x)).tolist() == [0, 2, 4]
