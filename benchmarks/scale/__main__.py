"""Compiles a large training step for many virtual devices, kiln beside JAX.

`python -m benchmarks.scale` writes `results/scale.json`, a picture, and the tables of
`docs/scale.md`. Each number of devices is a process of its own for each library.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks import report
from benchmarks.report import RESULTS, duration
from benchmarks.scale.collectives import Collective
from benchmarks.scale.model import Machine, by_axis, efficiency, expected, seconds
from benchmarks.scale.picture import draw
from benchmarks.scale.step import LARGE

DEVICES = (16, 64, 256, 512)
STAGES, PARTS = 4, 4
MODELED = (16, 64, 256, 512, 1024, 2048, 4096)
LIBRARIES = ("kiln", "jax")
JSON, PICTURE = RESULTS / "scale.json", RESULTS / "scale.svg"
DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"


def measured(library: str, devices: int) -> dict[str, Any]:
    """Return what one process measured."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.scale.measure",
            library,
            str(devices),
            f"{STAGES}x{PARTS}",
        ],
        check=False,
        capture_output=True,
        text=True,
        timeout=900,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{library} with {devices} devices failed:\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def mesh_of(devices: int) -> dict[str, int]:
    """Return the mesh of so many devices: replicas are added, their size stays."""
    return {"data": devices // (STAGES * PARTS), "stage": STAGES, "tensor": PARTS}


def require_expected(result: dict[str, Any]) -> None:
    """Raise AssertionError if the compiled program exchanges other bytes than the model says."""
    found = [Collective(**{**one, "axes": tuple(one["axes"])}) for one in result["collectives"]]
    exchanged, formula = by_axis(found, result["mesh"]), expected(LARGE, result["mesh"])
    assert exchanged == formula, f"{result['library']}: {exchanged}, expected {formula}"


def costs(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of what the libraries themselves cost."""
    yield "| devices | | trace | lower | XLA compiles | `device_put` | call | read |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|"
    for result in results:
        devices = mesh_size(result)
        stages = [duration(result[f"{name}_s"]) for name in ("trace", "lower", "compile")]
        work = [duration(result["arrays"][name]) for name in ("device_put", "call", "read")]
        yield f"| {devices} | {result['library']} | {' | '.join((*stages, *work))} |"


def mesh_size(result: dict[str, Any]) -> int:
    """Return the number of devices of a result."""
    mesh = result["mesh"]
    return int(mesh["data"] * mesh["stage"] * mesh["tensor"])


def exchanges(results: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the table of what a device holds and hands over in a step of kiln's program."""
    yield "| devices | weights and batch | temporary | along data | along stage | along tensor |"
    yield "|---:|---:|---:|---:|---:|---:|"
    for result in results:
        if result["library"] == "kiln":
            nbytes = expected(LARGE, result["mesh"])
            held = (result["argument_bytes"], result["temporary_bytes"])
            cells = [f"{n / 2**30:.2f} GiB" for n in (*held, *nbytes.values())]
            yield f"| {mesh_size(result)} | {' | '.join(cells)} |"


def modeled(machine: Machine) -> Iterator[str]:
    """Yield the table of the model."""
    yield "| devices | compute | pipeline | along data | along stage | along tensor | efficiency |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for devices in MODELED:
        mesh = mesh_of(devices)
        parts = seconds(LARGE, mesh, machine)
        names = ("compute", "pipeline", "data", "stage", "tensor")
        cells = [duration(parts[name]) for name in names]
        yield f"| {devices} | {' | '.join(cells)} | {efficiency(LARGE, mesh, machine):.3f} |"


def write(results: Sequence[dict[str, Any]], machine: Machine) -> None:
    """Write the picture and the tables of the document between its marks."""
    draw(results, [(n, seconds(LARGE, mesh_of(n), machine)) for n in MODELED], PICTURE)
    tables = {"costs": costs(results), "exchanges": exchanges(results), "model": modeled(machine)}
    text = DOCUMENT.read_text()
    for name, lines in tables.items():
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = "\n".join((before + begin, *lines, end + rest.split(end)[1]))
    DOCUMENT.write_text(text)


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, or with `--draw` write the document again."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--devices", type=int, nargs="*", default=DEVICES)
    parser.add_argument("--draw", action="store_true")
    options = parser.parse_args(argv)
    machine = Machine()
    if not options.draw:
        results = []
        for devices in options.devices:
            for library in LIBRARIES:
                result = measured(library, devices)
                require_expected(result)
                results.append(result)
                print(f"{library}, {devices} devices: trace {result['trace_s']:.2f} s", flush=True)
        found = {"machine": report.machine(), "model": dataclasses.asdict(machine)}
        JSON.write_text(json.dumps({**found, "results": results}, indent=1) + "\n")
    write(json.loads(JSON.read_text())["results"], machine)


if __name__ == "__main__":
    main()
