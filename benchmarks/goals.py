"""What kiln set out to reach beside JAX, and what the latest results say of it.

`python -m benchmarks.goals` reads `results/latest.json`, prints each goal with the quotient of
medians that was measured, and ends with an error if one is missed.
"""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from benchmarks import report


@dataclasses.dataclass(frozen=True)
class Goal:
    """At most `limit` times another measurement: JAX's of the row, or `beside`."""

    group: str
    row: str
    limit: float
    column: str = "jax"
    beside: str | None = None


GOALS = [
    Goal("first_calls", "compile selu", 0.15),
    Goal("first_calls", "compile chain of 100", 0.15),
    Goal("first_calls", "compile mixed 100", 0.3),
    Goal("first_calls", "first call, 4 layers", 0.3),
    Goal("first_calls", "compile chain of 2000", 25.0, "kiln", "compile chain of 100"),
    Goal("first_calls", "compile mixed 2000", 25.0, "kiln", "compile mixed 100"),
    Goal("startup", "import to first result of jit(x + 1)", 0.3),
    Goal("calls", "1 small array, x + 1", 0.1),
    Goal("calls", "100 arrays in and out", 0.1),
    Goal("calls", "dict of 21 leaves", 0.1),
    Goal("calls", "100 NumPy arrays in", 0.1),
    Goal("calls", "NumPy array of 64 KiB", 1.0),
    Goal("calls", "NumPy array of 1 MiB", 1.0),
    Goal("calls", "NumPy array of 16 MiB", 1.0),
    Goal("calls", "NumPy array of 64 MiB", 1.0),
    Goal("calls", "Python ints, one static", 2.0, "python"),
    Goal("fresh", "20 calls, jit(fresh lambda)", 1.5, "kiln", "20 calls, jit(same function)"),
    Goal(
        "first_calls",
        "gradient of a scan of 30 scalars",
        4.0,
        "kiln",
        "scan of 30 scalars",
    ),
]


def found(result: Mapping[str, Any]) -> Iterator[tuple[Goal, float | None]]:
    """Yield each goal with what was measured, None if it was not."""
    for goal in GOALS:
        rows = {r["case"]: r["columns"] for r in result["benchmarks"].get(goal.group, ())}
        own = rows.get(goal.row, {}).get("kiln")
        other = rows.get(goal.beside or goal.row, {}).get(goal.column)
        yield goal, own["median_s"] / other["median_s"] if own and other else None


def table(result: Mapping[str, Any]) -> str:
    """Return the goals as a Markdown table."""
    lines = ["| what | beside | at most | measured |", "|---|---|---:|---:|"]
    for goal, value in found(result):
        beside = goal.beside or {"jax": "JAX", "python": "plain Python"}[goal.column]
        shown = "not measured" if value is None else f"{value:.2f}"
        if value is not None and value > goal.limit:
            shown = f"**{shown}**"
        lines.append(f"| {goal.row} | {beside} | {goal.limit:g} | {shown} |")
    return "\n".join(lines)


def main() -> None:
    """Print the goals."""
    result = json.loads(report.LATEST_JSON.read_text(encoding="utf-8"))
    print(table(result))
    if any(value is None or value > goal.limit for goal, value in found(result)):
        sys.exit("not every goal is met")


if __name__ == "__main__":
    main()
