"""WebAssembly modules: their sizes, and the time of a call in Node beside that of one in C.

`python -m benchmarks.web_modules`. Times are minima over rounds, of one thread; calls use arrays in
the memory of the module.
"""

from __future__ import annotations

import gzip
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

import kiln
from benchmarks.libraries import Program, from_c, programs, time_text
from kiln import export

ROUNDS = 100
LEVEL = "x86-64-v2"
"""The level whose vectors are as wide as those of modules, without fused multiply-add."""
_MAIN = """\
import {{ readFileSync }} from "node:fs";
import {{ load }} from "./{name}.mjs";

const [, , rounds, repeats] = process.argv.map(Number);
const library = await load();
const call = library.{name}.prepare();
const data = readFileSync("data");
let at = 0;
for (const place of call.places) {{
  if (place.is("out")) continue;
  const {{ buffer, byteOffset, byteLength }} = place.value;
  new Uint8Array(buffer, byteOffset, byteLength).set(data.subarray(at, at + byteLength));
  at += byteLength;
}}
let least = Infinity;
for (let round = 0; round < rounds; ++round) {{
  const start = performance.now();
  for (let i = 0; i < repeats; ++i) call.run();
  least = Math.min(least, (performance.now() - start) / repeats);
}}
console.log(least / 1000);
"""


class Row(NamedTuple):
    """What was measured: bytes, and seconds of a call."""

    name: str
    module: int
    packed: int
    constants: int
    node: float
    narrow: float
    host: float


def measure(name: str, program: Program, rounds: int = ROUNDS) -> Row:
    """Write a module and libraries, and return what calls take in Node and in C."""
    jitted = kiln.jit(program.function)
    with tempfile.TemporaryDirectory() as made:
        folders = [Path(made) / kind for kind in ("wasm32", LEVEL, "host")]
        for folder, target in zip(folders, ("wasm32", LEVEL, None), strict=True):
            written = export.library(
                jitted, *program.arguments, name=name, path=folder, target=target, shared=False
            )
        module = (folders[0] / f"{name}.wasm").read_bytes()
        seconds, _ = from_c(name, program, folders[2], 3, 1)
        repeats = max(1, min(10_000, int(2e-3 / max(seconds, 1e-7))))
        host, _ = from_c(name, program, folders[2], rounds, repeats)
        narrow, _ = from_c(name, program, folders[1], rounds, repeats)
        node = _in_node(name, program, folders[0], rounds, repeats)
    packed = len(gzip.compress(module))
    return Row(name, len(module), packed, written.constant_bytes, node, narrow, host)


def _in_node(name: str, program: Program, folder: Path, rounds: int, repeats: int) -> float:
    (folder / "main.mjs").write_text(_MAIN.format(name=name))
    (folder / "data").write_bytes(b"".join(np.asarray(x).tobytes() for x in program.arguments))
    command = ["node", "main.mjs", str(rounds), str(repeats)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return float(done.stdout)


def table(rows: list[Row]) -> str:
    """Return the table of some rows."""
    lines = [
        f"| program | .wasm | gzip | constants | call in Node | in C, {LEVEL} | in C, the host's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append(
            f"| {row.name} | {row.module:,} | {row.packed:,} | {row.constants:,} | "
            f"{time_text(row.node)} | {time_text(row.narrow)} | {time_text(row.host)} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    print(table([measure(name, program) for name, program in programs().items()]))
