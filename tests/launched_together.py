"""A program for subprocesses: threads launch programs on virtual devices, and wait for few.

`python -m tests.launched_together KIND THREADS`: beside programs whose devices exchange data, those
that are `spread` over all devices, `alone` on one each, or `mixed`.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.sharding import NamedSharding, P

ROUNDS, ROWS, COLUMNS = 8, 1024, 512


def main(kind: str, threads: int) -> None:
    """Run the threads, and look at every result."""
    devices = kiln.devices()
    rows = NamedSharding(kiln.make_mesh((len(devices),), ("d",)), P("d"))
    whole = kiln.device_put(np.ones((ROWS, COLUMNS), np.float32), rows)
    parts = [kiln.device_put(np.ones((ROWS // 8, COLUMNS), np.float32), d) for d in devices[:8]]
    change = kiln.jit(lambda x: jnp.tanh(jnp.sin(x) + 1))
    share = kiln.jit(lambda x: x / x.sum(0))
    wrong: list[Any] = []

    def chain(xs: list[Any], steps: int) -> list[Any]:
        for _ in range(steps):
            xs = [change(x) for x in xs]
        return xs

    def run() -> None:
        for _ in range(ROUNDS):
            made = chain([whole], 100) if kind != "alone" else []
            made += chain(parts, 50) if kind != "spread" else []
            shares = [share(x) for x in (whole, *made)]
            if not np.allclose(np.asarray(shares[0]), 1 / ROWS):
                wrong.append(shares[0])
            for x in (*made, *shares):
                if not np.isfinite(np.asarray(x)).all():
                    wrong.append(x)

    running = [threading.Thread(target=run) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    print("fine" if not wrong else wrong[0])


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
