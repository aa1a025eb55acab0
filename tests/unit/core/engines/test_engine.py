"""Engines are found by name, and loaded once, when first used."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from kiln._runtime import MemoryBlock
from kiln.core.engines import engine as engines
from kiln.core.engines.engine import ENGINES, Engine, Program, engine
from kiln.core.staging import stage_pure
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import sin


def test_an_engine_is_made_once() -> None:
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(engine("reference"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no such engine[\s\S]*KILN_ENGINE.*reference, xla"):
        engine("abacus")


def values(home: Engine, buffer: Any) -> np.ndarray:
    """Return the floats of a result; native code returns memory without a type."""
    found = home.memory.get(buffer)
    if isinstance(found, MemoryBlock):
        found = np.frombuffer(found, np.float32)
        found.flags.writeable = False
    return found


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine_runs_a_program(name: str) -> None:
    home = engine(name)
    x = np.arange(3, dtype=np.float32)
    jaxpr = stage_pure(lambda x: [sin(x)], [ShapedArray((3,), x.dtype)])
    program = Program(jaxpr, "f")
    device = home.memory.devices()[0]
    assert (home.name, device.platform, device.id) == (name, "cpu", 0)
    assert home.compiler.unsupported(program) is None
    assert "sin" in home.compiler.text(program)
    executable = home.compiler.compile(program)
    buffer = home.memory.put(x)
    # `put` copies, `adopt` need not.
    x[:] = 0
    (out,) = executable([buffer])
    home.memory.wait(out)
    assert home.memory.is_ready(out)
    found = values(home, out)
    np.testing.assert_allclose(found, np.sin([0, 1, 2]), 1e-6)
    assert not found.flags.writeable
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    (out,) = executable([home.memory.adopt(frozen)])
    np.testing.assert_allclose(values(home, out), np.sin(1.0), 1e-6)


def test_engines_are_loaded_by_name_on_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []

    class Module:
        @staticmethod
        def make_engine() -> str:
            return "made"

    def load(name: str) -> Any:
        loaded.append(name)
        return Module

    monkeypatch.setitem(ENGINES, "new", "somewhere.engine")
    monkeypatch.setattr(engines, "_loaded", {})
    monkeypatch.setattr(engines.importlib, "import_module", load)
    assert engine("new") == "made"
    assert engine("new") == "made"
    assert loaded == ["somewhere.engine"]
