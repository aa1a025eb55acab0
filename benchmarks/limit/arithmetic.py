"""How many multiply-adds a second the machine does, by type and number of threads.

`gflops(dtype, threads)` is what the other modules use. `python -m benchmarks.limit.arithmetic`
prints it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from llvmlite import binding as llvm

from benchmarks.limit.loops import aligned, calibrated, compiled, seconds_each, vector_bytes

CHAINS = 16
"""Independent accumulators: more than latency times units, fewer than registers."""
UNROLL = 4
LANES = {
    "float32": ("float", 4),
    "float64": ("double", 8),
    "int32": ("i32", 4),
    "bfloat16": ("float", 4),
    "int8": ("i32", 4),
}
"""The type and the bytes of an accumulator's lanes."""
DOTS = {"bfloat16": ("avx512bf16", "vdpbf16ps", 2), "int8": ("avx512vnni", "vpdpbusd", 4)}
"""The feature, the name, and the products per lane of an instruction that adds several."""
SAMPLE_S = 0.001
"""Short samples fit between interruptions."""
ROUNDS = 200


def is_there(dtype: str) -> bool:
    """Tell whether the host CPU multiplies and adds numbers of a type."""
    return dtype not in DOTS or bool(llvm.get_host_cpu_features().get(DOTS[dtype][0]))


def _step(dtype: str, vector: str, name: str, made: str, x: str) -> list[str]:
    """Return the instructions of one multiply-add of an accumulator `x`."""
    if dtype == "int32":
        return [f"  {name} = mul {vector} {x}, %a", f"  {made} = add {vector} {name}, %b"]
    if dtype in DOTS:
        # The intrinsics have other types in each version of LLVM.
        call = f'asm "{DOTS[dtype][1]} $2, $3, $0", "=v,0,v,v"'
        return [f"  {made} = call {vector} {call}({vector} {x}, {vector} %a, {vector} %b)"]
    call = f"{_fma(dtype)}({vector} {x}, {vector} %a, {vector} %b)"
    return [f"  {made} = call {vector} {call}"]


def _fma(dtype: str) -> str:
    size = LANES[dtype][1]
    return f"@llvm.fma.v{vector_bytes() // size}f{8 * size}"


def _ir(dtype: str) -> str:
    element, size = LANES[dtype]
    vector = f"<{vector_bytes() // size} x {element}>"
    chains = CHAINS if vector_bytes() == 64 else CHAINS - 4
    head = [
        f"  %a = load {vector}, ptr %p, align 64",
        f"  %q = getelementptr i8, ptr %p, i64 {vector_bytes()}",
        f"  %b = load {vector}, ptr %q, align 16",
    ]
    phis, body, tail = [], [], []
    for i in range(chains):
        place = (2 + i) * vector_bytes()
        head += [
            f"  %p{i} = getelementptr i8, ptr %p, i64 {place}",
            f"  %s{i} = load {vector}, ptr %p{i}, align 16",
        ]
        phis.append(f"  %x{i}.0 = phi {vector} [%s{i}, %entry], [%x{i}.{UNROLL}, %loop]")
        tail.append(f"  store {vector} %x{i}.{UNROLL}, ptr %p{i}, align 16")
    for step in range(UNROLL):
        for i in range(chains):
            body += _step(dtype, vector, f"%m{i}.{step}", f"%x{i}.{step + 1}", f"%x{i}.{step}")
    lines = [
        "define void @work(i64 %n, ptr %p) {",
        "entry:",
        *head,
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
        *phis,
        *body,
        "  %next = add i64 %i, 1",
        "  %more = icmp ult i64 %next, %n",
        "  br i1 %more, label %loop, label %done",
        "done:",
        *tail,
        "  ret void",
        "}",
    ]
    if dtype in ("float32", "float64"):
        lines.append(f"declare {vector} {_fma(dtype)}({vector}, {vector}, {vector})")
    return "\n".join(lines)


def operations(dtype: str) -> int:
    """Return how many multiplications and additions an iteration of the loop does."""
    chains = CHAINS if vector_bytes() == 64 else CHAINS - 4
    products = DOTS[dtype][2] if dtype in DOTS else 1
    return 2 * chains * UNROLL * products * (vector_bytes() // LANES[dtype][1])


@functools.cache
def _loop(dtype: str) -> Callable[..., Any]:
    return compiled(_ir(dtype), "work", (ctypes.c_int64, ctypes.c_void_p))


def gflops(dtype: str, threads: int = 1, rounds: int = ROUNDS) -> float:
    """Return the greatest rate of multiply-adds over some rounds, in GFLOP/s; `is_there` must hold.

    Raises: KeyError for a type other than those of `LANES`.
    """
    work = _loop(dtype)
    buffers = []
    for _ in range(threads):
        buffer = aligned((2 + CHAINS) * vector_bytes())
        # Factors below one keep the numbers normal.
        if dtype in ("float32", "float64"):
            buffer.view(dtype)[:] = 0.5
        else:
            buffer[:] = 0
        buffers.append(buffer)

    def calls_of(count: int) -> list[Callable[[], Any]]:
        return [functools.partial(work, count, x.ctypes.data) for x in buffers]

    count = calibrated(calls_of, SAMPLE_S)
    seconds = seconds_each(calls_of(count), rounds)
    return threads * count * operations(dtype) / seconds / 1e9


if __name__ == "__main__":
    for dtype in filter(is_there, LANES):
        for threads in (1, 2):
            print(f"{dtype}, {threads} threads: {gflops(dtype, threads):.1f} G operations/s")
