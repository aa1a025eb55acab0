"""Elastic training; workers and supervisors are ended at chosen steps of chosen rounds.

`python -m kiln launch -n 4 -m tests.processes.elastic FOLDER LEAST MOST WHOLE FAILURES`
A failure is ROUND:STEP:RANK:HOW, where HOW is `worker` or `supervisor`, which is killed, or what
the worker does: `hang`, `stop` or `raise`.
A round of fewer processes than WHOLE waits after its first step until another one joins.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

import kiln
from kiln.checkpoints import Checkpoints
from tests.processes.training import STEPS, Run

PAUSE_S = 60.0


def fail(how: str) -> None:
    if how == "raise":
        raise ValueError("no more")
    if how == "hang":
        time.sleep(PAUSE_S)
    if how == "supervisor":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(PAUSE_S)
    os.kill(os.getpid(), signal.SIGSTOP if how == "stop" else signal.SIGKILL)


def train(folder: Path, whole: int, failures: list[list[str]]) -> list[float]:
    number, here = os.environ["KILN_LAUNCH_ATTEMPT"], kiln.process_index()
    run, saved = Run("sharded", kiln.devices()), Checkpoints(folder, keep=2)
    losses: list[float] = []
    if saved.latest() is not None:
        run.params = saved.restore(target={"params": run.params})["params"]
        with saved.open() as checkpoint:
            losses = checkpoint.metadata
    for step in range(len(losses), STEPS):
        losses.append(run.step(step))
        saved.save(step, {"params": run.params}, metadata=losses)
        print(f"round {number} step {step} of {kiln.process_count()}", flush=True)
        for each in failures:
            if each[:3] == [number, str(step), str(here)]:
                fail(each[3])
        if whole and kiln.process_count() < whole:
            # Until another one joins, and SIGTERM ends this process.
            time.sleep(PAUSE_S)
    return losses


def main(folder: str, least: str, most: str, whole: str, *failures: str) -> None:
    listed = [each.split(":") for each in failures]
    losses = kiln.distributed.run(
        lambda: train(Path(folder), int(whole), listed),
        min_processes=int(least),
        max_processes=int(most),
        max_restarts=2,
        heartbeat_timeout_seconds=5 if any("stop" in each for each in listed) else 100,
    )
    if kiln.process_index() == 0:
        Path(folder, "losses").write_text(json.dumps(losses), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
