"""Kernels on matrices give the same bits on every number of threads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kiln.engines.native.executables import openblas
from tests.unit._runtime.linear.kernel_calls import ADDRESSES, run_kernel
from tests.unit._runtime.native import native_code

SOURCE = """
ENTRY(run) {{
  static const int64_t numbers[] = {{{numbers}}};
  void *buffers[] = {{{buffers}}};
  return ((int32_t (*)(struct call *, void **, const int64_t *)){address}L)(c, buffers, numbers);
}}
"""


@pytest.fixture(scope="module", autouse=True)
def library() -> None:
    openblas.load()


def f32(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


def program(
    name: str,
    ins: Sequence[np.ndarray],
    outs: Sequence[np.ndarray],
    numbers: Sequence[int],
    **options: Any,
) -> Any:
    taken = [f"(void *)c->operands[{i}]" for i in range(len(ins))]
    made = [f"c->results[{i}]" for i in range(len(outs))]
    source = SOURCE.format(
        numbers=", ".join(map(str, numbers)),
        buffers=", ".join([*taken, *made]),
        address=ADDRESSES[name],
    )
    return native_code.program(source, "run", ins, outs, **options)


SQUARE = [1, 500, 510, 520, 0, 0, 0, 0, 0, 0]
CASES: dict[str, Any] = {
    "rows": ("kiln_gemm_f32", [f32(500, 520), f32(520, 510)], [f32(500, 510)], SQUARE),
    "columns": (
        "kiln_gemm_f32",
        [f32(600, 50), f32(600, 2000)],
        [f32(50, 2000)],
        [1, 50, 2000, 600, 1, 0, 0, 0, 0, 0],
    ),
    "operands in place": (
        "kiln_gemm_f32",
        [f32(288, 250), f32(250, 300)],
        [f32(288, 300)],
        [1, 288, 300, 250, 0, 0, 0, 0, 0, 0],
    ),
    "panels of each block": (
        "kiln_gemm_f32",
        [f32(130, 300), f32(700, 300)],
        [f32(130, 700)],
        [1, 130, 700, 300, 0, 1, 0, 0, 0, 0],
    ),
    "a row": (
        "kiln_gemm_f32",
        [f32(600), f32(600, 1000)],
        [f32(1000)],
        [1, 1, 1000, 600, 0, 0, 0, 0, 0, 0],
    ),
    "a row in runs": (
        "kiln_gemm_f32",
        [f32(9000), f32(9000, 70)],
        [f32(70)],
        [1, 1, 70, 9000, 0, 0, 0, 0, 0, 0],
    ),
    "a column": (
        "kiln_gemm_f32",
        [f32(1000, 600), f32(600)],
        [f32(1000)],
        [1, 1000, 1, 600, 0, 0, 0, 0, 0, 0],
    ),
    "a column in runs": (
        "kiln_gemm_f32",
        [f32(5, 60000), f32(60000)],
        [f32(5)],
        [1, 5, 1, 60000, 0, 0, 0, 0, 0, 0],
    ),
    "complex column": (
        "kiln_gemm_c64",
        [f32(1000, 600).astype(np.complex64), f32(600).astype(np.complex64)],
        [f32(1000).astype(np.complex64)],
        [1, 1000, 1, 600, 0, 0, 0, 0, 0, 0],
    ),
    "packing": ("kiln_gemm_pack_f32", [f32(700, 600)], [f32(600, 704)], [700, 600, 1]),
    "panels": (
        "kiln_gemm_f32",
        [f32(130, 300), f32(300, 704)],
        [f32(130, 700)],
        [1, 130, 700, 300, 0, 0, 0, 0, 0, 4],
    ),
    "few rows": (
        "kiln_gemm_f32",
        [f32(5, 900), f32(900, 1100)],
        [f32(5, 1100)],
        [1, 5, 1100, 900, 0, 0, 0, 0, 0, 0],
    ),
    "rows and columns": (
        "kiln_gemm_f32",
        [f32(400, 513), f32(513, 700)],
        [f32(400, 700)],
        [1, 400, 700, 513, 0, 0, 0, 0, 0, 0],
    ),
    "stack": (
        "kiln_gemm_f32",
        [f32(40, 64, 64), f32(40, 64, 64)],
        [f32(40, 64, 64)],
        [40, 64, 64, 64, 0, 1, 4096, 4096, 4096, 0],
    ),
    "vector": (
        "kiln_gemm_f32",
        [f32(1500, 900), f32(900)],
        [f32(1500)],
        [1, 1500, 1, 900, 0, 0, 0, 0, 0, 0],
    ),
    "halves": (
        "kiln_gemm_bf16_bf16",
        [f32(250, 520).view(np.uint16), f32(520, 255).view(np.uint16)],
        [f32(500, 510)],
        SQUARE,
    ),
    "weights of bytes": (
        "kiln_gemm_f32_i8",
        [f32(500, 520), f32(130, 510).view(np.int8)],
        [f32(500, 510)],
        SQUARE,
    ),
    "few rows by bytes": (
        "kiln_gemm_f32_i8",
        [f32(3, 1500), f32(1500, 500).view(np.int8)],
        [f32(3, 2000)],
        [1, 3, 2000, 1500, 0, 0, 0, 0, 0, 0],
    ),
    "few rows of halves": (
        "kiln_gemm_bf16_bf16",
        [f32(3, 750).view(np.uint16), f32(1500, 1050).view(np.uint16)],
        [f32(3, 2100)],
        [1, 3, 2100, 1500, 0, 0, 0, 0, 0, 0],
    ),
    "bytes": (
        "kiln_gemm_i8_u8",
        [f32(500, 130).view(np.int8), f32(130, 510).view(np.uint8)],
        [np.zeros((500, 510), np.int32)],
        SQUARE,
    ),
    "integers": (
        "kiln_gemm_i32",
        [f32(300, 200).view(np.int32), f32(200, 100).view(np.int32)],
        [np.zeros((300, 100), np.int32)],
        [1, 300, 100, 200, 0, 0, 0, 0, 0, 0],
    ),
    "convolution": (
        "kiln_conv_f32",
        [f32(3, 20, 40, 40), f32(30, 20, 3, 3)],
        [f32(3, 30, 40, 40)],
        [2, 1, 1, 3, 20, 40, 40, 30, 20, 3, 3, 3, 30, 40, 40, *[0, 1, 2, 3] * 3, *[1, 1, 1, 1] * 2],
    ),
    "convolution, features last": (
        "kiln_conv_f32",
        [f32(3, 40, 40, 20), f32(3, 3, 20, 30)],
        [f32(3, 40, 40, 30)],
        [
            *(2, 1, 1, 3, 40, 40, 20, 3, 3, 20, 30, 3, 40, 40, 30),
            *(0, 3, 1, 2, 3, 2, 0, 1, 0, 3, 1, 2),
            *[1, 1, 1, 1] * 2,
        ],
    ),
    "convolution of lines": (
        "kiln_conv_f32",
        [f32(2, 20, 32, 32), f32(30, 20, 3, 3)],
        [f32(2, 30, 32, 32)],
        [2, 1, 1, 2, 20, 32, 32, 30, 20, 3, 3, 2, 30, 32, 32, *[0, 1, 2, 3] * 3, *[1, 1, 1, 1] * 2],
    ),
    "convolution of small images": (
        "kiln_conv_f32",
        [f32(4, 120, 8, 8), f32(130, 120, 3, 3)],
        [f32(4, 130, 8, 8)],
        [2, 1, 1, 4, 120, 8, 8, 130, 120, 3, 3, 4, 130, 8, 8, *[0, 1, 2, 3] * 3, *[1, 1, 1, 1] * 2],
    ),
    "convolution, derivative by the kernel": (
        "kiln_conv_f32",
        [f32(4, 60, 20, 20), f32(4, 70, 20, 20)],
        [f32(70, 60, 3, 3)],
        [
            *(2, 1, 1, 4, 60, 20, 20, 4, 70, 20, 20, 70, 60, 3, 3),
            *[1, 0, 2, 3] * 3,
            *[1, 1, 1, 1] * 2,
        ],
    ),
    "convolution with holes": (
        "kiln_conv_f32",
        [f32(3, 20, 20, 20), f32(30, 20, 3, 3)],
        [f32(3, 30, 40, 40)],
        [2, 1, 1, 3, 20, 20, 20, 30, 20, 3, 3, 3, 30, 40, 40, *[0, 1, 2, 3] * 3, *[1, 1, 2, 1] * 2],
    ),
    "transpose": (
        "kiln_transpose",
        [f32(3, 400, 500)],
        [f32(500, 3, 400)],
        [2, 3, 3, 400, 500, 2, 0, 1],
    ),
    "lu": (
        "kiln_lu_f32",
        [f32(200, 20, 20)],
        [f32(200, 20, 20), np.zeros((200, 20), np.int32), np.zeros((200, 20), np.int32)],
        [200, 20, 20, 0],
    ),
    "large lu": (
        "kiln_lu_f32",
        [f32(400, 400)],
        [f32(400, 400), np.zeros(400, np.int32), np.zeros(400, np.int32)],
        [1, 400, 400, 0],
    ),
    "lu in lanes": (
        "kiln_lu_f32",
        [f32(5000, 8, 8)],
        [f32(5000, 8, 8), np.zeros((5000, 8), np.int32), np.zeros((5000, 8), np.int32)],
        [5000, 8, 8, 0],
    ),
    "triangular solve": (
        "kiln_triangular_solve_f32",
        [np.tril(f32(300, 300)) / 300 + np.eye(300, dtype=np.float32), f32(300, 400)],
        [f32(300, 400)],
        [1, 300, 400, 1, 1, 0, 0, 0, 0],
    ),
    "svd": (
        "kiln_svd_f32",
        [f32(60, 12, 10)],
        [f32(60, 10), f32(60, 12, 10), f32(60, 10, 10)],
        [60, 12, 10, 0, 1, 0],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_numbers_of_threads(case: str) -> None:
    name, ins, outs, numbers = CASES[case]
    expected = [np.empty_like(out) for out in outs]
    run_kernel(name, [*ins, *expected], numbers)
    for threads in (1, 2, 3, 7):
        found = program(name, ins, outs, numbers, threads=threads)(list(ins))
        for one, meant in zip(found, expected, strict=True):
            assert np.asarray(one).tobytes() == meant.tobytes()
