"""Products with a vector in libraries do not take the loops for small products, which are slow.

Counted, not timed: a program puts a function of its own in the place of the one that returns those
loops, and counts its calls.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import kiln
from kiln import export
from kiln.engines.native.library.archive import read_archive
from kiln.engines.native.library.object_files import object_file
from tests.programs.c_driver import COMPILER, HERE, wrapping

pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

M, N = 300, 200
PROGRAMS = {
    "matrix_vector": (lambda a, x: a @ x, N),
    "transposed_vector": (lambda a, x: a.T @ x, M),
    "vector_matrix": (lambda a, x: x @ a, M),
    "vector_transposed": (lambda a, x: x @ a.T, N),
    "column": (lambda a, x: a @ x[:, None], N),
    "row": (lambda a, x: x[None] @ a, M),
}
LOOPS = "product_loops"
"""In the name of the function that returns the loops for small products of a type."""
SOURCE = """\
#include <stdio.h>
#include "m.h"

/* The linker puts this in the place of the library's own. */
void *__real_{loops}(void);
void *__wrap_{loops}(void);
static int taken;
void *__wrap_{loops}(void) {{
  ++taken;
  return __real_{loops}();
}}

static float a[{M} * {N}], x[{M}], out[{M}];

int main(void) {{
  m_context *context = m_create(m_workspace_size());
  for (int i = 0; i < {M} * {N}; ++i) a[i] = (float)(i * 7919 % 1009) / 1009;
  for (int i = 0; i < {M}; ++i) x[i] = (float)(i * 104729 % 997) / 997;
{calls}
  m_destroy(context);
}}
"""
CALL = """\
  taken = 0;
  if (m_{name}(context, a, x, out) != M_OK) return 1;
  printf("{name} %d %.9g %.9g\\n", taken, out[0], out[{last}]);"""


def _run(folder: Path, programs: dict[str, tuple[object, int]], last: dict[str, int]) -> list[str]:
    (loops,) = {
        symbol.name
        for _, content in read_archive((folder / "libm.a").read_bytes())
        for symbol in object_file(content).symbols()
        if LOOPS in symbol.name and symbol.is_defined and "E0E" in symbol.name
    }
    calls = "\n".join(CALL.format(name=name, last=last[name]) for name in programs)
    (folder / "main.c").write_text(SOURCE.format(loops=loops, M=M, N=N, calls=calls))
    assert COMPILER is not None
    command = [COMPILER, "main.c", "-I.", "-L.", "-l:libm.a", "-l:libm.so.6", *wrapping(loops)]
    subprocess.run([*command, "-o", "main"], cwd=folder, check=True, timeout=60)
    done = subprocess.run(
        [*HERE.emulate, str(folder / "main")],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_no_product_with_a_vector_takes_the_loops_for_small_ones(tmp_path: Path) -> None:
    matrix = kiln.ShapeDtypeStruct((M, N), "float32")
    small = {"small": (lambda a, x: a[:16, :30] @ a[:30, :16], M)}
    programs = {**PROGRAMS, **small}
    export.library(
        {
            name: (run, matrix, kiln.ShapeDtypeStruct((size,), "float32"))
            for name, (run, size) in programs.items()
        },
        name="m",
        path=tmp_path,
        shared=False,
    )
    a = (np.arange(M * N) * 7919 % 1009 / 1009).astype(np.float32).reshape(M, N)
    x = (np.arange(M) * 104729 % 997 / 997).astype(np.float32)
    expected = {
        name: np.ravel(run(a.astype(float), x[:size].astype(float)))
        for name, (run, size) in programs.items()
    }
    last = {name: y.size - 1 for name, y in expected.items()}
    lines = _run(tmp_path, programs, last)
    assert len(lines) == len(programs)
    for line in lines:
        name, taken, *ends = line.split()
        # The loops for small products are for those: else this test could not fail.
        assert (int(taken) > 0) == (name in small), line
        wanted = expected[name][[0, -1]]
        np.testing.assert_allclose([float(end) for end in ends], wanted, rtol=1e-5)
