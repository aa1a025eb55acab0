"""Measured rows -> JSON, and JSON -> tables on a terminal and in a document.

`python -m benchmarks.report docs/performance.md` writes the latest results between the two marks of
that file.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness import Row

RESULTS = Path(__file__).parent / "results"
LATEST_JSON, LATEST_TABLE = RESULTS / "latest.json", RESULTS / "latest.md"
FIRST, SECOND = "kiln", "jax"
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PACKAGES = ("kiln", "jax", "jaxlib", "numpy", "scipy", "ml_dtypes")


def machine(packages: Sequence[str] = PACKAGES) -> dict[str, Any]:
    """Describe where the numbers come from, with the versions of packages."""
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "source tree" if package == "kiln" else "not installed"
    return {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _cpu_model() -> str:
    path = Path("/proc/cpuinfo")
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def to_json(groups: Mapping[str, Sequence[Row]]) -> dict[str, Any]:
    """Return the whole result as plain data: `groups` maps a benchmark's name to its rows."""
    return {
        "machine": machine(),
        "benchmarks": {
            group: [
                {
                    "case": row.name,
                    "columns": {
                        name: {"median_s": t.median_s, "min_s": t.min_s, "samples": t.samples}
                        for name, t in row.columns.items()
                    },
                    "ratio": row.ratio(FIRST, SECOND),
                }
                for row in rows
            ]
            for group, rows in groups.items()
        },
    }


def duration(seconds: float) -> str:
    """Return a duration with three digits and its unit."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds:.3g} s"


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the rows of one benchmark as a Markdown table."""
    columns = list(dict.fromkeys(name for row in rows for name in row["columns"]))
    head = ["", *(f"{name}: median (min)" for name in columns), f"{FIRST} / {SECOND}"]
    lines = [head]
    for row in rows:
        cells = []
        for name in columns:
            timing = row["columns"].get(name)
            cells.append(
                f"{duration(timing['median_s'])} ({duration(timing['min_s'])})" if timing else ""
            )
        ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
        lines.append([row["case"], *cells, ratio])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    text = ["| " + " | ".join(c.ljust(w) for c, w in zip(line, widths)) + " |" for line in lines]
    rule = ["|" + "|".join("-" * (w + 2) for w in widths[:1])]
    rule[0] += "|" + "|".join("-" * (w + 1) + ":" for w in widths[1:]) + "|"
    return "\n".join([text[0], *rule, *text[1:]])


def document(result: Mapping[str, Any]) -> str:
    """Return the whole result as Markdown."""
    place = result["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    origin = (place["date"], f"{place['cpu']}, {place['cores']} cores", place["system"])
    parts = [f"{'; '.join(origin)}; Python {place['python']}; {versions}."]
    for group, rows in result["benchmarks"].items():
        parts.append(f"### {group}\n\n{table(rows)}")
    return "\n\n".join(parts) + "\n"


def write(groups: Mapping[str, Sequence[Row]]) -> None:
    """Write the latest results as JSON and as a table.

    Benchmarks that were not run keep their previous numbers only if these come from a run of the
    same machine and versions.
    """
    result = to_json(groups)
    if LATEST_JSON.exists():
        previous = json.loads(LATEST_JSON.read_text(encoding="utf-8"))
        if _same_place(previous["machine"], result["machine"]):
            result["benchmarks"] = {**previous["benchmarks"], **result["benchmarks"]}
    RESULTS.mkdir(exist_ok=True)
    LATEST_JSON.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    LATEST_TABLE.write_text(document(result), encoding="utf-8")


def _same_place(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return {**one, "date": None} == {**other, "date": None}


def fill(path: Path) -> None:
    """Write the latest results between the marks of a document.

    Raises: ValueError if the document has no marks.
    """
    text = path.read_text(encoding="utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{path} lacks the lines {BEGIN} and {END}")
    if not LATEST_JSON.exists():
        print(f"no {LATEST_JSON}: run the benchmarks first; {path} stays as it is")
        return
    body = document(json.loads(LATEST_JSON.read_text(encoding="utf-8")))
    path.write_text(f"{before}{BEGIN}\n\n{body}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    fill(Path(sys.argv[1]))
