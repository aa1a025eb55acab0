"""The loops do what is counted, programs are counted right, and the right peak binds them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from benchmarks.limit import arithmetic, bandwidth, latency, loops, results, roofline
from benchmarks.limit.__main__ import counts_of
from benchmarks.limit.counting import Counts, counted
from benchmarks.suite import collection
from benchmarks.suite.peers import PEERS
from kiln import lax

ROUNDS = 8
"""On a busy machine a thread may wait in several of them."""


def test_the_loop_of_multiply_adds_multiplies_and_adds() -> None:
    width = loops.vector_bytes() // 4
    buffer = loops.aligned((2 + arithmetic.CHAINS) * loops.vector_bytes()).view("float32")
    buffer[:width], buffer[width : 2 * width], buffer[2 * width :] = 0.5, 1.0, 8.0
    arithmetic._loop("float32")(1, buffer.ctypes.data)
    expected = np.float32(8)
    for _ in range(arithmetic.UNROLL):
        expected = expected * np.float32(0.5) + np.float32(1)
    changed = arithmetic.operations("float32") // (2 * arithmetic.UNROLL)
    np.testing.assert_array_equal(buffer[2 * width : 2 * width + changed], expected)


@pytest.mark.parametrize("kind", bandwidth.KINDS)
def test_the_loops_over_memory_touch_all_bytes(kind: str) -> None:
    length = 4 * bandwidth.LANES * loops.LINE
    dst, src = loops.aligned(length), loops.aligned(length)
    src[:] = 0
    src[-1] = 9
    bandwidth._loop(kind)(dst.ctypes.data, src.ctypes.data, length, 1)
    if kind == "copy":
        np.testing.assert_array_equal(dst, src)
    elif kind == "read":
        # The last line is in the last accumulator.
        line = dst[: bandwidth.LANES * loops.LINE].reshape(bandwidth.LANES, loops.LINE)[-1]
        assert line[-1] == 9
    else:
        assert set(dst.view("int64")) == {7}


def test_rates_are_positive_numbers() -> None:
    for dtype in filter(arithmetic.is_there, arithmetic.LANES):
        assert 0.01 < arithmetic.gflops(dtype, 2, rounds=ROUNDS) < 100_000
    assert 0.01 < bandwidth.gigabytes("copy", 1 << 14, 1, rounds=ROUNDS) < 10_000


def test_rounds_in_which_threads_did_not_overlap_count_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = iter([[(0.0, 1.0), (1.0, 2.0)], [(0.0, 1.0), (0.1, 1.1)]])
    monkeypatch.setattr(loops, "spans", lambda calls: next(found))
    assert loops.seconds_each([print, print], 1) == 2.0
    assert loops.seconds_each([print, print], 1) == pytest.approx(1.0)


def counts(function: Any, *arguments: Any) -> Counts:
    return counted(kiln.make_jaxpr(function)(*arguments))


def test_products_and_convolutions_are_counted_by_their_multiply_adds() -> None:
    a, b = jnp.ones((3, 4)), jnp.ones((4, 5))
    found = counts(lambda a, b: a @ b, a, b)
    assert found.flops == {"float32": 2 * 3 * 4 * 5}
    assert (found.read, found.written) == (4 * (12 + 20), 4 * 15)
    x, w = jnp.ones((2, 6, 8, 8)), jnp.ones((4, 3, 3, 3))

    def grouped(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", feature_group_count=2)

    assert counts(grouped, x, w).flops["float32"] == 2 * (2 * 4 * 64) * (3 * 9)


def test_loops_multiply_and_branches_count_the_greatest() -> None:
    def looped(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * 2, None), x, None, length=7)[0]

    assert counts(looped, jnp.ones(10)).flops["float32"] == 70

    def branched(x: Any) -> Any:
        return lax.cond(x[0] > 0, lambda x: x + x + x, lambda x: x, x)

    found = counts(branched, jnp.ones(10))
    assert found.flops["float32"] >= 20
    assert not found.open
    assert counts(lambda x: lax.while_loop(lambda x: x < 3, lambda x: x + 1, x), 0.0).open


def test_of_gathered_operands_only_what_is_gathered_is_read() -> None:
    table, at = jnp.ones((1000, 4)), jnp.arange(3)
    found = counts(lambda table, at: table[at], table, at)
    assert found.read <= 3 * 4 * 4 + 3 * 4
    assert counts(lambda t, at: t[at] + t.sum(), table, at).read >= 16_000


def test_rows_in_double_precision_are_counted_as_such() -> None:
    PEERS["kiln"].load()
    [one] = collection.chosen(["selu f64 1e6"])
    kiln_peer: Any = PEERS["kiln"]
    assert list(counts_of(one, one.work(tiny=True), kiln_peer).flops) == ["float64"]


PEAKS = {
    "gflops": {"float32": {"1": 50, "2": 100}, "float64": {"1": 25, "2": 50}},
    "gigabytes": {
        name: {kind: {"1": speed / 2, "2": speed} for kind in bandwidth.KINDS}
        for name, speed in (("L1", 400), ("L2", 200), ("L3", 50), ("memory", 10))
    },
    "caches": {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20},
}


@pytest.mark.parametrize(
    ("found", "by", "seconds"),
    [
        (Counts({"float32": 1e9}, 1e3, 1e3), "float32", 1e-2),
        (Counts({"float32": 1e9, "float64": 1e9}, 1e3, 1e3), "float64", 3e-2),
        (Counts({"float32": 1e3}, 5e7, 5e7), "memory", 1e-2),
        (Counts({"float32": 1e3}, 5e5, 5e5), "L2", 5e-6),
        (Counts({"float32": 1.0}, 4, 4), "call", 1e-6),
    ],
)
def test_the_greatest_of_the_least_times_binds(found: Counts, by: str, seconds: float) -> None:
    limit = roofline.bound(PEAKS, found, 2, call_s=1e-6)
    assert limit["by"] == by
    assert limit["seconds"] == pytest.approx(seconds)


def test_results_become_tables_and_a_roofline(tmp_path: Path) -> None:
    first, second = collection.chosen(["selu 1e3", "sort 1e3"])
    work = Counts({"float32": 1e6}, 4e3, 4e3)
    limit = roofline.bound(PEAKS, work, 2, call_s=1e-6)
    cells = {"kiln": {"median_s": 3e-5, "min_s": 2e-5}, "jax": {"median_s": 5e-5, "min_s": 4e-5}}
    lines = [
        results.line(first, work, limit, cells),
        results.line(second, Counts({"float32": 1.0}, 4, 4, open=True), limit, cells),
    ]
    assert lines[0]["parts"] == {"kiln": pytest.approx(0.5), "jax": pytest.approx(0.25)}
    assert lines[1]["parts"] == {}
    late = {"call, kiln": 1e-6}
    result = results.whole(PEAKS, late, lines, {"x": "ValueError: no"}, {"threads": 2})
    results.write(result, tmp_path)
    assert json.loads((tmp_path / "limit.json").read_text()) == json.loads(json.dumps(result))
    text = (tmp_path / "limit.md").read_text(encoding="utf-8")
    assert "| float32 | 50 | 100 |" in text
    assert "| float32 | 1 | 0.50 | 0.25 |" in text
    assert "- x: ValueError: no" in text
    picture = pytest.importorskip("benchmarks.limit.picture", reason="needs matplotlib")
    picture.draw(result, tmp_path / "limit.svg")
    assert "float32, 100 GFLOP/s" in (tmp_path / "limit.svg").read_text(encoding="utf-8")


def test_latencies_are_those_of_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(latency, "ROUNDS", 2)
    PEERS["kiln"].load()
    kiln_peer: Any = PEERS["kiln"]
    found = latency.measured({"kiln": kiln_peer.library}, 2)
    assert list(found) == ["call, kiln", "wake a worker, kiln"]
    assert 0 < found["call, kiln"] < 0.01
    assert 0 <= found["wake a worker, kiln"] < 1
    f, x = latency.waves(kiln_peer.library)
    assert "call i32 @kiln_parallel" in f.lower(x).compile().as_text("llvm")
