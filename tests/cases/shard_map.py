"""Cases of the program of one device, run by all devices of a mesh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.control.sharded_regions.shard_map import shard_map_p
from kiln.ir.shardings.mesh import Mesh
from kiln.ir.shardings.mesh import PartitionSpec as P
from tests.cases.case import Case, Operand

MESH = Mesh(np.array(kiln.devices()[:4]).reshape(2, 2), ("x", "y"))


def _case(
    f: Callable[..., Any], in_specs: Any, out_specs: Any, *operands: Operand, named: Any = ()
) -> Case:
    return Case(
        shard_map_p,
        kiln.shard_map(f, mesh=MESH, in_specs=in_specs, out_specs=out_specs),
        operands,
        differentiable=tuple(range(len(operands))),
        named=named,
    )


def _tensor_parallel(x: Any, w: Any) -> Any:
    return lax.psum(jnp.tanh(x) @ w, "y")


def _around(x: Any) -> Any:
    return lax.ppermute(jnp.sin(x), "x", [(0, 1), (1, 0)]) * (1 + lax.axis_index("y"))


def _gathered(x: Any) -> Any:
    return lax.psum_scatter(lax.all_gather(x, "y", tiled=True) ** 2, "y", tiled=True)


CASES = [
    _case(lambda x: x * x, P("x", "y"), P("x", "y"), Operand((4, 2))),
    _case(lambda x: lax.psum(x * x, "x"), P("x"), P(), Operand((4, 3)), named=((0, 1),)),
    _case(_tensor_parallel, (P("x", "y"), P("y")), P("x"), Operand((2, 4)), Operand((4, 3))),
    _case(_around, P("x"), P("x", "y"), Operand((4, 2))),
    _case(_gathered, P(("y", "x")), P(("y", "x")), Operand((4, 3))),
    _case(
        lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True) ** 2,
        P("x"),
        P(None, "x"),
        Operand((4, 2)),
    ),
]
