"""A program for subprocesses: processes that save in a loop are killed at random moments.

`python -m tests.killed FOLDER COUNT [SEED]` prints what was lost, and `fine` at its end. After each
kill, everything that `save` had returned from must be there, or something later, and whole.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln.checkpoints import Checkpoint, Checkpoints, save

LONGEST_S = 0.12
KEEP = 2


def tree_of(step: int) -> Any:
    """Return a tree whose every number is that of the step."""
    return {
        "a": np.full((50, 40), step),
        "b": [jnp.full(3000, step), step],
        "c": np.full(step % 7 * 1000, step, np.int16),
    }


def step_in(checkpoint: Checkpoint) -> int:
    """Return the step that a checkpoint holds, after looking at all of it."""
    checkpoint.verify()
    found = checkpoint.restore()
    step = found["b"][1]
    wanted = tree_of(step)
    for x, y in [(found["a"], wanted["a"]), (found["b"][0], wanted["b"][0])]:
        np.testing.assert_array_equal(x, y)
    np.testing.assert_array_equal(found["c"], wanted["c"])
    return step


def save_for_ever(folder: Path, first: int, answer: int) -> None:
    """Save, and write the number of each step that is done."""
    run = Checkpoints(folder / "run", keep=KEEP)
    for step in range(first, sys.maxsize):
        run.save(step, tree_of(step), wait=step % 2 == 0).wait()
        os.write(answer, f"r{step}\n".encode())
        save(folder / "one", tree_of(step))
        os.write(answer, f"o{step}\n".encode())


def killed_once(folder: Path, first: int, lasting: float) -> tuple[int, int]:
    """Start a process, kill it, and return the last steps it told of: of the run, of the one."""
    ends = os.pipe()
    child = os.fork()
    if not child:
        try:
            save_for_ever(folder, first, ends[1])
        finally:
            os._exit(1)
    os.close(ends[1])
    time.sleep(lasting)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(ends[0]) as told:
        # The last line may be cut off.
        lines = [line for line in told if line.endswith("\n")]
    last = {kind: [int(s[1:]) for s in lines if s[0] == kind] for kind in "ro"}
    return max(last["r"], default=-1), max(last["o"], default=-1)


def main(folder: Path, count: int, seed: int) -> None:
    """Kill `count` processes, and look at what is there after each."""
    chance = random.Random(seed)
    run = Checkpoints(folder / "run", keep=KEEP)
    told, first, leftovers = (-1, -1), 0, 0
    # A process is forked with all that the first save loads.
    save(folder / "one", tree_of(0))
    for _ in range(count):
        now = killed_once(folder, first, chance.uniform(0, LONGEST_S))
        told = max(told[0], now[0]), max(told[1], now[1])
        steps = run.steps()
        for step in steps:
            if step_in(run.open(step)) != step:
                print(f"step {step} holds another")
        latest = run.latest()
        if told[0] >= 0 and (latest is None or latest < told[0]):
            print(f"step {told[0]} was saved, and the last is {latest}")
        if told[0] >= KEEP - 1 and len(steps) < KEEP:
            print(f"only {steps} are left")
        with Checkpoint(folder / "one") as one:
            if step_in(one) < told[1]:
                print(f"step {told[1]} was saved, and the folder holds an earlier one")
        leftovers += len(list(run.folder.glob(".*")))
        first = max(-1 if latest is None else latest, told[1]) + 1
    # What killed writers left goes with the next saves; of a removed step, with the next of a run.
    run.save(first, tree_of(first))
    save(folder / "one", tree_of(first))
    left = [path.name for path in run.folder.iterdir()] + os.listdir(folder)
    if len(left) != KEEP + 2 or len(os.listdir(folder / "one")) != 2:
        print(f"left over: {left}, {os.listdir(folder / 'one')}")
    print(f"{first} steps; folders that killed writers left: {leftovers}", file=sys.stderr)
    print("fine")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]) if len(sys.argv) > 3 else 0)
