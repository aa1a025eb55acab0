"""A program one of whose processes fails: `python -m tests.processes.failing HOW RANK`.

The others print what they get, and how long after the failure.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import kiln
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

STEPS = 30


def fail(how: str, moment: Path) -> None:
    moment.write_text(str(time.time()), encoding="utf-8")
    if how == "fork":
        warnings.simplefilter("ignore")
        child = os.fork()
        if not child:
            # As a program ends, which concerns nobody else.
            sys.exit(5)
        assert (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])) == 5, code
        if not os.fork():
            # It outlives its parent, with what that had opened.
            time.sleep(10)
            os._exit(0)
    if how in ("kill", "fork"):
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "hang":
        # Its heartbeats go on.
        time.sleep(60)
    if how == "late":
        time.sleep(1.5)
    if how == "raise":
        raise ValueError("no more")
    if how == "exit":
        sys.exit(3)


def main(how: str, rank: str, moment: str) -> None:
    kiln.distributed.initialize(
        heartbeat_timeout_seconds=2 if how in ("stop", "held") else 100,
        shutdown_timeout_seconds=60,
    )
    here = kiln.process_index()
    mesh = kiln.make_mesh((kiln.device_count(),), ("x",))
    x = kiln.device_put(np.arange(8.0), NamedSharding(mesh, P("x")))
    step = kiln.jit(lambda x: x - x.mean() + (here if how == "differ" else 0))
    for i in itertools.count() if how == "held" else range(STEPS):
        if i == 5 and here == int(rank):
            fail(how, Path(moment))
        try:
            x = step(x)
        except kiln.errors.PeerError as error:
            since = time.time() - float(Path(moment).read_text(encoding="utf-8") or 0)
            print(f"after {since:.3f} s:", str(error).splitlines()[1], flush=True)
            raise
    print("finished", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
