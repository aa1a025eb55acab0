"""Draws the roofline: the peaks as lines, every row at its intensity and its rate.

`python -m benchmarks.limit.picture` draws `results/limit.json` again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy
from matplotlib.figure import Figure

from benchmarks.report import RESULTS

LEAST, MOST = 2.0**-6, 2.0**10
JAX, KILN, INK, FAINT = "#2f6db5", "#d4761b", "#222222", "#dddddd"
PEERS = {"jax": (JAX, "o", "JAX"), "kiln": (KILN, "D", "kiln")}


def _points(result: Mapping[str, Any], peer: str) -> list[tuple[float, float]]:
    found = []
    for one in result["rows"]:
        work, moved = sum(one["flops"].values()), one["read"] + one["written"]
        cell = one["peers"].get(peer, {})
        if work and moved and "min_s" in cell and not one["open"]:
            intensity = min(max(work / moved, LEAST), MOST)
            found.append((intensity, work / cell["min_s"] / 1e9))
    return found


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw a result; the suffix of the path chooses the format."""
    threads, peaks = str(result["settings"]["threads"]), result["peaks"]
    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    across = numpy.geomspace(LEAST, MOST, 200)
    top = peaks["gflops"]["float32"][threads]
    for name, kinds in peaks["gigabytes"].items():
        speed = kinds["read"][threads]
        axes.plot(across, numpy.minimum(top, across * speed), color=INK, linewidth=0.8)
        axes.annotate(
            f"{name}, {speed:.3g} GB/s", (LEAST * 1.1, LEAST * 1.1 * speed), fontsize=7,
            xytext=(0, 3), textcoords="offset points", rotation=32, rotation_mode="anchor",
        )  # fmt: skip
    for dtype, speeds in peaks["gflops"].items():
        axes.axhline(speeds[threads], color=FAINT, linewidth=0.8, zorder=0)
        axes.annotate(
            f"{dtype}, {speeds[threads]:.3g} GFLOP/s", (MOST, speeds[threads]), fontsize=7,
            xytext=(-2, 3), textcoords="offset points", ha="right",
        )  # fmt: skip
    for peer, (color, marker, label) in PEERS.items():
        points = _points(result, peer)
        if points:
            axes.scatter(
                *zip(*points), s=14, color=color, marker=marker, label=label, alpha=0.7, zorder=3
            )
    axes.set(xscale="log", yscale="log", xlim=(LEAST, MOST))
    axes.set_xlabel("operations per byte of operands and results (beyond the edges: at the edge)")
    axes.set_ylabel("GFLOP/s, by the least time")
    axes.grid(color=FAINT, linewidth=0.4)
    axes.spines[:].set_visible(False)
    figure.suptitle(f"{len(result['rows'])} rows, {threads} threads", fontsize=11)
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    # Text stays text, and the same result gives the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kiln"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)


if __name__ == "__main__":
    draw(json.loads((RESULTS / "limit.json").read_text(encoding="utf-8")), RESULTS / "limit.svg")
