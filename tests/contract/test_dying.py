"""Section 13.2: interpreter shutdown succeeds while daemon threads are anywhere in kiln."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.contract.marks import contract
from tests.ended import KINDS

EXITS = 24
ENGINES = ["native", "xla"]
LONGEST_S = 0.05
TOGETHER = 8
"""Kinds whose threads are in one process."""


def started(kinds: list[str], engine: str, draw: random.Random) -> subprocess.Popen[str]:
    """Start a process that ends while threads do such work."""
    chosen = {} if engine == "native" else {"KILN_ENGINE": engine}
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.ended",
            "run",
            "+".join(kinds),
            str(draw.uniform(0, LONGEST_S)),
        ],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **chosen},
    )


def ended(process: subprocess.Popen[str]) -> None:
    """Wait for its end, of which nobody hears."""
    _, errors = process.communicate(timeout=120)
    assert (process.returncode, errors) == (0, "")


@contract("13.2")
@pytest.mark.parametrize("engine", ["native", pytest.param("xla", marks=pytest.mark.full)])
def test_it_ends_while_threads_are_everywhere(engine: str) -> None:
    # A process costs a second: each is in several places.
    draw = random.Random(engine)
    kinds = list(KINDS)
    draw.shuffle(kinds)
    parts = [kinds[i : i + TOGETHER] for i in range(0, len(kinds), TOGETHER)]
    processes = [started(part, engine, draw) for part in parts]
    for process in processes:
        ended(process)


@contract("13.2")
@pytest.mark.parametrize("engine", ENGINES)
def test_it_ends_within_callbacks(engine: str) -> None:
    """Of these processes one in two died, where Python unwound the stacks of threads."""
    draw = random.Random(engine)
    processes = [started([kind], engine, draw) for kind in ("pure_callback", "debug.print")]
    for process in processes:
        ended(process)


def end_in_pairs(choose: Callable[[], list[str]], engine: str, draw: random.Random) -> None:
    """Start and end processes, two at a time, with the work that is chosen for each."""
    for _ in range(0, EXITS, 2):
        pair = [started(choose(), engine, draw) for _ in range(2)]
        for process in pair:
            ended(process)


@pytest.mark.full
@contract("13.2")
@pytest.mark.timeout(EXITS * 60)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", KINDS)
def test_it_ends_while_threads_do_one_kind_of_work(kind: str, engine: str) -> None:
    draw = random.Random(f"{kind} {engine}")
    end_in_pairs(lambda: [kind], engine, draw)


@pytest.mark.full
@contract("13.2")
@pytest.mark.timeout(EXITS * 60)
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("seed", range(6))
def test_it_ends_while_threads_do_several_kinds_of_work(seed: int, engine: str) -> None:
    draw = random.Random(f"{seed} {engine}")
    end_in_pairs(lambda: draw.sample(list(KINDS), TOGETHER), engine, draw)
