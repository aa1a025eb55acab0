"""Which engines can be loaded, and what is said of the others."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

import kiln
from kiln.base.options.config import options, override
from kiln.core.engines import installed
from kiln.core.engines.engine import DEFAULT_ENGINE, ENGINES, Program, default_engine
from kiln.errors import MissingEngine, SlowProgramWarning
from kiln.execution.engine_choice import compiling, engine_for


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(installed, "_installed", {})
    monkeypatch.setitem(sys.modules, "jaxlib", None)
    with override(num_cpu_devices=None):
        yield


def test_engines_without_a_library_are_there(alone: None) -> None:
    assert [name for name in ENGINES if installed.is_installed(name)] == ["native", "reference"]
    for name in ("native", "reference"):
        installed.require_installed(name, "anything")


def test_what_is_missing_is_said(alone: None) -> None:
    with pytest.raises(MissingEngine) as raised:
        installed.require_installed(DEFAULT_ENGINE, "a mesh")
    asked, wrong, remedy = str(raised.value).splitlines()
    assert asked.startswith("a mesh at ")
    assert "jaxlib" in wrong
    assert remedy == installed.INSTALL_XLA


def test_the_host_is_the_default(alone: None) -> None:
    assert default_engine().name == "native"


def test_what_is_not_compiled_is_interpreted(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    jaxpr = kiln.make_jaxpr(kiln.numpy.sin)(1.0).jaxpr
    program = Program(jaxpr, "wave")
    choice = engine_for(jaxpr, None, options())
    assert compiling(choice, program).name == "native"
    compiler = choice.engine.compiler
    monkeypatch.setattr(type(compiler), "unsupported", lambda self, program: "it is a wave")
    with pytest.warns(SlowProgramWarning, match="it is a wave") as warned:
        assert compiling(choice, program).name == "reference"
    assert str(warned[0].message).splitlines()[2] == installed.INSTALL_XLA
