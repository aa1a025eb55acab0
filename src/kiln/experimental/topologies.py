"""Descriptions of machines, for ahead-of-time compilation.

topology = get_topology_desc("v5e:2x2", platform="tpu")
x = ShapeDtypeStruct((8, 8), "float32", sharding=SingleDeviceSharding(topology.devices[0]))
compiled = kiln.jit(f).lower(x).compile()
"""

from __future__ import annotations

from kiln.base.source import api_boundary
from kiln.core.engines.engine import engine
from kiln.core.engines.topology import TopologyDescription

__all__ = ["TopologyDescription", "get_topology_desc"]


@api_boundary
def get_topology_desc(topology_name: str = "", platform: str | None = None) -> TopologyDescription:
    """Return the devices of a machine, which need not be available; by default a TPU v5e.

    Names for `tpu` look like `v5e:2x2`; those for `cuda` have architecture and shape:
    `sm_90:1x1x1`. Programs cannot run on these devices; compiled ones can be inspected and
    serialized.

    Raises: JaxRuntimeError if the platform's plugin is not installed, saying what to install;
        ValueError for unknown platforms.
    Source: the function of `jax.experimental.topologies`.
    """
    compiler = engine("xla").compiler
    return TopologyDescription(compiler.described_devices(platform or "tpu", topology_name))
