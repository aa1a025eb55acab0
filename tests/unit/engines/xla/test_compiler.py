"""What the xla engine's compiler supports, and the stored form of executables."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.errors import JaxRuntimeError
from kiln.core.engines.engine import Placement, PortableCompiler, Program, engine
from kiln.core.primitive import Primitive
from kiln.core.staging import stage_pure
from kiln.engines.xla.runtime.binding import XlaError
from kiln.engines.xla.runtime.client import client
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import mul, sin
from tests.unit.engines.xla.programs import XLA, aval, one_equation

AVAL = ShapedArray((4,), np.dtype(np.float32))
X = np.arange(4, dtype=np.float32)


def program(fun: Any = lambda x: [mul(sin(x), x)], *avals: ShapedArray) -> Program:
    return Program(stage_pure(fun, avals or [AVAL]), "f")


def test_what_has_no_lowering_is_not_supported() -> None:
    unknown = one_equation(Primitive("unknown"), [aval(3)], [aval(3)])
    assert XLA.compiler.unsupported(unknown) == (
        "the xla engine has no lowering for 'unknown', and the primitive has no `expand`"
    )
    assert XLA.compiler.unsupported(program()) is None


def test_a_stored_executable_computes_what_the_compiled_one_does() -> None:
    compiler = XLA.compiler
    assert isinstance(compiler, PortableCompiler)
    compiled = compiler.compile(program())
    loaded = compiler.load(program(), compiler.serialize(compiled))
    assert loaded.as_text("stablehlo") == compiled.as_text("stablehlo")
    for run in (compiled, loaded):
        (out,) = run([XLA.memory.put(X)])
        np.testing.assert_allclose(XLA.memory.get(out), np.sin(X) * X, 1e-6)


def test_its_memory_is_estimated_from_its_stored_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once: an executable that was written or read is not serialized for it again."""
    compiler = XLA.compiler
    measured = compiler.compile(program()).size_in_bytes()
    compiled = compiler.compile(program())
    loaded = compiler.load(program(), compiler.serialize(compiled))
    monkeypatch.setattr(client("cpu"), "serialize", None)
    assert compiled.size_in_bytes() == loaded.size_in_bytes() == measured


def test_a_solver_is_stored_too() -> None:
    x = np.eye(3, dtype=np.float32) * 4
    jaxpr = kiln.make_jaxpr(lambda x: kiln.numpy.linalg.cholesky(x))(x).jaxpr
    solver, compiler = Program(jaxpr, "f"), XLA.compiler
    loaded = compiler.load(solver, compiler.serialize(compiler.compile(solver)))
    (out,) = loaded([XLA.memory.put(x)])
    np.testing.assert_allclose(XLA.memory.get(out), np.eye(3) * 2, 1e-6)


def test_bytes_that_are_none_of_an_executable_are_refused() -> None:
    with pytest.raises(JaxRuntimeError, match="loading a compiled program"):
        XLA.compiler.load(program(), b"nothing")


DIGEST = """
import sys
from tests.unit.engines.xla.test_compiler import XLA, program
print(XLA.compiler.digest(program()))
"""


def test_a_digest_names_a_program_and_how_it_is_compiled() -> None:
    digest = XLA.compiler.digest
    others = [
        program(lambda x: [mul(x, x)]),
        program(lambda x: [mul(sin(x), x)], ShapedArray((5,), AVAL.dtype)),
        dataclasses.replace(program(), compiler_options=(("xla_cpu_enable_fast_math", True),)),
        dataclasses.replace(program(), donated=(0,)),
        dataclasses.replace(program(), placement=Placement(XLA.memory.devices()[1:2])),
    ]
    names = [digest(program()), *map(digest, others)]
    assert None not in names
    assert len(set(names)) == len(names)
    assert digest(program()) == names[0]


def test_a_digest_is_the_same_in_another_process() -> None:
    made = subprocess.run(
        [sys.executable, "-c", DIGEST], capture_output=True, text=True, check=True, timeout=120
    )
    assert made.stdout.split() == [XLA.compiler.digest(program())]


def test_a_program_that_calls_python_has_no_stored_form() -> None:
    def calling(x: Any) -> list[Any]:
        return [kiln.pure_callback(np.sin, kiln.ShapeDtypeStruct((4,), np.float32), x)]

    calls = program(calling)
    assert XLA.compiler.digest(calls) is None
    with pytest.raises(ValueError, match="calls 1 Python function"):
        XLA.compiler.serialize(XLA.compiler.compile(calls))


def test_what_xla_cannot_store_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(raw: Any) -> bytes:
        raise XlaError("UNIMPLEMENTED: no stored form")

    monkeypatch.setattr(client("cpu"), "serialize", refuse)
    with pytest.raises(JaxRuntimeError, match=r"serialize\(\) of f\nUNIMPLEMENTED: no stored form"):
        XLA.compiler.serialize(XLA.compiler.compile(program()))


def sort(x: Any) -> list[Any]:
    return [kiln.lax.sort(x)]


def loop(x: Any) -> list[Any]:
    return [kiln.lax.while_loop(lambda s: s.sum() < 1000, lambda s: s * 2, x)]


@pytest.mark.parametrize("fun", [sort, loop, lambda x: [kiln.numpy.abs(kiln.numpy.fft.fft(x))]])
def test_families_that_xla_writes_in_their_own_way_are_stored(fun: Any) -> None:
    compiled = XLA.compiler.compile(program(fun))
    loaded = XLA.compiler.load(program(fun), XLA.compiler.serialize(compiled))
    first, second = (XLA.memory.get(run([XLA.memory.put(X)])[0]) for run in (compiled, loaded))
    assert first.tolist() == second.tolist()


def test_a_program_on_several_devices_is_stored_too() -> None:
    devices = tuple(XLA.memory.devices()[:2])
    rows = NamedSharding(Mesh(np.array(devices), ("x",)), PartitionSpec("x"))
    placement = Placement(devices, rows.mesh, (rows,), (None,))
    split, compiler = dataclasses.replace(program(), placement=placement), XLA.compiler
    loaded = compiler.load(split, compiler.serialize(compiler.compile(split)))
    (out,) = loaded([XLA.memory.put(X, rows)])
    parts = XLA.memory.shards(out, loaded.out_shardings()[0])
    whole = np.concatenate([XLA.memory.get(part) for part in parts])
    np.testing.assert_allclose(whole, np.sin(X) * X, 1e-6)


def test_the_reference_engine_stores_nothing() -> None:
    compiler = engine("reference").compiler
    assert not isinstance(compiler, PortableCompiler)
    options = dataclasses.replace(program(), compiler_options=(("a", 1),))
    assert "No such compile option: 'a'" in (compiler.unsupported(options) or "")
