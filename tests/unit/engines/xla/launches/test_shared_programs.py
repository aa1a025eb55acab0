"""Which programs need other processes while they run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.process.identity import processes
from kiln.core.engines.engine import Placement
from kiln.engines.xla.launches.shared_programs import exchanges_data, processes_of
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

SPLIT = P("x")


def mapped(f: Callable[[Any], Any]) -> Callable[[kiln.sharding.Mesh], Any]:
    return lambda mesh: kiln.jit(kiln.shard_map(f, mesh=mesh, in_specs=SPLIT, out_specs=SPLIT))


def resharded(spec: P) -> Callable[[kiln.sharding.Mesh], Any]:
    return lambda mesh: kiln.jit(lambda x: x * 2, out_shardings=NamedSharding(mesh, spec))


@pytest.mark.parametrize(
    "make",
    [
        resharded(P()),
        resharded(P(None, "x")),
        lambda mesh: kiln.jit(jnp.sum),
        lambda mesh: kiln.jit(lambda x: x[::-1], out_shardings=NamedSharding(mesh, SPLIT)),
        mapped(lambda x: lax.ppermute(x, "x", [(0, 1), (1, 2)])),
        mapped(lambda x: lax.psum_scatter(x.reshape(4, 4), "x", tiled=True).reshape(2, 2)),
        mapped(lambda x: lax.all_to_all(x.reshape(4, 4), "x", 0, 0)),
        mapped(lambda x: lax.pmax(x, "x")),
    ],
)
def test_programs_that_exchange_data(make: Callable[[Any], Any]) -> None:
    assert exchanges_data(compiled(make))


@pytest.mark.parametrize(
    "make",
    [
        resharded(SPLIT),
        lambda mesh: kiln.jit(lambda x: jnp.sin(x) @ jnp.ones((8, 3))),
        mapped(lambda x: x + lax.axis_index("x")),
    ],
)
def test_programs_that_each_device_runs_by_itself(make: Callable[[Any], Any]) -> None:
    assert not exchanges_data(compiled(make))


def compiled(make: Callable[[Any], Any]) -> Any:
    mesh = kiln.make_mesh((4,), ("x",))
    x = kiln.device_put(np.ones((8, 8), np.float32), NamedSharding(mesh, SPLIT))
    return make(mesh).lower(x).compile().runtime_executable()


def test_alone_no_program_is_shared() -> None:
    assert processes().count == 1
    assert processes_of(Placement(tuple(kiln.devices()))) == ()
