"""Blocks, loops, calls, the stack, and what lies beside functions in a module."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from kiln.engines.native.llvm import assembly
from tests.unit._runtime.assembler.running import (
    LEVELS_HERE,
    assembled,
    assert_same,
    images,
    needs_level,
)
from tests.unit.engines.native.object_file import undefined_symbols

pytestmark = needs_level


def integers(text: str, *given: int) -> int:
    """Call `i64 @run(i64, ...)` of both generators for all levels, which must agree."""
    found = []
    for level in LEVELS_HERE:
        for image in images(text, level).values():
            code = assembly.load(image, "run")
            run = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(given))(code.address)
            found.append(run(*given))
    assert len(set(found)) == 1
    return found[0]


COLLATZ = """define i64 @run(i64 %x) #0 {
entry:
  br label %head
head:
  %n = phi i64 [ %x, %entry ], [ %next, %step ]
  %k = phi i64 [ 0, %entry ], [ %more, %step ]
  %done = icmp sle i64 %n, 1
  br i1 %done, label %end, label %turn
turn:
  %low = and i64 %n, 1
  %odd = icmp ne i64 %low, 0
  br i1 %odd, label %up, label %down
up:
  %triple = mul i64 %n, 3
  %plus = add i64 %triple, 1
  br label %step
down:
  %half = ashr i64 %n, 1
  br label %step
step:
  %next = phi i64 [ %plus, %up ], [ %half, %down ]
  %more = add i64 %k, 1
  br label %head
end:
  ret i64 %k
}
"""


def test_loops_with_branches() -> None:
    assert integers(COLLATZ, 27) == 111
    assert integers(COLLATZ, 1) == 0


def test_values_that_change_places() -> None:
    text = """define i64 @run(i64 %x, i64 %y, i64 %z) #0 {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %a = phi i64 [ %x, %entry ], [ %b, %loop ]
  %b = phi i64 [ %y, %entry ], [ %c, %loop ]
  %c = phi i64 [ %z, %entry ], [ %a, %loop ]
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, 5
  br i1 %more, label %loop, label %done
done:
  %t = mul i64 %next, 1000
  ret i64 %t
}
"""
    assert integers(text, 1, 2, 3) == 5000
    text = text.replace("ret i64 %t", "%r = add i64 %t, %last\n  ret i64 %r").replace(
        "done:\n", "done:\n  %last = phi i64 [ %b, %loop ]\n"
    )
    assert integers(text, 1, 2, 3) == 5003


def test_a_loop_in_a_loop_keeps_what_the_outer_one_needs() -> None:
    text = """define i64 @run(i64 %n, i64 %m) #0 {
entry:
  %twice = mul i64 %m, 2
  br label %outer
outer:
  %i = phi i64 [ 0, %entry ], [ %i1, %after ]
  %sum = phi i64 [ 0, %entry ], [ %sum2, %after ]
  br label %inner
inner:
  %k = phi i64 [ 0, %outer ], [ %k1, %inner ]
  %s = phi i64 [ %sum, %outer ], [ %s1, %inner ]
  %p = mul i64 %k, %twice
  %s1 = add i64 %s, %p
  %k1 = add i64 %k, 1
  %m1 = icmp slt i64 %k1, %n
  br i1 %m1, label %inner, label %after
after:
  %sum2 = add i64 %s1, %i
  %i1 = add i64 %i, 1
  %m2 = icmp slt i64 %i1, %n
  br i1 %m2, label %outer, label %done
done:
  ret i64 %sum2
}
"""
    n, m = 7, 5
    assert integers(text, n, m) == sum(sum(k * 2 * m for k in range(n)) + i for i in range(n))


@pytest.mark.parametrize("x", [-(2**31), -1, 0, 1, 2, 3, 2**31 - 1])
def test_a_switch(x: int) -> None:
    text = """define i64 @run(i64 %x) #0 {
entry:
  %n = trunc i64 %x to i32
  switch i32 %n, label %other [ i32 0, label %a i32 1, label %b i32 2, label %c ]
a:
  br label %end
b:
  br label %end
c:
  br label %end
other:
  br label %end
end:
  %r = phi i64 [ 10, %a ], [ %x, %b ], [ -5000000000, %c ], [ 7, %other ]
  ret i64 %r
}
"""
    assert integers(text, x) == {0: 10, 1: 1, 2: -5000000000}.get(x, 7)


@pytest.mark.parametrize(("step", "expected"), [(0, 1), (8, 5), (-8, 4)])
def test_addresses_are_compared(step: int, expected: int) -> None:
    text = """define i64 @run(i64 %step) #0 {
entry:
  %room = alloca i64, i64 4, align 8
  %here = getelementptr i64, ptr %room, i64 2
  %again = getelementptr i8, ptr %room, i64 16
  %there = getelementptr i8, ptr %again, i64 %step
  %same = icmp eq ptr %here, %there
  %other = icmp ne ptr %here, %there
  %before = icmp ult ptr %here, %there
  %a = select i1 %same, i64 1, i64 0
  %b = select i1 %other, i64 4, i64 0
  %c = select i1 %before, i64 1, i64 0
  %ab = add i64 %a, %b
  %abc = add i64 %ab, %c
  ret i64 %abc
}
"""
    assert integers(text, step) == expected


def test_many_integers_lie_on_the_stack() -> None:
    lines = ["define i64 @run(i64 %x, i64 %y) #0 {", "entry:"]
    names = ["%x", "%y"]
    for i in range(40):
        op = ("add", "sub", "mul", "xor", "and", "or")[i % 6]
        lines.append(f"  %v{i} = {op} i64 {names[i]}, {names[i // 2]}")
        names.append(f"%v{i}")
    total = "%y"
    for i, name in enumerate(reversed(names)):
        lines.append(f"  %c{i} = icmp slt i64 {name}, {total}")
        lines.append(f"  %s{i} = select i1 %c{i}, i64 {total}, i64 {name}")
        lines.append(f"  %d{i} = sdiv i64 %s{i}, 3")
        lines.append(f"  %t{i} = sub i64 %d{i}, {name}")
        total = f"%t{i}"
    text = "\n".join([*lines, f"  ret i64 {total}", "}", ""])
    integers(text, 12345, -678)


def test_calls_keep_what_is_needed_after_them() -> None:
    text = """declare i64 @labs(i64)
define internal i64 @weighed(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) #0 {
  %p = mul i64 %a, 100000
  %q = mul i64 %b, 10000
  %r = mul i64 %c, 1000
  %s = mul i64 %d, 100
  %t = mul i64 %e, 10
  %u = add i64 %p, %q
  %v = add i64 %u, %r
  %w = add i64 %v, %s
  %x = add i64 %w, %t
  %y = add i64 %x, %f
  ret i64 %y
}
define i64 @run(i64 %a, i64 %b, i64 %c, i64 %d, i64 %e, i64 %f) #0 {
entry:
  %n = call i64 @weighed(i64 %f, i64 %e, i64 %d, i64 %c, i64 %b, i64 %a)
  %m = call i64 @weighed(i64 %b, i64 %c, i64 %d, i64 %e, i64 %f, i64 %a)
  %k = sub i64 %n, %m
  %l = call i64 @labs(i64 %k)
  %z = mul i64 %l, %a
  ret i64 %z
}
"""
    assert integers(text, 1, 2, 3, 4, 5, 6) == abs(654321 - 234561)
    assert undefined_symbols(assembled(text)) == ["labs"]


def test_constants_and_tables() -> None:
    data = np.arange(16, dtype=np.float32)
    listed = "".join(f"\\{byte:02x}" for byte in data.tobytes())
    text = f"""@data = internal constant [64 x i8] c"{listed}", align 64
@numbers = private unnamed_addr constant [3 x i64] [i64 1, i64 -2, i64 40], align 8
@steps = internal constant [2 x {{ ptr, ptr, i64 }}] [{{ ptr, ptr, i64 }} {{ ptr @one, ptr null, \
i64 8 }}, {{ ptr, ptr, i64 }} {{ ptr @two, ptr @numbers, i64 16 }}], align 8
@mixed = internal constant [1 x {{ i32, i32, i64, ptr }}] [{{ i32, i32, i64, ptr }} {{ i32 2, \
i32 -3, i64 5, ptr @data }}], align 8
define internal i64 @one() #0 {{
  ret i64 1
}}
define internal i64 @two() #0 {{
  ret i64 2
}}
define void @run(ptr %out, ptr %x0) #0 {{
entry:
  %v = load <16 x float>, ptr @data, align 64
  store <16 x float> %v, ptr %out, align 4
  %a = getelementptr i64, ptr @numbers, i64 1
  %n = load i64, ptr %a, align 8
  %b = getelementptr i8, ptr %out, i64 64
  store i64 %n, ptr %b, align 8
  %c = getelementptr i8, ptr @steps, i64 24
  %d = load ptr, ptr %c, align 8
  %e = getelementptr i8, ptr @steps, i64 32
  %f = load ptr, ptr %e, align 8
  %g = load i64, ptr %f, align 8
  %h = getelementptr i8, ptr %out, i64 72
  store i64 %g, ptr %h, align 8
  %i = getelementptr i8, ptr @mixed, i64 4
  %j = load i32, ptr %i, align 4
  %k = sext i32 %j to i64
  %l = getelementptr i8, ptr %out, i64 80
  store i64 %k, ptr %l, align 8
  ret void
}}
"""
    found = assert_same(text, [np.zeros(8)], 88)
    assert found[64:].view(np.int64).tolist() == [-2, 1, -3]


@pytest.mark.parametrize("size", [0, 1, 3, 64, 127, 200, 256, 1000])
def test_memory_is_copied(size: int) -> None:
    text = f"""define void @run(ptr %out, ptr %x0) #0 {{
entry:
  %from = getelementptr i8, ptr %x0, i64 3
  call void @llvm.memcpy.p0.p0.i64(ptr %out, ptr %from, i64 {size}, i1 false)
  ret void
}}
"""
    data = np.arange(1100).astype(np.uint8)
    assert (assert_same(text, [data], size) == data[3 : 3 + size]).all()


def test_memory_on_the_stack_is_aligned() -> None:
    text = """define void @run(ptr %out, ptr %x0) #0 {
entry:
  %a = alloca i8, i64 3, align 1
  %b = alloca [5 x double], align 64
  %c = alloca <16 x float>, align 64
  %v = load <16 x float>, ptr %x0, align 4
  store <16 x float> %v, ptr %c, align 64
  %first = getelementptr double, ptr %b, i64 4
  store double 1.5, ptr %first, align 8
  store i8 7, ptr %a, align 1
  %w = load <16 x float>, ptr %c, align 64
  store <16 x float> %w, ptr %out, align 4
  %slots = getelementptr i8, ptr %out, i64 64
  %bits = call i64 @rest(ptr %b)
  store i64 %bits, ptr %slots, align 8
  %x = load double, ptr %first, align 8
  %at = getelementptr i8, ptr %out, i64 72
  store double %x, ptr %at, align 8
  ret void
}
define internal i64 @rest(ptr %x) #0 {
  %slot = alloca i64, i64 1, align 8
  store ptr %x, ptr %slot, align 8
  %n = load i64, ptr %slot, align 8
  %low = and i64 %n, 63
  ret i64 %low
}
"""
    data = np.arange(16, dtype=np.float32)
    found = assert_same(text, [data], 80)
    assert found[64:72].view(np.int64) == 0
    assert found[72:].view(np.float64) == 1.5


@pytest.mark.parametrize("lanes", [2, 4, 8])
@pytest.mark.parametrize("element", ["i8", "i16", "i32"])
def test_masks_of_short_vectors_write_no_more_lanes(element: str, lanes: int) -> None:
    """What a comparison says of the lanes beyond must not be used."""
    if element == "i32" and lanes == 8:
        return
    size = int(element[1:]) // 8
    text = f"""define void @run(ptr %out, ptr %x0, ptr %x1) #0 {{
entry:
  %x = load <{lanes} x {element}>, ptr %x0, align 1
  %y = load <{lanes} x {element}>, ptr %x1, align 1
  %m = icmp sle <{lanes} x {element}> %x, %y
  %n = xor <{lanes} x i1> %m, splat (i1 true)
  call void @llvm.masked.store.v{lanes}{element}.p0(<{lanes} x {element}> %x, ptr align 1 %out, \
<{lanes} x i1> %m)
  %p = getelementptr i8, ptr %out, i64 {lanes * size}
  %z = call <{lanes} x {element}> @llvm.masked.load.v{lanes}{element}.p0(ptr align 1 %x1, \
<{lanes} x i1> %n, <{lanes} x {element}> %x)
  store <{lanes} x {element}> %z, ptr %p, align 1
  %q = getelementptr i8, ptr %out, i64 {2 * lanes * size}
  call void @llvm.masked.store.v{lanes}{element}.p0(<{lanes} x {element}> %y, ptr align 1 %q, \
<{lanes} x i1> %n)
  ret void
}}
"""
    rng = np.random.default_rng(lanes)
    x, y = (rng.integers(-3, 4, lanes).astype(f"i{size}") for _ in range(2))
    found = assert_same(text, [x, y], 3 * lanes * size).view(f"i{size}").reshape(3, lanes)
    untouched = np.full(lanes, -1515870811 if size == 4 else -23131 if size == 2 else -91)
    np.testing.assert_array_equal(found[0], np.where(x <= y, x, untouched))
    np.testing.assert_array_equal(found[1], np.where(x <= y, x, y))
    np.testing.assert_array_equal(found[2], np.where(x <= y, untouched, y))


@pytest.mark.parametrize("level", LEVELS_HERE)
def test_nothing_beyond_a_buffer_is_read(level: str) -> None:
    """The operand ends where the memory of the process does."""
    page = 4096
    text = """define void @run(ptr %out, ptr %x0) #0 {
entry:
  %a = call <8 x float> @llvm.masked.load.v8f32.p0(ptr align 4 %x0, <8 x i1> <i1 1, i1 1, i1 1, \
i1 0, i1 0, i1 0, i1 0, i1 0>, <8 x float> zeroinitializer)
  %b = load <2 x i8>, ptr %x0, align 1
  %c = load <2 x float>, ptr %x0, align 4
  %d = load <4 x i8>, ptr %x0, align 1
  store <8 x float> %a, ptr %out, align 4
  %p = getelementptr i8, ptr %out, i64 32
  store <2 x i8> %b, ptr %p, align 1
  %q = getelementptr i8, ptr %out, i64 36
  store <2 x float> %c, ptr %q, align 4
  %r = getelementptr i8, ptr %out, i64 44
  store <4 x i8> %d, ptr %r, align 1
  ret void
}
"""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    memory = libc.mmap(None, 2 * page, 3, 0x22, -1, 0)
    assert libc.mprotect(memory + page, page, 0) == 0
    floats = ctypes.cast(memory + page - 12, ctypes.POINTER(ctypes.c_float))
    end = np.ctypeslib.as_array(floats, (3,))
    end[:] = [1.5, -2.5, 3.5]
    code = assembly.load(assembled(text, level), "run")
    out = np.zeros(12, np.float32)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)(
        out.ctypes.data, memory + page - 12
    )
    np.testing.assert_array_equal(out[:8], [1.5, -2.5, 3.5, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(out[9:11], [1.5, -2.5])
    libc.munmap(ctypes.c_void_p(memory), ctypes.c_size_t(2 * page))
