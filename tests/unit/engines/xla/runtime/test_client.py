"""Buffers, executables and errors of the runtime."""

from __future__ import annotations

import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from kiln import _runtime
from kiln.base.dtypes import float0
from kiln.base.errors import JaxRuntimeError
from kiln.base.options.config import override
from kiln.engines.xla.runtime import client
from tests.unit.engines.xla.programs import XLA, aval, compiled, run

DTYPES = [
    np.bool_,
    np.int8,
    np.uint64,
    np.float16,
    np.float64,
    np.complex64,
    ml_dtypes.bfloat16,
    ml_dtypes.float8_e4m3fn,
    ml_dtypes.int4,
    ml_dtypes.uint4,
]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3)])
def test_data_comes_back_as_it_went(dtype, shape):
    value = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2).astype(dtype)
    for buffer in (XLA.memory.put(value), XLA.memory.adopt(value)):
        back = XLA.memory.get(buffer)
        assert back.dtype == value.dtype
        assert back.shape == shape
        assert (back == value).all()
        assert not back.flags.writeable


def test_strided_data_is_copied():
    value = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert (XLA.memory.get(XLA.memory.put(value.T[::2])) == value.T[::2]).all()


def test_float0_is_held_as_booleans():
    assert XLA.memory.get(XLA.memory.put(np.zeros((2,), float0))).dtype == np.bool_


def test_put_never_sees_later_writes():
    # 64-byte aligned memory is what jaxlib would share.
    raw = np.zeros(1024 + 16, np.float32)
    value = raw[(-raw.ctypes.data % 64) // 4 :][:1024]
    kept = XLA.memory.put(value)
    value[:] = 1
    assert (XLA.memory.get(kept) == 0).all()


def test_adopt_shares_aligned_memory():
    raw = np.zeros(1024 + 16, np.float32)
    value = raw[(-raw.ctypes.data % 64) // 4 :][:1024]
    assert XLA.memory.pointer(XLA.memory.adopt(value)) == value.ctypes.data
    assert XLA.memory.pointer(XLA.memory.adopt(value[1:])) != value[1:].ctypes.data


def test_deleted_buffers_raise():
    buffer = XLA.memory.put(np.ones(3, np.float32))
    buffer.delete()
    assert XLA.memory.is_deleted(buffer)
    assert not XLA.memory.is_ready(buffer)
    add = compiled(lambda b, out, x: [b.apply("add", x, x)], [aval(3)], [aval(3)])
    for use in (XLA.memory.get, XLA.memory.wait, XLA.memory.pointer, lambda b: add([b])):
        with pytest.raises(JaxRuntimeError):
            use(buffer)


def test_devices():
    (device, *_) = XLA.memory.devices()
    assert repr(device) == "CpuDevice(id=0)"
    assert str(device) == "cpu:0"
    assert (device.id, device.platform, device.process_index) == (0, "cpu", 0)


FLAG = "--xla_force_host_platform_device_count"


@pytest.mark.parametrize(
    ("option", "environment", "count"),
    [
        (None, {}, 1),
        (3, {}, 3),
        (-1, {}, 1),
        (None, {"XLA_FLAGS": f"{FLAG}=5"}, 5),
        (None, {"XLA_FLAGS": f"--xla_a=1 {FLAG}=5 {FLAG}=6 --xla_b"}, 6),
        (None, {"XLA_FLAGS": "/some/file"}, 1),
        (-1, {"XLA_FLAGS": f"{FLAG}=5"}, 5),
        (2, {"XLA_FLAGS": f"{FLAG}=5"}, 2),
        (None, {"JAX_NUM_CPU_DEVICES": "4", "XLA_FLAGS": f"{FLAG}=5"}, 4),
    ],
)
def test_number_of_devices(monkeypatch, option, environment, count):
    for name in ("XLA_FLAGS", "JAX_NUM_CPU_DEVICES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with override(num_cpu_devices=option):
        assert client.cpu_devices() == count
        if option is None:
            monkeypatch.setenv("JAX_NUM_CPU_DEVICES", "some")
            with pytest.raises(ValueError, match="JAX_NUM_CPU_DEVICES=some"):
                client.cpu_devices()


def test_unknown_compiler_options_are_named():
    text = "func.func public @main() { return }"
    with pytest.raises(JaxRuntimeError, match=r"\{'nope': 1\}.*\n.*No such compile option"):
        client.client("cpu").compile(text, name="f", settings=[("nope", 1)])
    with pytest.raises(JaxRuntimeError, match="type list is not an option"):
        client.client("cpu").compile(text, name="f", settings=[("xla_dump_to", [])])
    client.client("cpu").compile(text, name="f", settings=[("xla_backend_optimization_level", 0)])


def test_bad_programs_raise_with_xlas_words():
    with pytest.raises(JaxRuntimeError, match=r"compiling f\n.*stablehlo\.nothing"):
        client.client("cpu").compile(
            "func.func public @main() { stablehlo.nothing\nreturn }", name="f"
        )


def test_executables_describe_and_serialize_themselves():
    double = compiled(lambda b, out, x: [b.apply("add", x, x)], [aval(4)], [aval(4)], name="double")
    assert "module @jit_double" in double.as_text("stablehlo")
    assert "HloModule jit_double" in double.as_text("hlo")
    with pytest.raises(ValueError, match="no such stage"):
        double.as_text("llvm")
    assert double.cost_analysis()["flops"] == 4
    assert double.memory_analysis().argument_size_in_bytes == 16
    here = client.client("cpu")
    again = here.deserialize(double.serialize(), uses_lapack=False)
    loaded = _runtime.Launcher(again.execute_sharded, [here.handler(aval(4))], "double")
    (out,) = loaded([XLA.memory.put(np.ones(4, np.float32))])
    assert XLA.memory.get(out).tolist() == [2, 2, 2, 2]


def test_a_client_is_made_once_for_a_platform_that_runs_programs() -> None:
    assert client.client("cpu") is client.client("cpu")
    assert client.has_started()
    with pytest.raises(ValueError, match=r"'gpu'[\s\S]*use one of: cpu"):
        client.client("gpu")


def test_lapack_is_registered_when_a_program_needs_it():
    def eigen(b, out, x):
        attrs = (
            'call_target_name = "lapack_ssyevd_ffi", api_version = 4 : i32, '
            "backend_config = {mode = 86 : ui8, uplo = 76 : ui8}, "
            "operand_layouts = [dense<[0, 1]> : tensor<2xindex>], "
            "result_layouts = [dense<[0, 1]> : tensor<2xindex>, dense<0> : tensor<1xindex>, "
            "dense<> : tensor<0xindex>]"
        )
        outs = [aval(3, 3), aval(3), aval(dtype=np.int32)]
        return b.op("stablehlo.custom_call", [x], outs, attrs)[1:2]

    (values,) = run(compiled(eigen, [aval(3, 3)], [aval(3)]), np.diag([3, 1, 2]).astype(np.float32))
    assert values.tolist() == [1, 2, 3]


SCRIPT = """
import sys
import ml_dtypes, numpy as np
from kiln.core.engines.engine import engine
xla = engine("xla").memory
for dtype in (np.float32, ml_dtypes.bfloat16, ml_dtypes.int4):
    buffer = xla.put(np.ones(3, dtype))
    assert (xla.get(buffer) == np.ones(3, dtype)).all()
    xla.wait(buffer); xla.is_ready(buffer); xla.pointer(buffer)
print(sorted(m for m in sys.modules if m.partition(".")[0] == "jax"))
print("jaxlib.mlir" in sys.modules, "scipy" in sys.modules)
"""


def test_jax_is_never_loaded():
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=120
    )
    assert out.stdout.splitlines() == ["[]", "False False"]
    assert out.stderr == ""


def test_jax_finds_jaxlib_as_it_expects_it():
    pytest.importorskip("jax")
    code = """
from kiln.engines.xla.runtime import binding
from jaxlib import _jax
print(_jax.tracebacks_enabled())
import jax
print(_jax.tracebacks_enabled())
"""
    for before, want in (("", "False\nTrue\n"), ("import jax", "True\nTrue\n")):
        out = subprocess.run(
            [sys.executable, "-c", before + code],
            capture_output=True,
            text=True,
            check=True,
            timeout=120,
        )
        assert out.stdout == want


def test_jax_may_be_loaded_beside():
    pytest.importorskip("jax")
    code = "import jax.numpy as jnp\njnp.ones(3).sum()\n" + SCRIPT.split("print")[0]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_a_result_that_finds_no_memory_raises_when_it_is_read():
    program = """
import kiln, kiln.numpy as jnp
for fun in (lambda: jnp.linspace(0, 1, 2**45), lambda: jnp.zeros(2**45)):
    try:
        print(kiln.jit(fun)())
    except kiln.errors.JaxRuntimeError as error:
        print("Out of memory" in str(error))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "KILN_ENGINE": "xla"},
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr
