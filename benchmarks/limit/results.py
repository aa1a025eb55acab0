"""Peaks and bound rows -> JSON and Markdown."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.limit.counting import Counts
from benchmarks.report import duration
from benchmarks.suite.measuring import geometric_mean

Line = dict[str, Any]
FLOOR = 0.5
"""Rows that reach less than this part of their peak are listed first."""


def line(row: Any, counts: Counts, limit: Mapping[str, Any], cells: Mapping[str, Any]) -> Line:
    """Return the result of a row as plain data; a part is of the peak, by the least time."""
    times = {name: dict(cell) for name, cell in cells.items()}
    # A loop of unknown trip count was counted once: its bound says nothing.
    parts = {
        name: limit["seconds"] / cell["min_s"]
        for name, cell in times.items()
        if "min_s" in cell and not counts.open
    }
    return {
        "row": row.name,
        "kind": row.kind,
        "flops": counts.flops,
        "read": counts.read,
        "written": counts.written,
        "open": counts.open,
        "bound": dict(limit),
        "peers": times,
        "parts": parts,
    }


def whole(
    peaks: Mapping[str, Any],
    latencies: Mapping[str, float],
    lines: Sequence[Line],
    failed: Mapping[str, str],
    settings: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the whole result as plain data."""
    place = report.machine((*report.PACKAGES, "llvmlite"))
    place["load"] = os.getloadavg()
    return {
        "machine": place,
        "settings": dict(settings),
        "peaks": dict(peaks),
        "latencies": dict(latencies),
        "rows": list(lines),
        "failed": dict(failed),
    }


def _table(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *body))


def peaks_table(result: Mapping[str, Any]) -> str:
    """Return the measured peaks as Markdown."""
    peaks = result["peaks"]
    counts = list(next(iter(peaks["gflops"].values())))
    heads = [f"{n} thread{'s' if n != '1' else ''}" for n in counts]
    rows = [["multiply-adds, GFLOP/s", *heads]]
    rows += [
        [dtype, *(f"{speeds[n]:.3g}" for n in counts)] for dtype, speeds in peaks["gflops"].items()
    ]
    bytes_rows = [["GB/s", *(f"{kind}, {n}" for kind in _kinds(peaks) for n in counts)]]
    for name, kinds in peaks["gigabytes"].items():
        bytes_rows.append(
            [name, *(f"{kinds[kind][n]:.3g}" for kind in _kinds(peaks) for n in counts)]
        )
    late = [["latency", "least"], *([k, duration(v)] for k, v in result["latencies"].items())]
    return "\n\n".join(_table(rows) for rows in (rows, bytes_rows, late))


def _kinds(peaks: Mapping[str, Any]) -> list[str]:
    return list(next(iter(peaks["gigabytes"].values())))


def summary(result: Mapping[str, Any]) -> str:
    """Return how many rows each peak binds, and the part that is reached, as Markdown."""
    rows = [["bound by", "rows", "kiln reaches", "JAX reaches"]]
    known = [one for one in result["rows"] if one["parts"]]
    for name, count in Counter(one["bound"]["by"] for one in known).most_common():
        chosen = [one for one in known if one["bound"]["by"] == name]
        means = [
            geometric_mean([one["parts"][peer] for one in chosen if peer in one["parts"]])
            for peer in ("kiln", "jax")
        ]
        rows.append([name, str(count), *(f"{mean:.2f}" for mean in means)])
    return _table(rows)


def rows_table(result: Mapping[str, Any]) -> str:
    """Return all rows as Markdown, the least part of a peak first."""
    rows = [
        ["row", "MFLOP", "MB", "bound by", "at best", "kiln: median (min)", "part", "jax: part"]
    ]
    ordered = sorted(result["rows"], key=lambda one: one["parts"].get("kiln", 2))
    for one in ordered:
        kiln = one["peers"].get("kiln", {})
        taken = (
            f"{duration(kiln['median_s'])} ({duration(kiln['min_s'])})" if "min_s" in kiln else ""
        )
        parts = [f"{one['parts'][p]:.2f}" if p in one["parts"] else "" for p in ("kiln", "jax")]
        rows.append(
            [
                one["row"],
                f"{sum(one['flops'].values()) / 1e6:.3g}",
                f"{(one['read'] + one['written']) / 1e6:.3g}",
                "open loop" if one["open"] else one["bound"]["by"],
                duration(one["bound"]["seconds"]),
                taken,
                *parts,
            ]
        )
    return _table(rows)


def document(result: Mapping[str, Any]) -> str:
    """Return the whole result as Markdown."""
    place, settings = result["machine"], result["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    load = ", ".join(f"{x:.1f}" for x in place["load"])
    first = (
        f"{place['date']}; {place['cpu']}, {settings['threads']} of {place['cores']} cores, load "
        f"{load}; {place['system']}; Python {place['python']}; {versions}."
    )
    explained = (
        "A part is the least time that the peaks allow, divided by the least time measured. Peaks "
        "that another program on the machine disturbed are too low, and parts above 1 say so."
    )
    failed = [f"- {name}: {why}" for name, why in result["failed"].items()]
    parts = [first, explained, peaks_table(result), summary(result), rows_table(result)]
    if failed:
        parts.append("Rows without counts:\n\n" + "\n".join(failed))
    return "\n\n".join(parts) + "\n"


def write(result: Mapping[str, Any], folder: Path = report.RESULTS) -> None:
    """Write the result as `limit.json` and `limit.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1) + "\n"
    (folder / "limit.json").write_text(text, encoding="utf-8")
    (folder / "limit.md").write_text(document(result), encoding="utf-8")
