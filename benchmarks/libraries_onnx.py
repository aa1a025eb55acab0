"""Libraries for C beside the C interface of ONNX Runtime, on the models that both run.

`python -m benchmarks.libraries_onnx [TEXT ...]`; a TEXT chooses models whose names contain it. Both
are called by one C program each, without Python, with one thread and with two, on the same weights,
inputs and results that stay where they are; in turns, several processes of each. Times are minima.
The results of both are compared. `onnxruntime`, `onnx`, `onnxscript` and `torch` must be installed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import subprocess
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np

import kiln
import kiln.numpy as jnp
from benchmarks.libraries import time_text
from benchmarks.models.collection import ROWS
from benchmarks.models.runtimes import exported
from benchmarks.suite.peers import leaves
from benchmarks.suite.row import Work
from kiln import export

THREADS = (1, 2)
TURNS = 3
SECONDS = 1.0
"""Of a process."""
_COMMON = """\
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void *array(size_t bytes, FILE *from) {
  void *made = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (made == NULL || (from != NULL && fread(made, 1, bytes, from) != bytes)) exit(1);
  return made;
}

static void written(const void *result, size_t bytes, FILE *to) {
  if (fwrite(result, 1, bytes, to) != bytes) exit(1);
}

#define MEASURE(call)                                            \\
  for (double begin = now(); now() - begin < atof(words[2]);) {  \\
    const double start = now();                                  \\
    if (call) return 2;                                          \\
    if (now() - start < least) least = now() - start;            \\
  }
"""
_KILN = """\
#include "model.h"
{common}
int main(int count, char **words) {{
  FILE *from = fopen(words[3], "rb"), *to = fopen(words[4], "wb");
  double least = 1e9;
  if (count != 5 || from == NULL || to == NULL) return 1;
  model_context *context = model_create(model_workspace_size());
  if (context == NULL || model_set_threads(context, atoi(words[1])) != 0) return 1;
{arrays}
  MEASURE(model({given}) != 0)
  printf("%.9g\\n", least);
{results}
  return fclose(to);
}}
"""
_ONNX = """\
#include <dlfcn.h>
{common}
/* The table of the interface: functions are only ever added after its end. */
enum {{ ENVIRONMENT = 3, SESSION = 7, RUN = 9, OPTIONS = 10, THREADS = 24 }};
enum {{ TENSOR = 49, MEMORY = 69 }};
typedef void *(*function)();
struct base {{ function *(*table)(uint32_t version); }};

static void *done(void *status) {{
  if (status != NULL) exit(3);
  return NULL;
}}

int main(int count, char **words) {{
  FILE *from = fopen(words[3], "rb"), *to = fopen(words[4], "wb");
  double least = 1e9;
  void *library = dlopen("{library}", RTLD_NOW);
  if (count != 5 || from == NULL || to == NULL || library == NULL) return 1;
  function *api = ((struct base * (*)(void)) dlsym(library, "OrtGetApiBase"))()->table(8);
  void *environment, *options, *session, *memory;
  done(api[ENVIRONMENT](3, "kiln", &environment));
  done(api[OPTIONS](&options));
  done(api[THREADS](options, atoi(words[1])));
  done(api[SESSION](environment, "{model}", options, &session));
  done(api[MEMORY](0, 0, &memory));
  const char *inputs[] = {{{inputs}}}, *outputs[] = {{{outputs}}};
  void *xs[{count_in}], *ys[{count_out}];
{arrays}
  const size_t ins = {count_in}, outs = {count_out};
  MEASURE(api[RUN](session, NULL, inputs, xs, ins, outputs, outs, ys) != NULL)
  printf("%.9g\\n", least);
{results}
  return fclose(to);
}}
"""
_TYPES = {"float32": 1, "int32": 6, "int64": 7, "bool": 9, "float64": 11}
"""The numbers of element types in the interface."""


class Row(NamedTuple):
    """Seconds of a call with a number of threads."""

    name: str
    threads: int
    kiln: float
    onnx: float


def compiled_c(text: str, folder: Path, name: str, *options: str) -> Path:
    """Compile a C program."""
    source, made = folder / f"{name}.c", folder / name
    source.write_text(text)
    command = ["cc", "-O1", "-std=gnu11", "-w", str(source), "-o", str(made), *options]
    subprocess.run(command, check=True)
    return made


def kiln_program(work: Work, folder: Path) -> tuple[Path, list[np.ndarray]]:
    """Return a C program around a library, and what its results look like."""
    lib = SimpleNamespace(np=jnp, root=kiln)
    weights, *inputs = work.arguments
    kept = kiln.tree.map(jnp.asarray, weights)
    f = kiln.jit(lambda *xs: work.program(lib, kept, *xs))
    export.library(f, *inputs, name="model", path=folder, threads=True)
    (function,) = json.loads((folder / "model.json").read_text())["functions"]
    lines, results, shapes = [], [], []
    for i, each in enumerate(function["arguments"]):
        like = np.zeros(each["shape"], each["dtype"])
        if each["direction"] == "out":
            shapes.append(like)
            results.append(f"  written(a{i}, {like.nbytes}, to);")
        origin = "NULL" if each["direction"] == "out" else "from"
        lines.append(f"  void *a{i} = array({like.nbytes}, {origin});")
    text = _KILN.format(
        common=_COMMON,
        arrays="\n".join(lines),
        given=", ".join(["context", *[f"a{i}" for i in range(len(lines))]]),
        results="\n".join(results),
    )
    options = [f"-I{folder}", str(folder / "libmodel.a"), "-Wl,--gc-sections", "-lm", "-lpthread"]
    return compiled_c(text, folder, "kiln_driver", *options), shapes


def onnx_program(work: Work, folder: Path, results: list[np.ndarray]) -> Path:
    """Return a C program around ONNX Runtime."""
    runtime = importlib.import_module("onnxruntime")
    model = folder / "model.onnx"
    model.write_bytes(exported(work))
    session = runtime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    inputs = leaves(list(work.arguments[1:]))
    lines = []

    def tensor(made: str, like: np.ndarray, i: int, origin: str) -> None:
        shape = ", ".join(map(str, like.shape)) or "0"
        lines.append(
            f"  void *{made}_{i} = array({like.nbytes}, {origin});\n"
            f"  const int64_t {made}_shape{i}[] = {{{shape}}};\n"
            f"  done(api[TENSOR](memory, {made}_{i}, (size_t){like.nbytes}, {made}_shape{i}, "
            f"(size_t){like.ndim}, {_TYPES[like.dtype.name]}, &{made}[{i}]));"
        )

    for i, x in enumerate(inputs):
        tensor("xs", np.asarray(x), i, "from")
    for i, y in enumerate(results):
        tensor("ys", y, i, "NULL")
    (library,) = Path(str(runtime.__file__)).parent.glob("capi/libonnxruntime.so.*")
    text = _ONNX.format(
        common=_COMMON,
        library=library,
        model=model,
        inputs=", ".join(f'"x{i}"' for i in range(len(inputs))),
        outputs=", ".join(f'"{each.name}"' for each in session.get_outputs()),
        count_in=len(inputs),
        count_out=len(results),
        arrays="\n".join(lines),
        results="\n".join(f"  written(ys_{i}, {y.nbytes}, to);" for i, y in enumerate(results)),
    )
    return compiled_c(text, folder, "onnx_driver", "-ldl")


def seconds(program: Path, threads: int, data: Path, to: Path) -> float:
    """Run a program once, and return its fastest call."""
    words = [str(program), str(threads), str(SECONDS), str(data), str(to)]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "OPENBLAS_"))}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=clean)
    return float(done.stdout)


def measure(name: str, work: Work, turns: int = TURNS) -> list[Row]:
    """Return the times of a model."""
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        own, results = kiln_program(work, folder)
        other = onnx_program(work, folder, results)
        data = folder / "data"
        data.write_bytes(b"".join(np.asarray(x).tobytes() for x in leaves([*work.arguments[1:]])))
        for threads in THREADS:
            best = {own: math.inf, other: math.inf}
            for _ in range(turns):
                for program in best:
                    found = seconds(program, threads, data, Path(f"{program}.out"))
                    best[program] = min(best[program], found)
            rows.append(Row(name, threads, best[own], best[other]))
        ours, theirs = (np.fromfile(f"{program}.out", "f4") for program in (own, other))
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * np.abs(ours).max())
    return rows


def table(rows: list[Row]) -> str:
    """Return the table of some rows."""
    lines = [
        "| model | threads | library | ONNX Runtime | ONNX Runtime / library |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        lines.append(
            f"| {row.name} | {row.threads} | {time_text(row.kiln)} | {time_text(row.onnx)} | "
            f"{row.onnx / row.kiln:.2f} |"
        )
    mean = math.exp(np.mean([math.log(row.onnx / row.kiln) for row in rows]))
    return "\n".join([*lines, f"| geometric mean | | | | {mean:.2f} |"])


def main() -> None:
    """Measure the models that were asked for."""
    parser = argparse.ArgumentParser(description="Time libraries for C beside ONNX Runtime.")
    parser.add_argument("text", nargs="*", help="part of a model's name")
    texts = parser.parse_args().text
    rows: list[Row] = []
    for row in ROWS:
        if row.kind != "inference" or not row.exported:
            continue
        if texts and not any(text in row.name for text in texts):
            continue
        try:
            rows += measure(row.name, row.build(*row.size))
        except AssertionError as error:
            print(f"{row.name}: results differ: {str(error).splitlines()[3:6]}")
    if rows:
        print(table(rows))


if __name__ == "__main__":
    main()
