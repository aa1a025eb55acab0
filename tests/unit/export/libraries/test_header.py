"""Headers compile without warnings, and a debug build checks what calls are given."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export

WARNINGS = ["-Wall", "-Wextra", "-pedantic", "-Werror"]
STANDARDS = (("gcc", "c", "c11"), ("clang", "c", "c11"), ("g++", "c++", "c++17"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library with structures, sizes, complex numbers and arguments in place."""
    n, m = export.symbolic_shape("n, m")

    def f(params: Any, x: Any, spare: Any) -> Any:
        y = x * params["scale"] + params["shift"]["by"]
        return {"y": y, "half": (n // 2, jnp.fft.rfft(y, axis=1))}, spare + 1

    params = {"scale": jnp.float32(2), "shift": {"by": jnp.ones(3)}}
    x = kiln.ShapeDtypeStruct((n, 3), "float32")
    spare = kiln.ShapeDtypeStruct((m, 2 * n), "float32")
    g = lambda x: jnp.stack([x.astype("bfloat16"), x.astype("bfloat16")])
    path = tmp_path_factory.mktemp("library")
    functions = {
        "f": (kiln.jit(f, donate_argnums=2), params, x, spare),
        "g": (g, np.ones(3, "f")),
    }
    export.library(functions, name="m", path=path, shared=False)
    return path


@pytest.mark.parametrize(("compiler", "language", "standard"), STANDARDS)
@pytest.mark.parametrize("options", [[], ["-DM_DEBUG"]])
def test_no_warnings(
    compiler: str, language: str, standard: str, options: list[str], folder: Path
) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"needs {compiler}")
    command = [compiler, f"-std={standard}", *WARNINGS, *options, "-fsyntax-only"]
    subprocess.run([*command, "-x", language, str(folder / "m.h")], check=True)


def test_the_wrapper_has_no_warnings(folder: Path) -> None:
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    command = ["g++", "-std=c++20", *WARNINGS, "-fsyntax-only", "-x", "c++"]
    (folder / "main.cpp").write_text('#include "m.hpp"\n#include "m.hpp"\n')
    subprocess.run([*command, str(folder / "main.cpp")], check=True)


_CHECKS = """\
#define M_DEBUG
#include <stdio.h>
#include "m.h"

static float x[12], y[12], spare[40], scale[1], by[3];
static int32_t half[1];
static m_complex64 transformed[8];

int main(void) {
  m_context *context = m_create(m_workspace_size(2, 4));
  m_f_params params = {scale, {by}};
  m_f_out0 out = {{half, transformed}, y};
  m_f_params no_params = {NULL, {by}};
  m_f_out0 onto_x = {{half, transformed}, x + 5};
  m_f_out0 onto_each_other = {{half, transformed}, (float *)transformed + 3};
  m_f_out0 misaligned = {{half, transformed}, (float *)(void *)((char *)y + 2)};
  printf("%s\\n", m_error(m_f(context, 2, 4, &params, x, spare, &out)));
  printf("%s\\n", m_error(m_f(context, 2, 4, NULL, x, spare, &out)));
  printf("%s\\n", m_error(m_f(context, 2, 4, &no_params, x, spare, &out)));
  printf("%s\\n", m_error(m_f(context, 2, 4, &params, NULL, spare, &out)));
  printf("%s\\n", m_error(m_f(context, 2, 4, &params, x, spare, &onto_x)));
  printf("%s\\n", m_error(m_f(context, 2, 4, &params, x, spare, &onto_each_other)));
  printf("%s\\n", m_error(m_f(context, 2, 4, &params, x, spare, &misaligned)));
  printf("%s\\n", m_error(m_f(context, 2, 0, &params, x, spare, &out)));
  m_destroy(context);
  return 0;
}
"""


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_a_debug_build_checks_its_arguments(folder: Path) -> None:
    (folder / "checks.c").write_text(_CHECKS)
    command = ["gcc", "-std=c11", *WARNINGS, "-g", "checks.c", "libm.a", "-o", "checks"]
    subprocess.run([*command, "-l:libm.so.6"], cwd=folder, check=True)
    done = subprocess.run([str(folder / "checks")], capture_output=True, text=True, check=True)
    overlap = "a result overlaps an argument or another result"
    null = "an argument is a null pointer"
    assert done.stdout.splitlines() == [
        "no error",
        null,
        null,
        null,
        overlap,
        overlap,
        "a pointer is not aligned to the size of its elements",
        "a size is less than its least value, or too large",
    ]
