"""Draws what a step on many devices costs: the libraries, the exchanges, the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

COLORS = {
    "trace_s": "#2f6db5",
    "lower_s": "#7fa8d8",
    "compile_s": "#cccccc",
    "compute": "#2f6db5",
    "pipeline": "#cccccc",
    "data": "#d4761b",
    "stage": "#8a5fa8",
    "tensor": "#4d9a5b",
}
NAMES = {"trace_s": "trace", "lower_s": "lower", "compile_s": "XLA", "pipeline": "pipeline fills"}
BAR = 0.36


def _stacked(axes: Any, columns: Sequence[Mapping[str, float]], at: Sequence[float]) -> None:
    height = [0.0] * len(columns)
    for key in columns[0]:
        part = [column[key] for column in columns]
        axes.bar(at, part, BAR, bottom=height, color=COLORS[key], label=NAMES.get(key, key))
        height = [a + b for a, b in zip(height, part, strict=True)]


def draw(
    results: Sequence[Mapping[str, Any]],
    model: Sequence[tuple[int, Mapping[str, float]]],
    path: Path,
) -> None:
    """Draw bars of both libraries for each number of devices, and of the model; to a file."""
    figure = Figure(figsize=(11, 4), layout="constrained")
    own, modeled = figure.subplots(1, 2)
    keys = ("trace_s", "lower_s", "compile_s")
    at, labels = [], []
    for number, result in enumerate(results):
        mesh = result["mesh"]
        devices = mesh["data"] * mesh["stage"] * mesh["tensor"]
        at.append(number // 2 + (number % 2 - 0.5) * (BAR + 0.04))
        labels.append(f"{result['library']}\n{devices}")
    _stacked(own, [{key: result[key] for key in keys} for result in results], at)
    own.set_xticks(at, labels, fontsize=8)
    own.set_title("from a function to an executable, by number of devices", fontsize=10)
    own.set_ylabel("seconds")
    own.legend(fontsize=8, frameon=False)
    _stacked(modeled, [parts for _, parts in model], range(len(model)))
    modeled.set_xticks(range(len(model)), [str(devices) for devices, _ in model])
    modeled.set_title("a step on the modeled machine, by number of devices", fontsize=10)
    modeled.set_ylabel("seconds")
    modeled.legend(fontsize=8, frameon=False)
    for axes in (own, modeled):
        axes.spines[["top", "right"]].set_visible(False)
    with mpl.rc_context({"svg.hashsalt": "kiln"}):
        figure.savefig(path, metadata={"Date": None})
