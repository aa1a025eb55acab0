"""The step on many devices: what is read from a program's text, the formula, and its numbers."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from benchmarks.scale import crowd, first_step, growth
from benchmarks.scale.collectives import Collective, collectives
from benchmarks.scale.model import Machine, by_axis, calls, efficiency, expected, seconds
from benchmarks.scale.step import LARGE

MESH = {"data": 2, "stage": 2, "tensor": 2}

TEXT = """\
HloModule jit_train

%sum (a: f32[], b: f32[]) -> f32[] {
  ROOT %add = f32[] add(%a, %b)
}

%inner (p: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %r = f32[8,4]{1,0} all-reduce(%x), replica_groups={{0,1},{2,3},{4,5},{6,7}}, to_apply=%sum
}

%outer (p: (s32[], f32[8,4])) -> (s32[], f32[8,4]) {
  %w = (s32[], f32[8,4]) while(%t), body=%inner, backend_config={"known_trip_count":{"n":"3"}}
  %p = bf16[8]{0} collective-permute(%y), source_target_pairs={{0,2},{2,0},{1,3},{3,1}}
}

ENTRY %main (a: f32[8,4]) -> f32[8,4] {
  %w = (s32[], f32[8,4]) while(%t), body=%outer, backend_config={"known_trip_count":{"n":"5"}}
  %one = f32[8]{0} all-reduce(%x), replica_groups={{0},{1},{2},{3},{4},{5},{6},{7}}, to_apply=%sum
  %g = (f32[2,2]{1,0}, f32[]) all-reduce(%x, %y), replica_groups=[4,2]<=[2,4]T(1,0), to_apply=%sum
}
"""


def test_operations_in_loops_are_multiplied_out() -> None:
    """Loops in loops; groups written out and as a range; several operands; groups of one."""
    assert collectives(TEXT, MESH) == [
        Collective("all-reduce", ("data",), 2, 1, 20),
        Collective("all-reduce", ("tensor",), 2, 15, 128),
        Collective("collective-permute", ("stage",), 2, 5, 16),
    ]


def test_a_loop_of_unknown_length_is_refused() -> None:
    """It may run any number of times."""
    unknown = TEXT.replace('{"known_trip_count":{"n":"3"}}', "{}")
    with pytest.raises(ValueError, match="length is not known"):
        collectives(unknown, MESH)


def test_the_loss_is_no_part_of_an_axis() -> None:
    """It is summed along two, or one."""
    found = [
        Collective("all-reduce", ("data", "stage"), 4, 1, 8),
        Collective("all-reduce", ("stage",), 2, 1, 8),
    ]
    assert by_axis(found, MESH) == {"data": 0, "stage": 0, "tensor": 0}


def test_the_model_adds_replicas() -> None:
    """Only the time of the gradients' sum grows, and never above twice its bytes and messages."""
    machine = Machine()
    first, second = ({**MESH, "data": n} for n in (1, 256))
    alone, many = seconds(LARGE, first, machine), seconds(LARGE, second, machine)
    assert {name for name in many if many[name] != alone[name]} == {"data"}
    assert alone["data"] == 0
    sent = 2 * expected(LARGE, second)["data"] / machine.far
    assert sent * 0.99 < many["data"] < sent + 512 * machine.latency_s
    assert calls(LARGE, second)["data"] == 1
    assert efficiency(LARGE, first, machine) == 1
    assert 0.5 < efficiency(LARGE, second, machine) < 1


def _losses(library: str, replica: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale.measure", library, "8", replica, "--losses", "3"],
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.full
def test_losses_are_the_same_on_every_mesh_and_in_jax() -> None:
    """One batch on eight devices: data parallel; stages; stages and parts; all three."""
    wanted = _losses("jax", "2x2")
    for replica in ("1x1", "8x1", "2x4", "2x2"):
        assert _losses("kiln", replica) == pytest.approx(wanted, rel=1e-4), replica


@pytest.mark.full
@pytest.mark.parametrize("library", first_step.LIBRARIES)
def test_a_first_step_of_two_processes_runs(library: str) -> None:
    """Both have the same losses, which `together` checks."""
    found = first_step.together(library, 2)
    assert 0 < found.first_step < found.total
    assert len(found.losses) == 2


def test_what_grows_with_processes() -> None:
    constants, machine = growth.Constants(), Machine()
    assert growth.barrier(512, constants) == 2 * growth.barrier(256, constants)
    # An index has a layout once for all leaves, not once for each.
    assert growth.restore(4096, constants) < 1.1 * growth.restore(16, constants)
    assert growth.broadcast(512, 0, machine) / growth.broadcast(256, 0, machine) == 9 / 8
    # The interval is the best one.
    best = growth.interval(256, constants)
    cost = [
        growth.save(256, constants) / t + 256 * t / 2 / constants.between_failures
        for t in (0.9 * best, best, 1.1 * best)
    ]
    assert cost[1] == min(cost)


@pytest.mark.full
def test_a_crowd() -> None:
    connecting, exchange = crowd.measured(8)
    assert 0 < exchange < 10
    assert 0 < connecting < 30
