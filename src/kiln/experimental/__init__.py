"""Features that may still change: calls of Python functions with side effects, meshes, modules."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.control.effects.callback import io_callback as io_callback
from kiln.core.hitypes import cur_qdd as cur_qdd

if _TYPE_CHECKING:
    from kiln.experimental import buffer_callback as buffer_callback
    from kiln.experimental import checkify as checkify
    from kiln.experimental import error_check as error_check
    from kiln.experimental import hijax as hijax
    from kiln.experimental import jet as jet
    from kiln.experimental import layout as layout
    from kiln.experimental import mesh_utils as mesh_utils
    from kiln.experimental import multihost_utils as multihost_utils
    from kiln.experimental import ode as ode
    from kiln.experimental import pallas as pallas
    from kiln.experimental import pjit as pjit
    from kiln.experimental import random as random
    from kiln.experimental import rnn as rnn
    from kiln.experimental import scheduling_groups as scheduling_groups
    from kiln.experimental import serialize_executable as serialize_executable
    from kiln.experimental import shard_map as shard_map
    from kiln.experimental import sparse as sparse
    from kiln.experimental import topologies as topologies
    from kiln.experimental import xla_metadata as xla_metadata

__getattr__, __dir__ = _on_first_use(
    globals(),
    *(
        "buffer_callback",
        "checkify",
        "error_check",
        "hijax",
        "jet",
        "layout",
        "mesh_utils",
        "multihost_utils",
        "ode",
        "pallas",
        "pjit",
        "random",
        "rnn",
        "scheduling_groups",
        "shard_map",
    ),
    *("serialize_executable", "sparse", "topologies", "xla_metadata"),
)

__all__ = ["cur_qdd", "io_callback"]
