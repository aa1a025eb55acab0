"""Training that continues from its last checkpoint; a process may be killed at a step, once.

`python -m kiln launch -n 2 -m tests.processes.restarting FOLDER [RANK STEP]`
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import kiln
from kiln.checkpoints import Checkpoints
from tests.processes.training import STEPS, Run


def main(folder: str, rank: str = "-1", at: str = "-1") -> None:
    kiln.distributed.initialize()
    run, saved = Run("sharded", kiln.devices()), Checkpoints(folder, keep=2)
    losses: list[float] = []
    saving = None
    if saved.latest() is not None:
        run.params = saved.restore(target={"params": run.params})["params"]
        with saved.open() as checkpoint:
            losses = checkpoint.metadata
    for step in range(len(losses), STEPS):
        losses.append(run.step(step))
        # Written while the next step runs.
        saving = saved.save(step, {"params": run.params}, wait=False, metadata=losses)
        is_first = os.environ.get("KILN_LAUNCH_ATTEMPT", "0") == "0"
        if is_first and step == int(at) and kiln.process_index() == int(rank):
            os.kill(os.getpid(), signal.SIGKILL)
    if saving is not None:
        saving.wait()
    if kiln.process_index() == 0:
        Path(folder, "losses").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
