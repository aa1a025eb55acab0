"""What differs between microarchitecture levels: extremes, masked accesses, the instructions."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kiln.engines.native.llvm import assembly, target
from tests.unit._runtime.assembler.random_modules import RandomModule
from tests.unit._runtime.assembler.running import (
    LEVELS_HERE,
    assembled,
    assert_same,
    needs_level,
)

pytestmark = needs_level
PAGE = 4096
SPECIAL = (0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan)
NUMPY = {"i8": "i1", "i16": "i2", "i32": "i4", "i64": "i8", "float": "f4", "double": "f8"}


@pytest.mark.parametrize("lanes", [1, 8])
@pytest.mark.parametrize("element", ["float", "double"])
@pytest.mark.parametrize("op", ["maximum", "minimum"])
def test_extremes_of_a_constant(op: str, element: str, lanes: int) -> None:
    """Of zeros and of nan, and the constant on either side."""
    kind = element if lanes == 1 else f"<{lanes} x {element}>"
    suffix = "f32" if element == "float" else "f64"
    name = suffix if lanes == 1 else f"v{lanes}{suffix}"
    given = np.resize(np.asarray(SPECIAL, NUMPY[element]), max(lanes, 8))
    size = given.itemsize * lanes
    for first in range(len(SPECIAL)):
        lines, at = [f"%x = load {kind}, ptr %x0, align 1"], 0
        for number in SPECIAL:
            bits = f"0x{int(np.float64(number).view(np.uint64)):016X}"
            constant = bits if lanes == 1 else f"splat ({element} {bits})"
            for listed in (f"{kind} %x, {kind} {constant}", f"{kind} {constant}, {kind} %x"):
                lines += [
                    f"%r{at} = call {kind} @llvm.{op}.{name}({listed})",
                    f"%p{at} = getelementptr i8, ptr %out, i64 {at}",
                    f"store {kind} %r{at}, ptr %p{at}, align 1",
                ]
                at += size
        body = "\n  ".join(lines)
        text = f"define void @run(ptr %out, ptr %x0) #0 {{\nentry:\n  {body}\n  ret void\n}}\n"
        x = np.roll(given, -first)
        for level in LEVELS_HERE:
            out = np.zeros(at, np.uint8)
            code = assembly.load(assembled(text, level), "run")
            ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)(
                out.ctypes.data, x.ctypes.data
            )
            found = out.view(given.dtype).reshape(len(SPECIAL), 2, lanes)
            for number, results in zip(SPECIAL, found, strict=True):
                expected = [_extreme(op, float(v), number) for v in x[:lanes]]
                for each in results:
                    assert [repr(float(v)) for v in each] == [repr(e) for e in expected]


def _extreme(op: str, x: float, y: float) -> float:
    if np.isnan(x) or np.isnan(y):
        return float("nan")
    # Of equal numbers, -0 is the lesser.
    low, high = sorted((x, y), key=lambda v: (v, not np.signbit(v)))
    return high if op == "maximum" else low


@pytest.fixture
def page_end() -> Iterator[int]:
    """Return the end of memory that may be accessed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = libc.mmap(None, 2 * PAGE, 3, 0x22, -1, 0)
    assert libc.mprotect(memory + PAGE, PAGE, 0) == 0
    yield memory + PAGE
    libc.munmap(ctypes.c_void_p(memory), ctypes.c_size_t(2 * PAGE))


@pytest.mark.parametrize("is_known", [False, True], ids=["computed mask", "constant mask"])
@pytest.mark.parametrize("element", NUMPY)
@pytest.mark.parametrize("lanes", [4, 16, 32])
def test_lanes_that_a_mask_leaves_out(
    lanes: int, element: str, is_known: bool, page_end: int
) -> None:
    """They lie where no memory is: only the others are read, and written."""
    dtype = np.dtype(NUMPY[element])
    suffix = f"v{lanes}" + {"float": "f32", "double": "f64"}.get(element, element)
    kind, mask = f"<{lanes} x {element}>", f"<{lanes} x i1>"
    steps = np.arange(lanes, dtype=np.int32)
    for level in LEVELS_HERE:
        for count in (1, lanes // 2 + 1, lanes - 1):
            chosen = "<" + ", ".join(f"i1 {int(i < count)}" for i in steps) + ">"
            if not is_known:
                chosen = "%m"
            text = f"""define void @run(ptr %x, ptr %out) #0 {{
entry:
  %s = load <{lanes} x i32>, ptr %out, align 1
  %m = icmp ult <{lanes} x i32> %s, splat (i32 {count})
  %v = call {kind} @llvm.masked.load.{suffix}.p0(ptr align 1 %x, {mask} {chosen}, {kind} \
zeroinitializer)
  %p = getelementptr i8, ptr %out, i64 {4 * lanes}
  %w = load {kind}, ptr %p, align 1
  call void @llvm.masked.store.{suffix}.p0({kind} %w, ptr align 1 %x, {mask} {chosen})
  store {kind} %v, ptr %p, align 1
  ret void
}}
"""
            size = count * dtype.itemsize
            start = page_end - size
            x = np.frombuffer(memoryview((ctypes.c_uint8 * size).from_address(start)), dtype)
            x[:] = 1 + steps[:count]
            written = (50 + steps).astype(dtype)
            out = np.concatenate([steps.view(np.uint8), written.view(np.uint8)])
            code = assembly.load(assembled(text, level), "run")
            run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)
            run(start, out.ctypes.data)
            read = out[4 * lanes :].view(dtype)
            np.testing.assert_array_equal(read, (1 + steps) * (steps < count))
            np.testing.assert_array_equal(x, written[:count])


def test_scatters_to_one_address() -> None:
    """The last lane stays."""
    text = """define void @run(ptr %out, ptr %x0) #0 {
entry:
  %v = load <8 x i32>, ptr %x0, align 1
  %m = icmp ne <8 x i32> %v, zeroinitializer
  %p = getelementptr i32, ptr %out, <8 x i64> <i64 0, i64 1, i64 0, i64 1, i64 2, i64 2, i64 0, \
i64 3>
  call void @llvm.masked.scatter.v8i32.v8p0(<8 x i32> %v, <8 x ptr> align 4 %p, <8 x i1> %m)
  ret void
}
"""
    given = np.asarray([1, 2, 3, 0, 5, 6, 0, 0], np.int32)
    found = assert_same(text, [given], 16).view(np.int32)
    assert found.tolist() == [3, 2, 6, np.uint32(0xA5A5A5A5).astype(np.int32)]


@pytest.mark.skipif(shutil.which("objdump") is None, reason="needs objdump")
@pytest.mark.parametrize("lanes", [1, 2, 8, 64])
def test_no_instruction_is_of_a_newer_level(lanes: int, tmp_path: Path) -> None:
    """This processor may run them, and the one that the code is for may not."""
    level = "x86-64-v3"
    rng = np.random.default_rng(lanes)
    module = RandomModule(rng, lanes, target.named(level).vector_bytes).text(150)[0]
    path = tmp_path / "module.o"
    path.write_bytes(assembled(module, level))
    listed = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", "-w", str(path)],
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    code = listed.partition("<run>:")[2].partition("\tret")[0]
    assert code.count("\n") > 100
    assert not re.search(r"%zmm|%k[0-7]|mm(1[6-9]|2\d|3[01])\b|\(bad\)", code)
