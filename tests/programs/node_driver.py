"""Node as the caller of WebAssembly modules: arguments from a file, results to another.

It makes the calls of `c_driver.Call` in one process, each twice where no argument is replaced.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from kiln import _runtime
from tests.programs.c_driver import Call, described_in, results_in

NODE = shutil.which("node")
HAS_RUNTIME = (Path(_runtime.__file__).parent / "_runtime.wasm32.a").exists()
needs_node = pytest.mark.skipif(
    NODE is None or not HAS_RUNTIME or importlib.util.find_spec("ziglang") is None,
    reason="needs Node, zig, and the static runtime that make cross builds",
)
_MAIN = """\
import { readFileSync, writeFileSync } from "node:fs";
const calls = JSON.parse(readFileSync("calls.json"));
const data = readFileSync("in.bin");
const results = [];
let at = 0;

function given(place) {
  const array = place.value;
  new Uint8Array(array.buffer, array.byteOffset, array.byteLength)
    .set(data.subarray(at, at + array.byteLength));
  at += array.byteLength;
}

for (const { file, symbol, sizes } of calls) {
  const { load } = await import(file);
  const library = await load();
  const call = library[symbol].prepare(sizes);
  for (const place of call.places) if (!place.is("out")) given(place);
  call.run();
  const memory = library.exports.memory.buffer.byteLength;
  if (!call.places.some((place) => place.is("inout"))) call.run();
  if (library.exports.memory.buffer.byteLength !== memory) {
    throw new Error(`${symbol}: the second call allocated memory`);
  }
  for (const place of call.places) if (!place.is("in")) results.push(place.read());
  call.free();
}
if (at !== data.length) throw new Error("arguments are left");
writeFileSync(
  "out.bin", Buffer.concat(results.map((x) => Buffer.from(x.buffer, x.byteOffset, x.byteLength))));
"""


def run_in_node(calls: Sequence[Call], folder: Path) -> list[list[np.ndarray]]:
    """Make some calls in Node, and return all results."""
    listed = []
    for call in calls:
        name = described_in(call.folder)["name"]
        file = (call.folder / f"{name}.mjs").absolute().as_uri()
        listed.append({"file": file, "symbol": call.symbol, "sizes": call.sizes})
    (folder / "calls.json").write_text(json.dumps(listed))
    (folder / "main.mjs").write_text(_MAIN)
    (folder / "in.bin").write_bytes(b"".join(v.tobytes() for c in calls for v in c.values))
    run_node(folder, "main.mjs")
    return results_in(folder / "out.bin", calls)


def run_node(folder: Path, file: str) -> str:
    """Run a program in a folder; return what it prints."""
    assert NODE is not None
    done = subprocess.run(
        [NODE, file], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
