"""One compiled loop for one scalar expression, to try it on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from kiln.engines.native.llvm import assembly
from kiln.engines.native.llvm.instructions import type_text
from kiln.engines.native.llvm.runtime_functions import UNLIKELY, declaration, of_vectors
from kiln.engines.native.llvm.target import Target
from kiln.engines.native.llvm.values import Frame
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.loop_ir.scalars import NUMPY_TYPES, Scope, Value, postorder

OF_RUNTIME = [f"kiln_{name}_{dtype}" for name in ("sin", "cos", "tan") for dtype in ("f32", "f64")]
EPILOGUE = "\n".join([*map(declaration, OF_RUNTIME), "attributes #0 = { nounwind }", UNLIKELY, ""])
"""What must follow the functions of a module."""


def _memory(dtype: str, width: int) -> str:
    return type_text("i8" if dtype == "i1" else dtype, width)


def loop_text(
    target: Target,
    build: Callable[..., Value],
    dtypes: Sequence[str],
    width: int,
    name: str = "run",
) -> tuple[str, str]:
    """Return LLVM's text of `run(n, out, operands...)`, and the dtype of its result."""
    scope, w = Scope(), Writer(target)
    parameters = [scope.node("parameter", d, (), i) for i, d in enumerate(dtypes)]
    result = build(*parameters)
    w.do("br label %loop")
    w.begin("loop")
    w.lines.append("  %i = phi i64 [ 0, %entry ], [ %next, %LAST ]")
    functions: dict[str, str] = {}

    def of_runtime(x: Value, width: int) -> str:
        called = f"@{name}.{x.attr}.{x.dtype}x{width}"
        functions[called] = of_vectors(x, called, width)
        return called

    frame = Frame(w, {}.__getitem__, {}, (), None, width, of_runtime)
    for parameter in parameters:
        d, i = parameter.dtype, parameter.attr
        size = NUMPY_TYPES[d].itemsize
        at = w.emit(f"getelementptr i{8 * size}, ptr %p{i}, i64 %i")
        loaded = w.emit(f"load {_memory(d, width)}, ptr {at}, align {size}")
        if d == "i1":
            loaded = w.emit(f"trunc {_memory(d, width)} {loaded} to {type_text(d, width)}")
        frame.names[parameter] = loaded
    for x in postorder([result]):
        frame.is_vector[x] = width > 1 and x.op != "constant"
    found, d = frame.operand_in_place(result, width), result.dtype
    size = NUMPY_TYPES[d].itemsize
    if d == "i1":
        found = w.emit(f"zext {type_text(d, width)} {found} to {_memory(d, width)}")
    at = w.emit(f"getelementptr i{8 * size}, ptr %out, i64 %i")
    w.do(f"store {_memory(d, width)} {found}, ptr {at}, align {size}")
    w.do(f"%next = add i64 %i, {width}")
    w.do("%more = icmp ult i64 %next, %n")
    last = w.block
    w.do("br i1 %more, label %loop, label %done")
    w.begin("done")
    w.do("ret void")
    w.lines = [line.replace("%LAST", "%" + last) for line in w.lines]
    pointers = "".join(f", ptr %p{i}" for i in range(len(dtypes)))
    text = w.text(f"define void @{name}(i64 %n, ptr %out{pointers}) #0")
    return "".join([*functions.values(), text]), d


def compiled(
    build: Callable[..., Value],
    dtypes: Sequence[str],
    width: int = 16,
    target: Target | None = None,
) -> Callable[..., np.ndarray]:
    """Return a function of arrays of one length that computes an expression lane by lane.

    Its attribute `raw` is the C function; lengths there are multiples of the width.
    """
    text, dtype = loop_text(target or assembly.host_target(), build, dtypes, width)
    code = assembly.load(assembly.assemble(text + EPILOGUE, target), "run")
    raw = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * (1 + len(dtypes)))(
        code.address
    )

    def run(*arrays: np.ndarray) -> np.ndarray:
        n = len(arrays[0])
        padded = -(-n // width) * width
        held = [
            np.resize(np.asarray(a, NUMPY_TYPES[d]), padded)
            for a, d in zip(arrays, dtypes, strict=True)
        ]
        out = np.empty(padded, NUMPY_TYPES[dtype])
        raw(padded, out.ctypes.data, *[a.ctypes.data for a in held])
        return out[:n]

    run.raw = raw  # type: ignore[attr-defined]
    run.code = code  # type: ignore[attr-defined]
    return run
