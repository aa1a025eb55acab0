"""Machines that programs are compiled for ahead of time, described by name.

topology = get_topology_desc("v5e:2x2", platform="tpu")
x = ShapeDtypeStruct((8, 8), "float32", sharding=SingleDeviceSharding(topology.devices[0]))
compiled = kiln.jit(f).lower(x).compile()
"""

from __future__ import annotations

from kiln.base.source import api_boundary
from kiln.core.engine import engine
from kiln.core.topology import TopologyDescription

__all__ = ["TopologyDescription", "get_topology_desc"]


@api_boundary
def get_topology_desc(topology_name: str = "", platform: str | None = None) -> TopologyDescription:
    """Return the devices of a machine that need not be there, by default of a TPU v5e.

    Names for `tpu` are such as `v5e:2x2`, for `cuda` the architecture and the shape: `sm_90:1x1x1`.
    Nothing can run there; what is compiled for it can be looked at and serialized.

    Raises: JaxRuntimeError if the platform's plugin is not installed, saying what to install;
        ValueError for unknown platforms.
    Source: the function of `jax.experimental.topologies`.
    """
    compiler = engine("xla").compiler
    return TopologyDescription(compiler.described_devices(platform or "tpu", topology_name))
