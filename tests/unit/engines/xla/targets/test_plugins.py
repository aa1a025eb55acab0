"""Compilers of other platforms: found or asked for, compiling for machines that are not here."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.engines.topology import DescribedDevice
from kiln.engines.xla.targets import plugins
from kiln.experimental.topologies import get_topology_desc
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding, SingleDeviceSharding

X = np.ones((8, 8), np.float32)


def has(platform: str) -> bool:
    try:
        plugins.library_of(plugins.platform_called(platform))
    except kiln.errors.JaxRuntimeError:
        return False
    return True


needs_cuda = pytest.mark.skipif(not has("cuda"), reason="jax-cuda13-pjrt is not installed")
needs_tpu = pytest.mark.skipif(not has("tpu"), reason="libtpu is not installed")


def layer(x, w):
    return {"loss": jnp.tanh(x @ w).sum()}


def test_a_missing_plugin_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_candidates", lambda platform: iter(()))
    for name, package in (("cuda", "jax-cuda13-pjrt"), ("gpu", "kiln"), ("tpu", "libtpu")):
        with pytest.raises(kiln.errors.JaxRuntimeError, match=f"pip install .*{package}"):
            plugins.library_of(plugins.platform_called(name))


def test_an_unknown_platform_is_named() -> None:
    with pytest.raises(ValueError, match="abacus"):
        get_topology_desc(platform="abacus")
    with pytest.raises(ValueError, match="abacus"):
        kiln.jit(layer).trace(X, X).lower(lowering_platforms=("abacus",))


def test_lowering_needs_no_plugin() -> None:
    text = kiln.jit(layer).trace(X, X).lower(lowering_platforms=("cuda",)).as_text()
    assert "stablehlo.dot_general" in text


def test_the_cpu_is_here() -> None:
    lowered = kiln.jit(layer).trace(X, X).lower(lowering_platforms=("cpu",))
    np.testing.assert_allclose(lowered.compile()(X, X)["loss"], 64, rtol=1e-5)


def test_routines_of_the_host_are_refused() -> None:
    device = DescribedDevice("tpu", "v5e:2x2", 0, "TPU v5 lite")
    struct = kiln.ShapeDtypeStruct(X.shape, X.dtype, sharding=SingleDeviceSharding(device))
    lowered = kiln.jit(jnp.linalg.inv).lower(struct)
    with pytest.raises(NotImplementedError, match="lapack"):
        lowered.compile()


def check_ahead_of_time(lowered, platform: str) -> bytes:
    compiled = lowered.compile()
    assert "layer" in compiled.as_text()
    assert compiled.memory_analysis().argument_size_in_bytes >= 2 * X.nbytes
    assert compiled.out_info == {"loss": kiln.ShapeDtypeStruct((), "float32")}
    with pytest.raises(kiln.errors.JaxRuntimeError, match=f"ahead of time.*{platform}"):
        compiled(X, X)
    return compiled.runtime_executable().serialize()


@needs_cuda
def test_cuda_ahead_of_time() -> None:
    lowered = kiln.jit(layer).trace(X, X).lower(lowering_platforms=("cuda",))
    assert b"ELF" in check_ahead_of_time(lowered, "CUDA")
    (device,) = get_topology_desc("sm_90:1x1x1", platform="cuda").devices
    assert device.platform == "cuda"
    assert "H100" in device.device_kind
    with pytest.raises(kiln.errors.JaxRuntimeError, match="no_such_option"):
        lowered.compile(compiler_options={"no_such_option": 1})
    with pytest.raises(ValueError, match="sm_10"):
        get_topology_desc("sm_10", platform="cuda")


@needs_tpu
def test_tpu_ahead_of_time() -> None:
    lowered = kiln.jit(layer).trace(X, X).lower(lowering_platforms=("tpu",))
    assert check_ahead_of_time(lowered, "TPU")
    assert lowered.compile().cost_analysis()["flops"] > 0
    devices = get_topology_desc("v5e:2x2", platform="tpu").devices
    assert [d.id for d in devices] == [0, 1, 2, 3]
    mesh = Mesh(np.array(devices), ("batch",))
    rows = NamedSharding(mesh, PartitionSpec("batch"))
    x = kiln.ShapeDtypeStruct(X.shape, X.dtype, sharding=rows)
    w = kiln.ShapeDtypeStruct(X.shape, X.dtype, sharding=NamedSharding(mesh, PartitionSpec()))
    compiled = kiln.jit(layer).lower(x, w).compile()
    assert "all-reduce" in compiled.as_text()
    assert compiled.input_shardings[0][0] == rows
    assert compiled.output_shardings["loss"].is_fully_replicated
    with pytest.raises(kiln.errors.JaxRuntimeError, match="no such machine"):
        get_topology_desc("no such machine", platform="tpu")
