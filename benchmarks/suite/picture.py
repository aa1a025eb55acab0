"""Draws the results: for every row, how much faster kiln is than JAX and than the best peer.

`python -m benchmarks.suite.picture suite` draws `results/suite.json` again.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.report import RESULTS
from benchmarks.suite.results import best_peer, speed
from benchmarks.suite.row import EVERY_KIND

ROW_INCHES = 0.17
NARROWEST, WIDEST = 0.1, 100.0
JAX, BEST, INK, FAINT = "#2f6db5", "#d4761b", "#222222", "#dddddd"


def _layout(lines: list[dict[str, Any]]) -> list[tuple[str, dict[str, Any] | None]]:
    # From the top: the name of a kind, then its rows.
    places: list[tuple[str, dict[str, Any] | None]] = []
    for kind in EVERY_KIND:
        chosen = [line for line in lines if line["kind"] == kind]
        if chosen:
            places += [(kind, None), *((line["row"], line) for line in chosen)]
    return places


def draw(result: Mapping[str, Any], path: Path) -> None:
    """Draw a result; the suffix of the path chooses the format."""
    places = _layout([line for line in result["rows"] if speed(line, best_peer(line) or "")])
    figure = Figure(figsize=(10, 1.6 + ROW_INCHES * len(places)), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1, color=INK, linewidth=0.8)
    drawn: dict[str, list[tuple[float, int]]] = {"jax": [], "best": []}
    for y, (_, line) in enumerate(places):
        if line is None:
            continue
        best = best_peer(line) or ""
        pair = [speed(line, "jax"), speed(line, best)]
        pair = [None if x is None else min(max(x, NARROWEST), WIDEST) for x in pair]
        known = [x for x in pair if x is not None]
        axes.plot([min(*known, 1), max(*known, 1)], [y, y], color=FAINT, linewidth=1.4, zorder=1)
        for key, x in zip(drawn, pair):
            if x is not None:
                drawn[key].append((x, y))
        axes.annotate(
            best, (WIDEST, y), (3, 0), textcoords="offset points", va="center", fontsize=6
        )
    for key, color, marker, label in (
        ("jax", JAX, "o", "than JAX"),
        ("best", BEST, "D", "than the best peer (named at the right)"),
    ):
        if drawn[key]:
            xs, ys = zip(*drawn[key])
            axes.scatter(xs, ys, s=16, color=color, marker=marker, label=label, zorder=3)
    axes.set_yticks(range(len(places)), [name for name, _ in places], fontsize=6.5)
    for label, (_, line) in zip(axes.get_yticklabels(), places):
        if line is None:
            label.set_fontweight("bold")
            label.set_fontsize(8)
    axes.set(xscale="log", xlim=(NARROWEST, WIDEST), ylim=(len(places), -1))
    ticks = (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.tick_params(axis="x", top=True, labeltop=True)
    axes.grid(axis="x", color=FAINT, linewidth=0.5)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("how many times faster kiln is (medians; beyond the edges, drawn at the edge)")
    means = result["means"]["all rows"]
    figure.suptitle(
        f"{means['rows']} rows: {means['against_jax']:.2f} times JAX, "
        f"{means['against_best']:.2f} times the best peer (geometric means)",
        fontsize=11,
    )
    figure.legend(loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    # Text stays text, and the same result gives the same file.
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "kiln"}):
        metadata = {"Date": None} if path.suffix == ".svg" else None
        figure.savefig(path, metadata=metadata, dpi=110)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        text = (RESULTS / f"{name}.json").read_text(encoding="utf-8")
        draw(json.loads(text), RESULTS / f"{name}.svg")
