"""Programs of all processes and of each one, compiled by one of them; each says what it did.

`python -m kiln launch -n 2 -m tests.processes.sharing [VICTIM]`: process VICTIM is killed while it
compiles a program that the others wait for.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.core.processes.peers import peers
from kiln.engines.native.compiler import NativeCompiler
from kiln.execution.shared_compilation import counts
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

X = np.linspace(-1.0, 1.0, 64, dtype=np.float32).reshape(8, 8)


def alone(x: Any) -> Any:
    """Compute on arrays of one process: the native engine compiles it."""
    for _ in range(10):
        x = jnp.tanh(x @ x.T + 0.5)
    return x


def together(x: Any) -> Any:
    return jnp.cumsum(jnp.tanh(x @ x.T), axis=0)[::-1]


CLAIMED = "tests/claimed"


def die_in_compiler(*given: Any) -> None:
    others = peers()
    assert others is not None
    others.link.set(CLAIMED, "")
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGKILL)


def main(victim: str = "-1") -> None:
    kiln.distributed.initialize()
    here = kiln.process_index()
    if here == int(victim):
        setattr(NativeCompiler, "compile", die_in_compiler)  # noqa: B010, typed otherwise
    elif victim != "-1":
        others = peers()
        assert others is not None
        assert others.link.wait(CLAIMED, 60) is not None
    found = kiln.jit(alone)(X)
    print(f"alone {np.asarray(found).tobytes().hex()[:64]}", flush=True)
    if victim != "-1":
        # The end of another process is not an error of what this one has computed.
        os._exit(0)
    rows = NamedSharding(kiln.make_mesh((kiln.device_count(),), ("d",)), P("d"))
    for _ in range(2):
        out = kiln.jit(together, out_shardings=rows)(kiln.device_put(X, rows))
    print("together", [np.asarray(part.data).tolist() for part in out.addressable_shards])
    print("mean", float(jnp.mean(out)))
    # One that comes late finds a program on disk, if the cache is on.
    received = counts.received + kiln.cache_info().disk.hits
    print(f"received {received} published {counts.published}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
