"""Programs of several processes: what they compute, and what becomes of them when one fails."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import kiln
from tests.contract.marks import contract
from tests.processes import arrays, saving, sharing, training
from tests.processes.launching import REPOSITORY, launched, started
from tests.processes.slow_network import SlowNetwork

four = pytest.mark.full
"""More processes than a short test run has time for."""


@contract("17.2", "17.3")
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=four)])
def test_arrays_and_training(count: int, tmp_path: Path) -> None:
    file = tmp_path / "losses"
    # Programs are compared before they first run.
    done = launched("arrays_and_training", str(file), count=count, KILN_CHECK="1")
    assert done.returncode == 0, done.stderr
    for rank in range(count):
        assert [
            line.removeprefix(f"[{rank}] ")
            for line in done.stdout.splitlines()
            if line.startswith(f"[{rank}] check_")
        ] == [check.__name__ for check in arrays.CHECKS]
    found = json.loads(file.read_text(encoding="utf-8"))
    for kind in training.PLACES:
        alone = training.losses(kind, kiln.devices()[: 2 * count])
        assert min(alone) < alone[0]
        # The order of the sums differs, by a bit of the last place at most for each step.
        assert np.allclose(found[kind], alone, rtol=2e-6, atol=0)


def failed(how: str, victim: int, tmp_path: Path) -> list[str]:
    """Return what a survivor says, after checking that it came soon, and the launcher's words."""
    moment = tmp_path / "moment"
    moment.touch()
    done = launched("failing", how, str(victim), str(moment), KILN_CHECK="")
    said = re.search(r"^\[(\d)\] after ([0-9.]+) s: (.*)$", done.stdout, re.MULTILINE)
    assert said is not None, done.stdout + done.stderr
    assert int(said[1]) == 1 - victim
    # A survivor has looked ten times a second.
    assert float(said[2]) < 30
    assert "finished" not in done.stdout
    return [said[3], done.stderr.splitlines()[-1], str(done.returncode)]


@contract("17.4")
@pytest.mark.parametrize("victim", [0, pytest.param(1, marks=pytest.mark.full)])
def test_a_process_that_is_killed(victim: int, tmp_path: Path) -> None:
    assert failed("kill", victim, tmp_path) == [
        f"process {victim} has ended",
        f"kiln launch: process {victim} of 2 was ended by SIGKILL; the others were ended",
        "137",
    ]


@contract("17.4")
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
@pytest.mark.parametrize(
    ("how", "said", "code"),
    [
        ("raise", "process {} has ended by ValueError: no more", 1),
        ("exit", "process {} has ended without running this program", 3),
    ],
)
def test_a_process_that_ends(how: str, said: str, code: int, victim: int, tmp_path: Path) -> None:
    assert failed(how, victim, tmp_path) == [
        said.format(victim),
        f"kiln launch: process {victim} of 2 failed with exit code {code}; the others were ended",
        str(code),
    ]


@contract("17.4")
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_frozen(victim: int, tmp_path: Path) -> None:
    said, _, code = failed("stop", victim, tmp_path)
    assert said == f"process {victim} has not answered for 2 seconds"
    assert code != "0"


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_collective_that_hangs_names_who_is_late(victim: int, tmp_path: Path) -> None:
    moment = tmp_path / "moment"
    words = "hang", str(victim), str(moment)
    done = launched("failing", *words, KILN_CHECK="", KILN_COLLECTIVE_TIMEOUT="2")
    said = re.search(r"^\[(\d)\] after ([0-9.]+) s: (.*)$", done.stdout, re.MULTILINE)
    assert said is not None, done.stdout + done.stderr
    assert int(said[1]) == 1 - victim
    assert float(said[2]) < 30
    assert said[3].startswith(f"process {victim} has not reached program ")
    assert said[3].endswith("(<lambda>) within 2 seconds")
    # The line of the user's program.
    assert re.search(r"running <lambda> in the processes \[0, 1\] at .*failing.py:\d", done.stderr)


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_is_late_is_named(victim: int, tmp_path: Path) -> None:
    moment = tmp_path / "moment"
    words = "late", str(victim), str(moment)
    done = launched("failing", *words, KILN_CHECK="", KILN_STRAGGLER_SECONDS="1")
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "is late" in line]
    # Process 0 says so, with the program, the line of the late process, and the time.
    wanted = rf"\[0\] kiln: process {victim} is late: it has reached program (\d+) \(<lambda>\) at "
    wanted += r".*failing.py:\d+ (\d+\.\d) s after the end of the program before; .*less than"
    found = [re.match(wanted, line) for line in said]
    assert [match and float(match[2]) >= 1.5 for match in found] == [True], done.stderr


@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_whose_children_outlive_it(victim: int, tmp_path: Path) -> None:
    assert failed("fork", victim, tmp_path)[0] == f"process {victim} has ended"


@pytest.mark.full
@pytest.mark.parametrize("attempt", range(10))
@pytest.mark.parametrize("victim", [0, 1])
def test_each_time(victim: int, attempt: int, tmp_path: Path) -> None:
    assert failed("kill", victim, tmp_path)[0] == f"process {victim} has ended"


@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.full)])
@pytest.mark.parametrize("how", ["store", pytest.param("folder", marks=pytest.mark.full)])
def test_one_process_compiles(how: str, count: int, tmp_path: Path) -> None:
    """By the store of the processes, without a cache on disk; by the cache, without a token."""
    folder = str(tmp_path / "cache") if how == "folder" else ""
    given = {"KILN_CACHE_DIR": folder, "KILN_CHECK": ""}
    if how == "folder":
        done = started("sharing", count, {**given, "KILN_COORDINATOR_TOKEN": ""})
    else:
        done = launched("sharing", count=count, devices=1, **given).stdout
    found = re.findall(r"received (\d+) published (\d+)", done)
    assert len(found) == count, done
    received, published = (sum(map(int, each)) for each in zip(*found, strict=True))
    # A program of each process, two of all, and `mean`.
    assert published == 4
    assert received == published * (count - 1)
    assert len(set(re.findall(r"alone (.*)", done))) == 1
    x = kiln.device_put(sharing.X, kiln.devices()[0])
    expected = np.asarray(kiln.jit(sharing.together)(x))
    assert np.allclose(float(expected.mean()), float(re.findall(r"mean (.*)", done)[0]), atol=1e-6)
    rows = [row for text in re.findall(r"together (.*)", done) for row in json.loads(text)]
    got = sorted(np.concatenate(rows).tolist())
    assert np.allclose(got, sorted(expected.tolist()), rtol=1e-6, atol=1e-6)


@contract("17.4")
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_process_that_dies_while_it_compiles_is_replaced(victim: int) -> None:
    done = launched("sharing", str(victim), KILN_CACHE_DIR="", KILN_CHECK="")
    assert done.returncode == 137, done.stderr
    assert re.findall(r"\[(\d)\] alone", done.stdout) == [str(1 - victim)]


@contract("17.5")
def test_programs_that_differ(tmp_path: Path) -> None:
    moment = tmp_path / "moment"
    moment.write_text("0", encoding="utf-8")
    done = launched("failing", "differ", "9", str(moment), KILN_CHECK="1")
    assert done.returncode == 1
    # Both processes say so.
    assert len(re.findall(r"s: program \d+ differs between the processes", done.stdout)) == 2


@pytest.mark.full
@pytest.mark.parametrize("seed", range(3))
def test_a_run_continues_after_each_kill(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(3):
        words = str(rng.integers(2)), str(rng.integers(training.STEPS))
        launched("restarting", str(tmp_path / "run"), *words, KILN_CHECK="")
    # On other devices, too.
    done = launched("restarting", str(tmp_path / "run"), count=4, devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "run" / "losses").read_text(encoding="utf-8"))
    assert np.allclose(found, training.losses("sharded", kiln.devices()[:4]), rtol=2e-6, atol=0)


@contract("18.4")
def test_a_killed_run_continues(tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    assert launched("restarting", folder, "1", "4", devices=1, KILN_CHECK="").returncode == 137
    assert launched("restarting", folder, devices=1, KILN_CHECK="").returncode == 0
    found = json.loads((tmp_path / "run" / "losses").read_text(encoding="utf-8"))
    assert np.allclose(found, training.losses("sharded", kiln.devices()[:2]), rtol=2e-6, atol=0)


@contract("18.4")
@pytest.mark.full
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_run_is_started_again(victim: int, tmp_path: Path) -> None:
    folder = str(tmp_path / "run")
    done = launched("restarting", folder, str(victim), "4", devices=1, restarts=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    assert "restart 1 of 1" in done.stderr
    found = json.loads((tmp_path / "run" / "losses").read_text(encoding="utf-8"))
    assert np.allclose(found, training.losses("sharded", kiln.devices()[:2]), rtol=2e-6, atol=0)


def test_the_program_of_the_documents(tmp_path: Path) -> None:
    text = (REPOSITORY / "docs" / "processes.md").read_text(encoding="utf-8")
    (program,) = re.findall(r"```python\n(# train\.py\n.*?)```", text, re.DOTALL)[:1]
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)[:1]
    file = tmp_path / "train.py"
    file.write_text(program, encoding="utf-8")
    done = launched(str(file), devices=1, KILN_CHECK="")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if "peer ranks" not in line]
    assert sorted(lines) == printed.splitlines()


@contract("18.3")
@pytest.mark.full
@pytest.mark.parametrize("count", [2, pytest.param(4, marks=four)])
def test_a_tree_restored_by_other_numbers_of_processes(count: int, tmp_path: Path) -> None:
    saved = launched("saving", "save", str(tmp_path), "3", "4", count=count, devices=1)
    assert saved.returncode == 0, saved.stderr
    with kiln.checkpoints.Checkpoints(tmp_path / "run").open() as checkpoint:
        assert saving.step_in(checkpoint) == 4
    with kiln.checkpoints.Checkpoint(tmp_path / "one") as checkpoint:
        assert saving.step_in(checkpoint) == 4
    for other in {1, 2, 4} - {count}:
        found = launched("saving", "restore", str(tmp_path), "4", count=other, devices=2)
        assert found.returncode == 0, found.stderr
        assert found.stdout.count("restored") == other


@contract("18.4")
@pytest.mark.parametrize(("kills", "seed"), [(2, 0), pytest.param(40, 1, marks=pytest.mark.full)])
def test_kills_while_processes_save_lose_nothing(kills: int, seed: int, tmp_path: Path) -> None:
    chance, step = random.Random(seed), {"run": -1, "one": -1}
    for _ in range(kills):
        words = str(chance.randrange(2)), str(chance.uniform(0.0, 0.8))
        done = launched(
            "saving", "save", str(tmp_path), str(max(step.values()) + 1), "99999", *words, devices=1
        )
        assert done.returncode == 137, done.stderr
        for kind, told in re.findall(r"^\[\d\] (run|one) (\d+)$", done.stdout, re.MULTILINE):
            step[kind] = max(step[kind], int(told))
        # What one had told of is there, or something later.
        if step["run"] >= 0:
            with kiln.checkpoints.Checkpoints(tmp_path / "run").open() as checkpoint:
                assert saving.step_in(checkpoint) >= step["run"]
        if step["one"] >= 0:
            with kiln.checkpoints.Checkpoint(tmp_path / "one") as checkpoint:
                assert saving.step_in(checkpoint) >= step["one"]


@contract("17.4")
@pytest.mark.full
@pytest.mark.parametrize("attempt", range(10))
def test_a_slow_network_that_stops(attempt: int, tmp_path: Path) -> None:
    moment = tmp_path / "moment"
    moment.write_text("0", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    network = SlowNetwork(port)
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes.failing", "held", "9", str(moment)],
            env={
                **os.environ,
                "JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{each}",
                "JAX_NUM_PROCESSES": "2",
                "JAX_PROCESS_ID": str(rank),
                "KILN_CHECK": "",
                "KILN_NUM_CPU_DEVICES": "1",
            },
            cwd=REPOSITORY,
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank, each in enumerate((port, network.port))
    ]
    try:
        end = time.monotonic() + 60
        # Slow as it is, both hear each other for longer than they would wait.
        while network.passed < 20:
            assert [process.poll() for process in processes] == [None, None]
            assert time.monotonic() < end
            time.sleep(0.05)
        network.holds.set()
        for rank, process in enumerate(processes):
            out, _ = process.communicate(timeout=60)
            assert process.returncode == 1
            assert f"process {1 - rank} has not answered for 2 seconds" in out
    finally:
        for process in processes:
            process.kill()
