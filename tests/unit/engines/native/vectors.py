"""One compiled loop for one scalar expression, to try it on arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

import numpy as np

from kiln.engines.native.llvm import assembly
from kiln.engines.native.llvm.instructions import instruction, type_text
from kiln.engines.native.llvm.target import Target
from kiln.engines.native.llvm.writer import Writer
from kiln.engines.native.scalars import NUMPY_TYPES, Scope, Value

Known = dict[Value, str]

UNLIKELY = '!0 = !{!"branch_weights", i32 1, i32 4000}\n'
"""What must follow the functions of a module."""


def _emitted(w: Writer, x: Value, known: Known, width: int) -> str:
    if x in known:
        return known[x]
    if x.op != "rare":
        operands = [_emitted(w, y, known, width) for y in x.operands]
        known[x] = instruction(w, x, operands, width)
        return known[x]
    mask, usual = (_emitted(w, y, known, width) for y in x.operands[:2])
    kind = type_text(x.dtype, width)
    any_lane = mask
    if width > 1:
        any_lane = w.emit(
            f"call i1 @llvm.vector.reduce.or.v{width}i1({type_text('i1', width)} {mask})"
        )
    before, slow, after = w.block, w.label("slow"), w.label("after")
    w.do(f"br i1 {any_lane}, label %{slow}, label %{after}, !prof !0")
    w.begin(slow)
    exact = _emitted(w, x.operands[2], dict(known), width)
    mixed = w.emit(f"select {type_text('i1', width)} {mask}, {kind} {exact}, {kind} {usual}")
    end = w.block
    w.do(f"br label %{after}")
    w.begin(after)
    known[x] = w.phi(kind, (usual, before), (mixed, end))
    return known[x]


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
    known: Known = {}
    for parameter in parameters:
        d, i = parameter.dtype, parameter.attr
        size = NUMPY_TYPES[d].itemsize
        at = w.emit(f"getelementptr i{8 * size}, ptr %p{i}, i64 %i")
        loaded = w.emit(f"load {_memory(d, width)}, ptr {at}, align {size}")
        if d == "i1":
            loaded = w.emit(f"trunc {_memory(d, width)} {loaded} to {type_text(d, width)}")
        known[parameter] = loaded
    found, d = _emitted(w, result, known, width), result.dtype
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
    return w.text(f"define void @{name}(i64 %n, ptr %out{pointers})"), d


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
    code = assembly.load(assembly.assemble(text + UNLIKELY, target), "run")
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
