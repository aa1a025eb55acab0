"""Programs over several virtual devices do not overlap."""

from __future__ import annotations

import numpy as np

import kiln
from kiln import sharding


def test_programs_over_several_devices_run_one_by_one() -> None:
    """Several under way at once can starve each other of threads, which ends the process."""
    mesh = sharding.make_mesh((8,), ("d",))
    rows = sharding.NamedSharding(mesh, sharding.P("d"))
    x = kiln.device_put(np.ones((512, 512), np.float32), rows)
    step = kiln.jit(lambda x: x - (x @ x.T).mean() * 1e-3)
    for _ in range(30):
        x = step(x)
        assert x.is_ready()
