"""Cells -> JSON, a table, and what they say together."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.report import duration
from benchmarks.suite.measuring import Cell, geometric_mean
from benchmarks.suite.row import EMITTED, EVERY_KIND, KERNELS, Row

PACKAGES = ("torch", "numba", "onnxruntime", "openvino", "llvmlite", "scipy_openblas32")
FLOOR, LEAST, BEST = 0.95, 0.7, 0.9
"""A row is listed where kiln has less than `FLOOR` of JAX's speed; below `LEAST` it is a defect.
It is also listed below `BEST` of the speed of the best peer."""
Line = dict[str, Any]


def line(row: Row, cells: Mapping[str, Cell]) -> Line:
    """Return the result of a row as plain data."""
    told = {"report": row.report} if row.report else {}
    return {"row": row.name, "kind": row.kind, "peers": dict(cells), **told}


def speed(line: Line, peer: str, key: str = "median_s") -> float | None:
    """Return how many times faster kiln is than a peer."""
    kiln, other = (line["peers"].get(name, {}).get(key) for name in ("kiln", peer))
    return other / kiln if kiln and other else None


def best_peer(line: Line, key: str = "median_s") -> str | None:
    """Return the name of the fastest peer but kiln."""
    times = {name: cell[key] for name, cell in line["peers"].items() if cell.get(key)}
    times.pop("kiln", None)
    return min(times, key=times.__getitem__, default=None)


def means(lines: Sequence[Line], key: str = "median_s") -> dict[str, Line]:
    """Return geometric means of kiln's speed, for all rows, groups of kinds and each kind."""
    groups = {
        "all rows": EVERY_KIND,
        "emitted code": EMITTED,
        "kernels": KERNELS,
        **{kind: (kind,) for kind in EVERY_KIND},
    }
    found = {}
    for name, kinds in groups.items():
        chosen = [line for line in lines if line["kind"] in kinds]
        jax = [speed(line, "jax", key) for line in chosen]
        best = [speed(line, best_peer(line, key) or "", key) for line in chosen]
        if chosen:
            found[name] = {
                "rows": len(chosen),
                "against_jax": geometric_mean([x for x in jax if x]),
                "against_best": geometric_mean([x for x in best if x]),
            }
    return found


def whole(lines: Sequence[Line], settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole result as plain data."""
    place = report.machine((*report.PACKAGES, *PACKAGES))
    place["load"] = os.getloadavg()
    place["engine"] = os.environ.get("KILN_ENGINE", "as configured")
    return {
        "machine": place,
        "settings": dict(settings),
        "means": means(lines),
        "means_of_minima": means(lines, "min_s"),
        "rows": list(lines),
    }


def _below(
    lines: Sequence[Line], limit: float, peer_of: Callable[[Line], str | None]
) -> list[tuple[float, str, str]]:
    """Return the ratio, the row and the peer where kiln's speed is below a limit, least first."""
    found = []
    for one in lines:
        peer = peer_of(one) or ""
        x = speed(one, peer)
        if x is not None and x < limit:
            found.append((x, one["row"], peer))
    return sorted(found)


def summary(result: Mapping[str, Any]) -> str:
    """Return what the rows say together, as Markdown."""
    heads = ["", "rows", "against JAX", "against the best peer", "JAX, minima", "best, minima"]
    text = [heads, ["---", *["---:"] * 5]]
    for name, mean in result["means"].items():
        least = result["means_of_minima"][name]
        pairs = [mean["against_jax"], mean["against_best"]]
        pairs += [least["against_jax"], least["against_best"]]
        text.append([name, str(mean["rows"]), *(f"{x:.2f}" for x in pairs)])
    lines = [f"| {' | '.join(cells)} |" for cells in text]
    below = _below(result["rows"], FLOOR, lambda line: "jax")
    lines.append(f"\nBelow {FLOOR} of JAX's speed: {len(below)} rows, by medians.\n")
    lines += [
        f"- {name}: {x:.2f}{' (below ' + str(LEAST) + ')' if x < LEAST else ''}"
        for x, name, _ in below
    ]
    behind = _below(result["rows"], BEST, best_peer)
    lines.append(f"\nBelow {BEST} of the speed of the best peer: {len(behind)} rows.\n")
    lines += [f"- {name}: {x:.2f} of {peer}" for x, name, peer in behind]
    for word in ("wrong", "failed"):
        found = [
            f"- {line['row']}, {name}: {cell[word]}"
            for line in result["rows"]
            for name, cell in line["peers"].items()
            if word in cell
        ]
        if found:
            lines += [f"\nNot timed, as {word}: {len(found)}.\n", *found]
    return "\n".join(lines)


def _time(cell: Cell | None) -> str:
    if not cell:
        return ""
    if "median_s" not in cell:
        return next(iter(cell))
    return f"{duration(cell['median_s'])} ({duration(cell['min_s'])})"


def _quotient(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _mebi(cell: Cell) -> str:
    return "" if cell.get("peak_bytes") is None else f"{cell['peak_bytes'] / 2**20:.1f}"


def table(lines: Sequence[Line], peers: Sequence[str]) -> str:
    """Return the times of all rows as a Markdown table."""
    heads = ["row", *peers, "JAX / kiln", "best", "best / kiln"]
    out = [heads, ["---", *["---:"] * (len(peers) + 1), "---", "---:"]]
    for one in lines:
        best = best_peer(one)
        cells = [_time(one["peers"].get(peer)) for peer in peers]
        against = [_quotient(speed(one, "jax")), best or "", _quotient(speed(one, best or ""))]
        name = f"[{one['row']}]({one['report']})" if "report" in one else one["row"]
        out.append([name, *cells, *against])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in out)


def costs(lines: Sequence[Line], peers: Sequence[str]) -> str:
    """Return the first calls and the memory of all rows as a Markdown table."""
    compiling = [p for p in peers if any("first_s" in one["peers"].get(p, {}) for one in lines)]
    heads = ["row", *(f"{p}: first call" for p in compiling), *(f"{p}: MiB" for p in peers)]
    out = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for one in lines:
        firsts = [one["peers"].get(peer, {}).get("first_s") for peer in compiling]
        cells = ["" if x is None else duration(x) for x in firsts]
        out.append([one["row"], *cells, *(_mebi(one["peers"].get(peer, {})) for peer in peers)])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in out)


def document(result: Mapping[str, Any]) -> str:
    """Return the whole result as Markdown."""
    place, settings = result["machine"], result["settings"]
    versions = ", ".join(f"{name} {version}" for name, version in place["versions"].items())
    load = ", ".join(f"{x:.1f}" for x in place["load"])
    lines = result["rows"]
    present = dict.fromkeys(name for one in lines for name in one["peers"])
    names = [name for name in settings.get("peers", present) if name in present]
    parts = [
        (
            f"{place['date']}; {place['cpu']}, {settings['threads']} of {place['cores']} cores, "
            f"load {load}; {place['system']}; Python {place['python']}; {versions}; kiln on: "
            f"{place['engine']}."
        ),
        (
            "A cell is the median over the rounds, with the minimum in parentheses. Quotients "
            "are of medians: above 1, kiln is faster."
        ),
        summary(result),
    ]
    for kind in EVERY_KIND:
        chosen = [one for one in lines if one["kind"] == kind]
        if chosen:
            parts.append(f"### {kind}\n\n{table(chosen, names)}")
    parts.append(
        "### First calls and memory\n\nA first call traces, compiles and runs. MiB is how far "
        "resident memory grows at its peak during a later call, from the same process with free "
        f"memory given back.\n\n{costs(lines, names)}"
    )
    return "\n\n".join(parts) + "\n"


def write(result: Mapping[str, Any], folder: Path = report.RESULTS, name: str = "suite") -> None:
    """Write the result as JSON and as a table, `name.json` and `name.md`."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(result, indent=1) + "\n"
    (folder / f"{name}.json").write_text(text, encoding="utf-8")
    (folder / f"{name}.md").write_text(document(result), encoding="utf-8")
