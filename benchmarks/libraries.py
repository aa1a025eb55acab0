"""Libraries for C: their sizes, the time of a call above the code itself, and beside kiln.

`python -m benchmarks.libraries`. Times are minima over rounds, of one thread.
"""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import export

ROUNDS = 200
_DRIVER = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "{name}.h"

{inner}
static double now(void) {{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}}

static void *array(size_t bytes, FILE *from) {{
  void *made = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (made == NULL || fread(made, 1, bytes, from) != bytes) exit(1);
  return made;
}}

int main(int count, char **words) {{
  const long rounds = atol(words[1]), repeats = atol(words[2]);
  FILE *from = fopen(words[3], "rb");
  double whole = 1e9, code = 1e9;
  if (count != 4 || from == NULL) return 1;
  {name}_context *context = {name}_create({name}_workspace_size());
{arrays}
  for (long round = 0; round < rounds; ++round) {{
    double start = now(), taken;
    for (long i = 0; i < repeats; ++i) if ({call} != 0) return 2;
    taken = (now() - start) / (double)repeats;
    if (taken < whole) whole = taken;
{code}
  }}
  printf("%.9g %.9g\\n", whole, code);
  return 0;
}}
"""
_INNER = """\
struct call { const void *const *operands; void *const *results; void *rest[5]; };
int selu_selu_code(struct call *call);
"""
_INNER_TIME = """\
    {
      const void *operands[1] = {a0};
      void *results[1] = {a1};
      struct call own = {operands, results, {NULL, NULL, NULL, NULL, NULL}};
      start = now();
      for (long i = 0; i < repeats; ++i) if (selu_selu_code(&own) != 0) return 3;
      taken = (now() - start) / (double)repeats;
      if (taken < code) code = taken;
    }
"""


class Program(NamedTuple):
    """A function with arguments; the goal for its size, besides weights, in bytes."""

    function: Callable[..., Any]
    arguments: tuple[np.ndarray, ...]
    goal: int


class Row(NamedTuple):
    """What was measured: bytes, and seconds of a call. `code` is nan where it was not called."""

    name: str
    shared: int
    static: int
    constants: int
    goal: int
    whole: float
    code: float
    kiln: float


def selu(x: Any) -> Any:
    """Return the scaled exponential linear unit."""
    return 1.05 * jnp.where(x > 0, x, 1.67 * jnp.exp(x) - 1.67)


def mlp(w1: Any, b1: Any, w2: Any, b2: Any, x: Any, y: Any) -> Any:
    """Return parameters after a step of gradient descent, and the loss."""

    def loss(params: Any) -> Any:
        w1, b1, w2, b2 = params
        logits = jnp.maximum(x @ w1 + b1, 0) @ w2 + b2
        return -jnp.mean(jnp.sum(kiln.nn.log_softmax(logits) * y, 1))

    params = (w1, b1, w2, b2)
    value, gradients = kiln.value_and_grad(loss)(params)
    return (*[p - 0.1 * g for p, g in zip(params, gradients, strict=True)], value)


def gpt(width: int, depth: int, heads: int, length: int, vocabulary: int) -> Callable[..., Any]:
    """Return a transformer that predicts the next word; its weights are closed over."""
    draw = np.random.RandomState(0)

    def weights(*shape: int) -> Any:
        return jnp.asarray(draw.randn(*shape) / math.sqrt(shape[0]), dtype="float32")

    layers = [
        [weights(width, n * width) for n in (3, 1, 4)] + [weights(4 * width, width)]
        for _ in range(depth)
    ]
    words, places, head = (
        weights(vocabulary, width),
        weights(length, width),
        weights(width, vocabulary),
    )

    def normed(x: Any) -> Any:
        return (x - x.mean(-1, keepdims=True)) / jnp.sqrt(x.var(-1, keepdims=True) + 1e-5)

    def predict(tokens: Any) -> Any:
        x = words[tokens] + places
        for qkv, out, up, down in layers:
            q, k, v = jnp.split((normed(x) @ qkv).reshape(length, heads, -1), 3, axis=2)
            scores = jnp.einsum("ihd,jhd->hij", q, k) / math.sqrt(width / heads)
            scores = jnp.where(jnp.tri(length, dtype=bool), scores, -jnp.inf)
            mixed = jnp.einsum("hij,jhd->ihd", kiln.nn.softmax(scores), v)
            x = x + mixed.reshape(length, width) @ out
            x = x + kiln.nn.gelu(normed(x) @ up) @ down
        return normed(x) @ head

    return predict


def programs(*, tiny: bool = False) -> dict[str, Program]:
    """Return the programs; `tiny` ones are for tests."""
    draw = np.random.RandomState(1)

    def floats(*shape: int) -> np.ndarray:
        return draw.randn(*shape).astype("float32")

    n, batch, width = (8, 4, 16) if tiny else (784, 64, 128)
    tokens = draw.randint(0, 64, 16 if tiny else 128).astype("int32")
    return {
        "selu": Program(selu, (floats(64),), 20_000),
        "mlp": Program(
            mlp,
            (
                floats(n, 32) / 10,
                floats(32),
                floats(32, 10),
                floats(10),
                floats(batch, n),
                np.eye(10, dtype="f")[np.arange(batch) % 10],
            ),
            150_000,
        ),
        "gpt": Program(gpt(width, 4, 4, len(tokens), 64), (tokens,), 400_000),
    }


def measure(name: str, program: Program, rounds: int = ROUNDS) -> Row:
    """Write a library, call it from C and from Python, and return what both take."""
    jitted = kiln.jit(program.function, compiler_options={"threads": 1})
    jitted(*program.arguments)
    start = time.perf_counter()
    kiln.block_until_ready(jitted(*program.arguments))
    seconds = time.perf_counter() - start
    repeats = max(1, min(10_000, int(2e-3 / max(seconds, 1e-7))))
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        written = export.library(jitted, *program.arguments, name=name, path=folder)
        whole, code = from_c(name, program, folder, rounds, repeats)
    own = math.inf
    arguments = [jnp.asarray(x) for x in program.arguments]
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(repeats):
            jitted(*arguments)
        own = min(own, (time.perf_counter() - start) / repeats)
    sizes = written.files[f"lib{name}.so"], written.files[f"lib{name}.a"]
    return Row(name, *sizes, written.constant_bytes, program.goal, whole, code, own)


def from_c(
    name: str, program: Program, folder: Path, rounds: int, repeats: int
) -> tuple[float, float]:
    """Return the seconds of a call, and of the code that it calls; nan if that was not measured."""
    (function,) = json.loads((folder / f"{name}.json").read_text())["functions"]
    lines, data = [], []
    for i, array in enumerate(function["arguments"]):
        value = np.zeros(array["shape"], array["dtype"])
        if array["direction"] != "out":
            value = program.arguments[i]
        data.append(value.tobytes())
        lines.append(f"  void *a{i} = array({value.nbytes}, from);")
    given = ", ".join(["context", *[f"a{i}" for i in range(len(lines))]])
    is_selu = name == "selu"
    text = _DRIVER.format(
        name=name,
        inner=_INNER if is_selu else "",
        arrays="\n".join(lines),
        call=f"{name}({given})",
        code=_INNER_TIME if is_selu else "",
    )
    (folder / "driver.c").write_text(text)
    (folder / "data").write_bytes(b"".join(data))
    options = ["-O1", "-std=gnu11", "-Wl,--gc-sections", "-lm"]
    archive = str(folder / f"lib{name}.a")
    command = ["cc", str(folder / "driver.c"), archive, "-o", str(folder / "driver"), *options]
    subprocess.run(command, check=True)
    words = [str(folder / "driver"), str(rounds), str(repeats), str(folder / "data")]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    whole, code = map(float, done.stdout.split())
    return whole, code if is_selu else math.nan


def table(rows: list[Row]) -> str:
    """Return the table of some rows."""
    lines = [
        "| program | .so | constants | code | goal | call from C | the code | kiln, one thread |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in rows:
        code = "" if math.isnan(row.code) else f"{row.code * 1e9:.1f} ns"
        lines.append(
            f"| {row.name} | {row.shared:,} | {row.constants:,} | {row.shared - row.constants:,} | "
            f"{row.goal:,} | {time_text(row.whole)} | {code} | {time_text(row.kiln)} |"
        )
    return "\n".join(lines)


def time_text(seconds: float) -> str:
    """Return a time with its unit."""
    return f"{seconds * 1e9:.1f} ns" if seconds < 1e-6 else f"{seconds * 1e6:.1f} us"


if __name__ == "__main__":
    print(table([measure(name, program) for name, program in programs().items()]))
