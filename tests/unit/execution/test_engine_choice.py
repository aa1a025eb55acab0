"""Which engine runs a program, and why."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import options, override
from kiln.core.engines.engine import Placement, engine
from kiln.core.staging import stage_pure
from kiln.execution.compilation import compile_jaxpr
from kiln.execution.eager import EVAL
from kiln.execution.engine_choice import engine_for
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import sin
from kiln.ops.reductions.cumulative import cumsum

AVAL = ShapedArray((3,), np.dtype(np.float32))
DEFAULT = dataclasses.replace(options(), engine=None)
PLACED = Placement(engine("xla").memory.devices()[:1])


def program(fun: Any = sin) -> Jaxpr:
    return stage_pure(lambda x: [fun(x)], [AVAL])


def test_programs_are_compiled_by_xla() -> None:
    for placement in (None, PLACED):
        assert engine_for(program(), placement, DEFAULT) == ("xla", "the default")


@pytest.mark.parametrize("name", ["xla", "reference"])
@pytest.mark.parametrize("is_eager", [False, True])
def test_the_option_decides_for_all_programs(name: str, is_eager: bool) -> None:
    chosen = dataclasses.replace(DEFAULT, engine=name)
    for placement in (None, PLACED):
        found = engine_for(program(), placement, chosen, is_eager=is_eager)
        assert found == (name, "the option engine names it")


def test_an_unknown_engine_is_refused() -> None:
    with pytest.raises(ValueError, match="no such engine"):
        engine_for(program(), None, dataclasses.replace(DEFAULT, engine="abacus"))


@pytest.mark.parametrize("fun", [sin, lambda x: cumsum(x, axis=0)])
def test_a_cheap_eager_operation_is_not_compiled(fun: Any) -> None:
    found = engine_for(program(fun), None, DEFAULT, is_eager=True)
    assert found.engine is engine("reference")
    assert "on the host" in found.reason
    assert engine_for(program(fun), PLACED, DEFAULT, is_eager=True).engine is engine("xla")


def test_an_expensive_eager_operation_is_compiled() -> None:
    jaxpr = kiln.make_jaxpr(lambda x: kiln.lax.sort(x))(np.zeros(3, np.float32)).jaxpr
    expected = "xla" if not jaxpr.eqns[0].primitive.on_host else "reference"
    assert engine_for(jaxpr, None, DEFAULT, is_eager=True).engine is engine(expected)


def test_programs_keep_the_choice() -> None:
    with override(engine="reference"):
        found = compile_jaxpr(program(), "f")
    assert found.choice == ("reference", "the option engine names it")
    assert found.engine is engine("reference")
    with override(engine=None):
        kiln.numpy.sin(kiln.numpy.ones(19))
    reasons = {made.engine.name: made.choice.reason for _, made in EVAL.programs.items()}
    assert "on the host" in reasons["reference"]


def test_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    changes = {"log_compiles": True, "engine": None}
    with override(**changes), caplog.at_level("WARNING", "kiln"):
        compile_jaxpr(stage_pure(lambda x: [sin(sin(sin(x)))], [AVAL]), "step")
    assert "Compiling step for native (all of it is compiled for the host) took" in caplog.text


def test_what_the_host_cannot_compile_runs_on_xla_and_says_why() -> None:
    def outside(x: Any) -> Any:
        return kiln.lax.convert_element_type(x, kiln.numpy.float8_e4m3fn)

    jaxpr = kiln.make_jaxpr(outside)(1.0).jaxpr
    with override(engine=None):
        found = compile_jaxpr(jaxpr, "outside").choice
    assert found.name == "xla"
    assert "f8_e4m3fn" in found.reason


def test_programs_on_the_first_cpu_device_are_compiled_for_the_host() -> None:
    (device,) = PLACED.devices
    whole = NamedSharding(Mesh((device,), "devices"), PartitionSpec())
    mesh = Placement((device,), whole.mesh, (whole,), (whole,))
    last = Placement(engine("xla").memory.devices()[-1:])
    with override(engine=None):
        placed, sharded, elsewhere = (
            compile_jaxpr(program(), "placed", placement=each) for each in (PLACED, mesh, last)
        )
    assert placed.choice.name == "native"
    assert placed.executable.out_shardings() == [SingleDeviceSharding(device)]
    assert sharded.choice == ("xla", "the default")
    assert elsewhere.choice.name == ("native" if last == PLACED else "xla")


def test_a_dialect_chooses_the_compiler() -> None:
    lowered = kiln.jit(lambda x: x + 1).lower(np.ones(3, np.float32))
    assert "stablehlo.add" in lowered.as_text()
    assert "nest" in lowered.as_text("loops")
    assert "fadd" in lowered.as_text("llvm")
