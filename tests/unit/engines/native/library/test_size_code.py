"""Sizes as LLVM IR have the values that kiln computes."""

from __future__ import annotations

import ctypes
import itertools

from kiln.engines.native.library.size_code import Lines, SizeCode
from kiln.engines.native.llvm.assembly import assemble, load
from kiln.engines.native.loop_ir.extents import Grain, evaluator
from kiln.export import symbolic_shape
from kiln.ir.sizes.size import Dim

N, M = symbolic_shape("n, m")
TEXTS = (
    "n",
    "3*n + 5",
    "n*m - 2*n + 1",
    "n*n*m",
    "floordiv(n, 3)",
    "floordiv(n - 7, 3)",
    "mod(n, 4) * m",
    "floordiv(n*m, m + 1)",
    "max(n, m)",
    "max(max(n - m, m - n), 3)",
    "min(n, m) + max(n, 2*m)",
)
DIMS: list[Dim | Grain] = [*[symbolic_shape(text)[0] for text in TEXTS], 17]
GRAINS = [Grain(1000, N), Grain(1000, N * M, 8), Grain(5, N * 100)]


def _values(dims: list[Dim | Grain], n: int, m: int) -> list[int]:
    lines = Lines()
    code = SizeCode(lines, {"n": "%n", "m": "%m"})
    for i, dim in enumerate(dims):
        value = code.value(dim)
        place = lines.emit(f"getelementptr i64, ptr %out, i64 {i}")
        lines.do(f"store i64 {value}, ptr {place}")
    body = "\n".join(lines.lines)
    text = (
        "declare i64 @llvm.smax.i64(i64, i64)\n"
        f"define void @sizes(i64 %n, i64 %m, ptr %out) {{\n{body}\n  ret void\n}}\n"
    )
    loaded = load(assemble(text), "sizes")
    out = (ctypes.c_int64 * len(dims))()
    ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)(loaded.address)(
        n, m, ctypes.addressof(out)
    )
    return list(out)


def test_dimensions_and_grains() -> None:
    dims = [*DIMS, *GRAINS]
    expected = evaluator(dims, ("n", "m"))
    for n, m in itertools.product((1, 2, 3, 7, 100), (1, 4, 33)):
        assert _values(dims, n, m) == list(expected(n, m))


def test_equal_dimensions_are_emitted_once() -> None:
    lines = Lines()
    code = SizeCode(lines, {"n": "%n", "m": "%m"})
    first = code.value(N * M + 1)
    count = len(lines.lines)
    assert code.value(N * M + 1) == first
    assert len(lines.lines) == count
