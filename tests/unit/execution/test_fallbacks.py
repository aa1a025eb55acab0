"""Programs that go to XLA are counted, with what kept them from the host."""

from __future__ import annotations

from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.engines.engine import engine
from kiln.execution.fallbacks import Fallback


@pytest.fixture(name="refusal")
def fixture_refusal(monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the native engine compile nothing."""
    reason = "the moon is full"
    monkeypatch.setattr(type(engine("native").compiler), "unsupported", lambda *_: reason)
    return reason


def test_nothing_is_counted_of_what_the_host_runs() -> None:
    before = kiln.fallback_counts()
    with kiln.explain_fallbacks() as records:
        kiln.jit(lambda x: jnp.sin(x) * 7.5)(jnp.ones(5))
    assert records == []
    assert kiln.fallback_counts() == before


def test_a_program_is_counted_once_with_its_reason(refusal: str) -> None:
    def answer(x: Any) -> Any:
        return jnp.cos(x) * 3.25

    before = kiln.fallback_counts().get(refusal, 0)
    with kiln.explain_fallbacks() as records, kiln.explain_fallbacks() as others:
        f = kiln.jit(answer)
        f(jnp.ones(5))
        f(jnp.ones(5))
    assert records == others == [Fallback("answer", refusal)]
    assert str(records[0]) == f"answer: {refusal}"
    assert kiln.fallback_counts()[refusal] == before + 1


def test_nobody_is_told_after_the_end(refusal: str) -> None:
    with kiln.explain_fallbacks() as records:
        pass
    kiln.jit(lambda x: jnp.tan(x) * 2.125)(jnp.ones(5))
    assert records == []


def test_programs_of_xla_are_not_counted(refusal: str) -> None:
    options = {"xla_llvm_disable_expensive_passes": True}
    with kiln.explain_fallbacks() as records:
        kiln.jit(lambda x: x - 11.5, compiler_options=options)(jnp.ones(5))
    assert records == []
