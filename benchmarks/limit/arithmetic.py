"""How many multiply-adds a second the machine does, by type and number of threads.

`gflops(dtype, threads)` is what the other modules use.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

from benchmarks.limit.loops import aligned, calibrated, compiled, seconds_each, vector_bytes

CHAINS = 16
"""Independent accumulators: more than latency times units, fewer than registers."""
UNROLL = 4
DTYPES = {"float32": ("float", 4), "float64": ("double", 8), "int32": ("i32", 4)}
SAMPLE_S = 0.001
"""Short samples fit between interruptions."""
ROUNDS = 200


def _ir(dtype: str) -> str:
    element, size = DTYPES[dtype]
    width = vector_bytes() // size
    vector = f"<{width} x {element}>"
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
            x, y = f"%x{i}.{step}", f"%x{i}.{step + 1}"
            if element == "i32":
                body += [f"  %m{i}.{step} = mul {vector} {x}, %a"]
                body += [f"  {y} = add {vector} %m{i}.{step}, %b"]
            else:
                name = f"@llvm.fma.v{width}{'f32' if size == 4 else 'f64'}"
                body += [f"  {y} = call {vector} {name}({vector} {x}, {vector} %a, {vector} %b)"]
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
    if element != "i32":
        name = f"@llvm.fma.v{width}{'f32' if size == 4 else 'f64'}"
        lines.append(f"declare {vector} {name}({vector}, {vector}, {vector})")
    return "\n".join(lines)


def operations(dtype: str) -> int:
    """Return how many multiplications and additions an iteration of the loop does."""
    chains = CHAINS if vector_bytes() == 64 else CHAINS - 4
    return 2 * chains * UNROLL * (vector_bytes() // DTYPES[dtype][1])


@functools.cache
def _loop(dtype: str) -> Callable[..., Any]:
    return compiled(_ir(dtype), "work", (ctypes.c_int64, ctypes.c_void_p))


def gflops(dtype: str, threads: int = 1, rounds: int = ROUNDS) -> float:
    """Return the greatest rate of multiply-adds over some rounds, in GFLOP/s.

    Raises: KeyError for a type other than those of `DTYPES`.
    """
    work = _loop(dtype)
    buffers = []
    for _ in range(threads):
        buffer = aligned((2 + CHAINS) * vector_bytes())
        # Factors below one keep the numbers normal.
        buffer[:] = 0 if dtype == "int32" else (0.5 * _ones(buffer, dtype)).view("uint8")
        buffers.append(buffer)

    def calls_of(count: int) -> list[Callable[[], Any]]:
        return [functools.partial(work, count, x.ctypes.data) for x in buffers]

    count = calibrated(calls_of, SAMPLE_S)
    seconds = seconds_each(calls_of(count), rounds)
    return threads * count * operations(dtype) / seconds / 1e9


def _ones(buffer: Any, dtype: str) -> Any:
    numbers = buffer.view(dtype).copy()
    numbers[:] = 1
    return numbers
