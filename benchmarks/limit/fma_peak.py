"""The most multiply-adds that the host CPU performs per second, measured.

A loop of independent multiply-adds on registers alone: what a product of matrices cannot exceed.
`python -m benchmarks.limit.fma_peak` prints it per dtype and number of threads.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Callable

from llvmlite import binding as llvm

DTYPES = ("float32", "float64", "bfloat16", "int8")

_CHAINS = 16
"""Independent sums: more than the latency of a multiply-add times those that start per cycle."""
_ITERATIONS = 40_000
_SAMPLES = 200

_NARROW = {"bfloat16": ("avx512bf16", "vdpbf16ps", 2), "int8": ("avx512vnni", "vpdpbusd", 4)}
"""The feature, the instruction that adds several products to each 32-bit lane, and how many."""


def peak_flops(dtype: str, threads: int = 1, samples: int = _SAMPLES) -> float | None:
    """Return operations per second, a multiply-add being two, or None without an instruction.

    Each thread takes the fastest of short samples while the others run: a machine that other
    processes share gives the value of a quiet one if some samples are undisturbed.

    Units: operations per second, of all threads together.
    Raises: KeyError if the dtype is not in `DTYPES`.
    """
    made = _compiled(dtype)
    if made is None:
        return None
    run, operations = made
    barrier, best_s = threading.Barrier(threads), [float("inf")] * threads

    def measure(index: int) -> None:
        barrier.wait()
        for _ in range(samples):
            start = time.perf_counter()
            run(_ITERATIONS)
            best_s[index] = min(best_s[index], time.perf_counter() - start)

    workers = [threading.Thread(target=measure, args=(i,)) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(operations * _ITERATIONS / seconds for seconds in best_s)


@functools.cache
def _compiled(dtype: str) -> tuple[Callable[[int], None], int] | None:
    """Return the loop, and the operations of one iteration."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    features = llvm.get_host_cpu_features()
    width = 64 if features.get("avx512f") else 32 if features.get("avx") else 16
    products = 1
    if dtype in _NARROW:
        feature, instruction, products = _NARROW[dtype]
        if not features.get(feature):
            return None
        vector, step = f"<{width // 4} x i32>", _dot_product(instruction, width)
    else:
        scalar, item = {"float32": ("float", 4), "float64": ("double", 8)}[dtype]
        vector = f"<{width // item} x {scalar}>"
        step = f"call {vector} @llvm.fma.v{width // item}f{8 * item}"
    lanes = int(vector[1:].split()[0])
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=features.flatten(), opt=2
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(_source(vector, step)), machine)
    engine.finalize_object()
    sums = (ctypes.c_char * (_CHAINS * width))()
    address = engine.get_function_address("run")
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_void_p)(address)

    def run(iterations: int, _engine: llvm.ExecutionEngine = engine) -> None:
        call(iterations, ctypes.addressof(sums))

    return run, 2 * _CHAINS * lanes * products


def _dot_product(instruction: str, width: int) -> str:
    """Return the call of an instruction whose intrinsic has other types in each version of LLVM."""
    vector = f"<{width // 4} x i32>"
    return f'call {vector} asm "{instruction} $2, $3, $0", "=v,0,v,v"'


def _source(vector: str, step: str) -> str:
    """Return the loop as LLVM IR; operands come from memory, so nothing is a constant."""
    each = range(_CHAINS)
    is_asm = " asm " in step

    def term(i: int) -> str:
        operands = [f"{vector} %sum{i}", f"{vector} %x", f"{vector} %y"]
        return (
            f"%next{i} = {step}({', '.join(operands if is_asm else operands[1:] + operands[:1])})"
        )

    lines = [
        "define void @run(i64 %count, ptr %sums) {",
        "entry:",
        f"%x = load {vector}, ptr %sums, align 1",
        f"%y = load {vector}, ptr %sums, align 1",
        "br label %loop",
        "loop:",
        "%i = phi i64 [0, %entry], [%after, %loop]",
        *(f"%sum{i} = phi {vector} [zeroinitializer, %entry], [%next{i}, %loop]" for i in each),
        *(term(i) for i in each),
        "%after = add i64 %i, 1",
        "%goes = icmp slt i64 %after, %count",
        "br i1 %goes, label %loop, label %end",
        "end:",
        *(f"%to{i} = getelementptr {vector}, ptr %sums, i64 {i}" for i in each),
        *(f"store {vector} %next{i}, ptr %to{i}, align 1" for i in each),
        "ret void",
        "}",
    ]
    if not is_asm:
        name = step.split("@")[1]
        lines.append(f"declare {vector} @{name}({vector}, {vector}, {vector})")
    return "\n".join(lines)


def main() -> None:
    """Print the peak of each dtype on one and on two threads."""
    for dtype in DTYPES:
        for threads in (1, 2):
            found = peak_flops(dtype, threads)
            text = "no instruction" if found is None else f"{found / 1e9:.1f} G operations/s"
            print(f"{dtype}, {threads} threads: {text}")


if __name__ == "__main__":
    main()
