"""Objects put into memory by the runtime's own linker."""

from __future__ import annotations

import ctypes
import gc
import random

import pytest

from kiln import _runtime
from kiln.engines.native.llvm import assembly

TEXT = """
@numbers = internal constant [4 x i64] [i64 2, i64 3, i64 5, i64 7], align 64
@table = internal constant [2 x ptr] [ptr @first, ptr @second], align 8
declare i64 @outside(i64)
declare ptr @memcpy(ptr, ptr, i64)
define internal i64 @first(i64 %x) noinline {
  %at = getelementptr i64, ptr @numbers, i64 %x
  %y = load i64, ptr %at
  ret i64 %y
}
define internal i64 @second(i64 %x) noinline {
  %y = call i64 @outside(i64 %x)
  ret i64 %y
}
define i64 @run(i64 %which, i64 %x) {
  %at = getelementptr ptr, ptr @table, i64 %which
  %function = load ptr, ptr %at
  %y = call i64 %function(i64 %x)
  ret i64 %y
}
define i64 @copied(i64 %x) {
  %from = alloca i64
  %to = alloca i64
  store i64 %x, ptr %from
  %ignored = call ptr @memcpy(ptr %to, ptr %from, i64 8)
  %y = load i64, ptr %to
  ret i64 %y
}
define ptr @where() {
  ret ptr @outside
}
"""


@pytest.fixture(scope="module")
def outside():
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(lambda x: 100 - x)
    yield function
    del function


@pytest.fixture(scope="module")
def image():
    image = assembly.assemble(TEXT)
    if image[:4] != b"\x7fELF":
        pytest.skip("objects of this platform are not ELF")
    return image


def symbols(outside) -> dict[str, int]:
    return {"outside": ctypes.cast(outside, ctypes.c_void_p).value}


def test_code_constants_tables_and_functions_elsewhere(image, outside):
    address, owner = _runtime.link_object(image, "run", symbols(outside))
    run = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(address)
    assert [run(0, i) for i in range(4)] == [2, 3, 5, 7]
    assert run(1, 58) == 42
    del owner


def test_functions_of_the_process(image, outside):
    address, owner = _runtime.link_object(image, "copied", symbols(outside))
    assert ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(-7) == -7
    del owner


def test_addresses_of_functions_elsewhere(image, outside):
    address, owner = _runtime.link_object(image, "where", symbols(outside))
    found = ctypes.CFUNCTYPE(ctypes.c_void_p)(address)()
    assert found == symbols(outside)["outside"]
    del owner


def test_what_is_missing_is_said(image, outside):
    assert "nobody defines" in _runtime.link_object(image, "run", {})
    assert "run_away" in _runtime.link_object(image, "run_away", symbols(outside))
    for other in (b"", b"\x7fELF", b"!<arch>\n" * 40, b"\xcf\xfa\xed\xfe" * 40):
        assert isinstance(_runtime.link_object(other, "run", {}), str)
    with pytest.raises(TypeError):
        _runtime.link_object("text", "run", {})
    with pytest.raises(TypeError):
        _runtime.link_object(image, "run", None)


def test_damaged_objects_are_refused_or_linked_but_never_crash(image, outside):
    # Code is not run: only what the linker itself reads and writes is tried.
    draw = random.Random(0)
    known = symbols(outside)
    for _ in range(3000):
        damaged = bytearray(image)
        for _ in range(draw.choice((1, 2, 8))):
            damaged[draw.randrange(len(damaged))] = draw.choice((0, 1, 127, 128, 255))
        damaged = damaged[: draw.choice((len(damaged), draw.randrange(len(damaged))))]
        found = _runtime.link_object(bytes(damaged), "run", known)
        assert isinstance(found, (str, tuple))


def mapped() -> int:
    # Those of code alone: the allocator of a sanitizer maps memory of its own.
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("x" in line.split()[1] for line in file)


def test_memory_is_given_back(image, outside):
    known = symbols(outside)
    held = [_runtime.link_object(image, "run", known) for _ in range(50)]
    gc.collect()
    before = mapped()
    held += [_runtime.link_object(image, "run", known) for _ in range(500)]
    assert mapped() > before
    del held[50:]
    gc.collect()
    assert mapped() <= before
