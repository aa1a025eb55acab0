"""XLA's operations and their times, as its profiler records them."""

from __future__ import annotations

import time

import numpy as np

import kiln
from kiln.engines.xla.runtime.tracing import recorded
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P


def test_operations_are_recorded_with_their_programs() -> None:
    mesh = kiln.make_mesh((2,), ("d",), devices=kiln.devices()[:2])
    x = kiln.device_put(np.ones((64, 64), np.float32), NamedSharding(mesh, P("d")))

    @kiln.jit
    def traced_product(x):
        return (x @ x.T).sum()

    traced_product(x).block_until_ready()
    begin = time.perf_counter()
    with recorded() as found:
        traced_product(x).block_until_ready()
    end = time.perf_counter()
    own = [each for each in found if each.program == "jit_traced_product"]
    assert any(each.name.startswith("all-") for each in own)
    assert [each.start for each in own] == sorted(each.start for each in own)
    # The profiler's clock begins with its session.
    assert all(begin - 0.1 < each.start <= each.end < end + 0.1 for each in own)
