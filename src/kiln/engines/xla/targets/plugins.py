"""XLA's compilers for other platforms, from installed packages, without their Python code.

A plugin's own Python code imports jax, so only its shared library is loaded. With it, programs are
compiled ahead of time for machines that are described by a name and not present.
"""

from __future__ import annotations

import functools
import glob
import importlib.util
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jaxlib import _jax, xla_client

from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.core.engines.topology import DescribedDevice
from kiln.engines.xla.runtime.binding import XlaError, failed
from kiln.engines.xla.runtime.client import compile_options
from kiln.engines.xla.stablehlo.mlir import parse_alone
from kiln.engines.xla.targets.gpu_targets import SM_90


class Platform(NamedTuple):
    """The package of a platform's compiler, and its default options."""

    name: str
    package: str
    extra: str
    module: str
    library: str
    topology: str
    settings: tuple[tuple[str, Any], ...] = ()


_CUDA = Platform(
    name="cuda",
    package="jax-cuda13-pjrt",
    extra="cuda13",
    module="jax_plugins",
    library="*/xla_cuda_plugin.so",
    topology="sm_90:1x1x1",
    # There is no device for autotuning kernels.
    settings=(("xla_gpu_autotune_level", 0),),
)
_TPU = Platform(
    name="tpu",
    package="libtpu",
    extra="tpu",
    module="libtpu",
    library="libtpu.so",
    topology="v5e:2x2",
)
PLATFORMS = {"cuda": _CUDA, "gpu": _CUDA, "tpu": _TPU}
GPU_TARGETS = {"sm_90": SM_90}


def platform_called(name: str) -> Platform:
    """Return a platform by its name, or by JAX's name for its type of device.

    Raises: ValueError for an unknown one.
    """
    if name not in PLATFORMS:
        raise ValueError(
            three_lines(
                f"compiling for the platform {name!r}",
                "kiln has no compiler for it",
                f"use one of {', '.join(PLATFORMS)}, or 'cpu', which needs no plugin",
            )
        )
    return PLATFORMS[name]


def library_of(platform: Platform) -> Path:
    """Return the path of a platform's shared library.

    Raises: JaxRuntimeError saying what to install.
    """
    for path in _candidates(platform):
        return path
    raise JaxRuntimeError(
        three_lines(
            f"loading the compiler for the platform {platform.name}",
            f"its plugin is not installed: there is no package {platform.package}",
            f"pip install 'kiln[{platform.extra}]' (or pip install {platform.package})",
        )
    )


def _candidates(platform: Platform) -> Iterator[Path]:
    spec = importlib.util.find_spec(platform.module)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        yield from sorted(Path(folder).glob(platform.library))


@functools.cache
def _plugin(platform: Platform) -> Any:
    path = library_of(platform)
    if platform is _TPU and not (glob.glob("/dev/accel*") or glob.glob("/dev/vfio/*")):
        # Without these, the library queries the network for the machine's type, and blocks.
        os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")
        os.environ.setdefault("TPU_ACCELERATOR_TYPE", "v5litepod-4")
        os.environ.setdefault("TPU_WORKER_HOSTNAMES", "localhost")
        os.environ.setdefault("TPU_WORKER_ID", "0")
    try:
        plugin = xla_client.load_pjrt_plugin_dynamically(platform.name, str(path))
        # Using a plugin without this call aborts the process.
        xla_client.initialize_pjrt_plugin(platform.name)
    except XlaError as error:
        failed(error, f"loading {path}")
    return plugin


@functools.cache
def _described(platform: Platform, topology: str) -> list[Any]:
    plugin = _plugin(platform)
    if platform is _CUDA:
        target, _, shape = topology.partition(":")
        if target not in GPU_TARGETS:
            raise ValueError(
                three_lines(
                    f"the topology {topology!r} of the platform cuda",
                    f"kiln has no description of {target!r}",
                    f"use one of {', '.join(f'{name}:1x1x1' for name in GPU_TARGETS)}",
                )
            )
        topology = shape or "1x1x1"
        settings = {"topology": topology, "target_config": GPU_TARGETS[target]}
    else:
        settings = {}
    try:
        return list(
            _jax.get_c_api_topology(plugin, topology, settings)._make_compile_only_devices()
        )
    except XlaError as error:
        raise JaxRuntimeError(
            three_lines(
                f"the topology {topology!r} of the platform {platform.name}",
                f"its compiler rejects it: {str(error).splitlines()[0]}",
                f"use a name such as {platform.topology!r}",
            )
        ) from None


def described_devices(platform_name: str, topology: str = "") -> tuple[DescribedDevice, ...]:
    """Return the devices of a described machine, by default of a common one.

    Raises: ValueError for an unknown platform; JaxRuntimeError if the plugin is not installed, or
        its compiler does not support the machine.
    """
    platform = platform_called(platform_name)
    topology = topology or platform.topology
    return tuple(
        DescribedDevice(platform.name, topology, d.id, d.device_kind, d.process_index)
        for d in _described(platform, topology)
    )


def compile_for(
    devices: Sequence[DescribedDevice],
    text: str,
    name: str,
    settings: Sequence[tuple[str, Any]],
    free_outputs: Sequence[bool],
) -> Any:
    """Compile StableHLO text for devices of one described machine; return jaxlib's executable.

    Raises: JaxRuntimeError, also for an unknown setting.
    """
    platform = platform_called(devices[0].platform)
    known = {d.id: d for d in _described(platform, devices[0].topology)}
    raw = tuple([known[d.id] for d in devices])
    chosen = {**dict(platform.settings), **dict(settings)}
    choices = compile_options(list(chosen.items()), [d.id for d in raw], free_outputs)
    try:
        return raw[0].client.compile(parse_alone(text), _jax.DeviceList(raw), choices)
    except XlaError as error:
        failed(error, f"compiling {name} for {devices[0]} with compiler_options={dict(settings)}")
