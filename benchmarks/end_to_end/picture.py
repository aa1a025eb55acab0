"""Draws how long programs take from start to end: for each a line from JAX's time to kiln's.

`python -m benchmarks.end_to_end.picture RESULT.json PICTURE.svg` draws a result again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

ROW_INCHES = 0.19
JAX, KILN, INK, FAINT = "#2f6db5", "#d4761b", "#222222", "#dddddd"
MARKS = {
    "jax": (JAX, "o", "full", "JAX"),
    "jax with its cache": (JAX, "o", "none", "JAX, its cache filled"),
    "kiln": (KILN, "D", "full", "kiln"),
    "kiln with its cache": (KILN, "D", "none", "kiln, its cache filled"),
}


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw a result; the suffix of the path chooses the format."""
    rows = result["rows"]
    figure = Figure(figsize=(8, 1.4 + ROW_INCHES * len(rows)), layout="constrained")
    axes = figure.subplots()
    for y, times in enumerate(rows.values()):
        axes.plot([min(times.values()), max(times.values())], [y, y], color=FAINT, zorder=1)
    for column, (color, marker, fill, label) in MARKS.items():
        xs = [times[column] for times in rows.values()]
        face = color if fill == "full" else "white"
        axes.scatter(
            xs, range(len(xs)), s=20, marker=marker, color=face, edgecolors=color, label=label
        ).set_zorder(3)
    names = [name.replace("_", " ").replace(":", ": ") for name in rows]
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.set(xscale="log", ylim=(len(names), -1))
    longest = max(max(times.values()) for times in rows.values())
    ticks = [tick for tick in (0.5, 1, 2, 5, 10, 20, 50) if tick < 2 * longest]
    axes.set_xticks(ticks, [f"{tick:g} s" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("the whole process, from start to end", color=INK)
    means = result["means"]
    figure.suptitle(
        f"{len(rows)} programs of libraries for JAX: kiln is "
        f"{means['without caches, geometric mean']:.1f} times as fast, "
        f"{means['with caches, geometric mean']:.1f} with caches (geometric means)",
        fontsize=10,
    )
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    # Text stays text, and the same result gives the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kiln"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)


if __name__ == "__main__":
    draw(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), Path(sys.argv[2]))
