"""Libraries where memory runs out: calls fail with a status, and later calls succeed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from tests.programs.c_driver import COMPILER, HERE, described_in, wrapping

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

N = 1200
SOURCE = """\
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "scarce.h"

/* The linker puts these in the place of those of the system. */
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);

static long left = -1; /* allocations before the one that fails; negative: none does */
static int fails(void) { return left >= 0 && left-- == 0; }
void *__wrap_malloc(size_t bytes) { return fails() ? NULL : __real_malloc(bytes); }
void *__wrap_calloc(size_t n, size_t bytes) { return fails() ? NULL : __real_calloc(n, bytes); }
void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
  return fails() ? NULL : __real_aligned_alloc(alignment, bytes);
}

typedef int function(scarce_context *, const float *, float *);

static int tried(const char *name, function *run, int64_t bytes) {
  static float x[N], out[N], again[N];
  int failed = 0;
  for (int i = 0; i < N; ++i) x[i] = (float)(i * 7919 % 1009);
  for (long at = 0;; ++at) {
    left = at;
    scarce_context *context = scarce_create(bytes);
    int status = SCARCE_ERROR_OUT_OF_MEMORY;
    if (context != NULL) status = run(context, x, out);
    const int is_over = left >= 0;
    left = -1;
    if (is_over) {
      if (run(context, x, again) != SCARCE_OK) return printf("%s: fails later\\n", name), 1;
      scarce_destroy(context);
      break;
    }
    if (status != SCARCE_ERROR_OUT_OF_MEMORY)
      return printf("%s: %d at %ld\\n", name, status, at), 1;
    ++failed;
    if (context == NULL) continue;
    if (run(context, x, again) != SCARCE_OK) return printf("%s: fails later\\n", name), 1;
    scarce_destroy(context);
  }
  if (memcmp(out, again, sizeof out) != 0) return printf("%s: other results\\n", name), 1;
  printf("%s %d\\n", name, failed);
  return 0;
}

int main(void) {
  /* Nobody asks for the workspace of transforms: calls make tables, and allocate scratch memory. */
  return tried("transform", scarce_transform, TRANSFORM) ||
         tried("order", scarce_order, scarce_order_workspace_size()) ||
         tried("product", scarce_product, scarce_product_workspace_size());
}
"""


def test_calls_that_run_out_of_memory_fail_and_later_ones_do_not(tmp_path: Path) -> None:
    x = kiln.ShapeDtypeStruct((N,), "float32")
    export.library(
        {
            "transform": (lambda x: jnp.abs(jnp.fft.fft(x)), x),
            "order": (jnp.sort, x),
            "product": (lambda x: (x.reshape(120, 10) @ x.reshape(10, 120)).sum() + x, x),
        },
        name="scarce",
        path=tmp_path,
        shared=False,
    )
    (tmp_path / "main.c").write_text(SOURCE)
    assert COMPILER is not None
    transform, _, _ = described_in(tmp_path)["functions"]
    command = [
        COMPILER,
        "main.c",
        f"-DN={N}",
        f"-DTRANSFORM={transform['workspace_bytes']}",
        "-I.",
        "-L.",
        "-l:libscarce.a",
        "-lm",
    ]
    command += wrapping("malloc", "calloc", "aligned_alloc")
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True, timeout=60)
    found = subprocess.run(
        [*HERE.emulate, str(tmp_path / "main")],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert found.returncode == 0, found.stdout
    counts = {name: int(count) for name, count in map(str.split, found.stdout.splitlines())}
    # The context and its workspace; of transforms also what calls allocate.
    assert counts.keys() == {"transform", "order", "product"}
    assert counts["order"] == counts["product"] == 2
    assert counts["transform"] > 4
