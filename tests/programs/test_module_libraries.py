"""Static libraries for WebAssembly become parts of a module of one's own, with its libc.

A program in C, which zig compiles, calls two libraries of kiln; Node runs it.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.engines.native.library.archive import read_archive
from tests.programs.c_driver import Call, have_same_bits
from tests.programs.node_driver import NODE, needs_node, run_in_node

pytestmark = needs_node

WEIGHTS = np.arange(840, dtype=np.float32).reshape(21, 40) / 840
SOURCE = """\
#include <stdio.h>
#include "first.h"
#include "second.h"

static float x[1600], out[840], bent[1600], halves[1600];

int main(void) {
  first_context *one = first_create(first_workspace_size());
  second_context *two = second_create(second_workspace_size(40));
  FILE *file = fopen("/in.bin", "rb");
  if (file == NULL || fread(x, 1, sizeof x, file) != sizeof x) return 1;
  fclose(file);
  if (first(one, x, out) != FIRST_OK) return 2;
  if (second_bend(two, x, bent) != SECOND_OK) return 3;
  if (second_half(two, 40, x, halves) != SECOND_OK) return 4;
  if (first(NULL, x, out) != FIRST_ERROR_NULL_CONTEXT) return 5;
  first_destroy(one);
  second_destroy(two);
  file = fopen("/out.bin", "wb");
  fwrite(out, 1, sizeof out, file);
  fwrite(bent, 1, sizeof bent, file);
  fwrite(halves, 1, sizeof halves, file);
  return fclose(file);
}
"""
RUN = """\
import { readFileSync } from "node:fs";
import { WASI } from "node:wasi";
const wasi = new WASI({ version: "preview1", preopens: { "/": "." } });
const module = await WebAssembly.compile(readFileSync("main.wasm"));
const instance = await WebAssembly.instantiate(module, wasi.getImportObject());
process.exitCode = wasi.start(instance);
"""


def _work(x: Any) -> Any:
    return jnp.sort(jnp.fft.rfft(jnp.tanh(x @ x.T)).real @ WEIGHTS)


def test_two_libraries_in_a_module_of_ones_own(tmp_path: Path) -> None:
    x = np.random.RandomState(0).randn(40, 40).astype(np.float32)
    rows = kiln.ShapeDtypeStruct(export.symbolic_shape("n, 40"), "float32")
    one, two = tmp_path / "one", tmp_path / "two"
    made = export.library(
        kiln.jit(lambda x: _work(x)[:21]), x, name="first", path=one, target="wasm32"
    )
    assert {"first.wasm", "libfirst.a", "first.h", "first.hpp"} <= made.files.keys()
    second = {
        "bend": (lambda x: jnp.tanh(x @ x), x),
        "half": (lambda x: jnp.sort(x / 2 + x.shape[0]), rows),
    }
    export.library(second, name="second", path=two, target="wasm32")
    names = [name for name, _ in read_archive((one / "libfirst.a").read_bytes())]
    # The libc is that of the program.
    assert "malloc.o" not in names
    assert "sorting.o" in names
    (tmp_path / "main.c").write_text(SOURCE)
    (tmp_path / "run.mjs").write_text(RUN)
    (tmp_path / "in.bin").write_bytes(x.tobytes())
    command = [sys.executable, "-m", "ziglang", "cc", "-target", "wasm32-wasi", "-Wall", "-Werror"]
    # Transforms that run out of memory recover by longjmp, which zig's libc has with these.
    command += ["-mexception-handling", "-mllvm", "-wasm-enable-sjlj"]
    command += [
        "main.c",
        "-Ione",
        "-Itwo",
        "-Lone",
        "-Ltwo",
        "-lfirst",
        "-lsecond",
        "-o",
        "main.wasm",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    assert NODE is not None
    subprocess.run([NODE, "--no-warnings", "run.mjs"], cwd=tmp_path, check=True, timeout=60)
    found = np.fromfile(tmp_path / "out.bin", np.float32)
    calls = [
        Call(one, "first", {}, [x]),
        Call(two, "second_bend", {}, [x]),
        Call(two, "second_half", {"n": 40}, [x]),
    ]
    # Those of closed modules, which have zig's libc too.
    expected = np.concatenate([y.ravel() for (y,) in run_in_node(calls, tmp_path)])
    assert have_same_bits(found, expected)
