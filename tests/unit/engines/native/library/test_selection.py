"""Libraries get what they call of the static runtime, under names of their own."""

from __future__ import annotations

import dataclasses
import pathlib

import pytest

from kiln import _runtime
from kiln.engines.native.library.object_files import object_file
from kiln.engines.native.library.selection import (
    WITH_BLAS,
    WITHOUT_BLAS,
    members_left_out,
    needed_members,
    runtime_members,
    with_prefix,
)
from kiln.engines.native.library.symbols import Symbol
from kiln.engines.native.llvm.assembly import assemble, host_target
from kiln.engines.native.llvm.target import named

OF_PROCESSES = {"kiln_call_python", "kiln_clock", "kiln_measured", "kiln_draw_counters"}
"""What no library has: Python, measurements, hidden state."""
OF_THE_SYSTEM = {
    # Memory, strings, processes, threads.
    *("malloc", "calloc", "free", "aligned_alloc", "memcpy", "memmove", "memset", "abort"),
    *("_setjmp", "longjmp", "pthread_mutex_lock", "pthread_mutex_unlock"),
    "__libc_single_threaded",
    # libm.
    *("exp", "expf", "log", "log1p", "log1pf", "pow", "sqrt", "fmod", "tgamma", "lgamma_r"),
    *("sin", "cos", "tan", "sinl", "cosl", "tanl", "sincosl", "ilogb", "ldexp", "ldexpf"),
    *("fma", "nearbyint"),
    # What compilers call for numbers of 128 bits.
    *("__addtf3", "__subtf3", "__multf3", "__divtf3", "__floatditf"),
    *("__extenddftf2", "__trunctfdf2", "__trunctfsf2"),
    "_GLOBAL_OFFSET_TABLE_",
}
OF_MACOS = {
    *("_longjmp", "bzero", "memset_pattern16", "_tlv_bootstrap"),
    *("__sincos_stret", "__sincosf_stret", "__exp10", "__exp10f"),
}
"""What only its libSystem has."""
PLAIN, BLAS = (members_left_out(blas=blas, threads=False) for blas in (False, True))
FOLDER = pathlib.Path(_runtime.__file__).parent
BUILT = sorted(path.name[len("_runtime.") : -2] for path in FOLDER.glob("_runtime.*.a"))
OF_LINKERS = [name for name in BUILT if not named(name).is_module]


def test_the_host_has_a_runtime() -> None:
    assert host_target().name in BUILT


@pytest.mark.parametrize("level", OF_LINKERS)
def test_every_kernel_needs_the_system_alone(level: str) -> None:
    runtime = runtime_members(named(level))
    kernels = _runtime.native_symbols().keys() - OF_PROCESSES
    members, externals = needed_members(kernels, runtime, PLAIN)
    assert externals <= OF_THE_SYSTEM | (OF_MACOS if named(level).system == "macos" else set())
    assert WITHOUT_BLAS in members


def test_only_what_is_called() -> None:
    runtime = runtime_members(host_target())
    of_loops = needed_members(["kiln_parallel"], runtime, PLAIN)[0]
    assert of_loops == ["one_thread.cc.o", "parallel.cc.o"]
    of_sorting = needed_members(["sort"], runtime, PLAIN)[0]
    assert "sorting.cc.o" in of_sorting
    assert "tiles.cc.o" not in of_sorting


def test_routines_of_blas() -> None:
    runtime = runtime_members(host_target())
    members, externals = needed_members(["kiln_lu_f32"], runtime, BLAS)
    assert WITH_BLAS in members
    assert "scipy_sgetrf_" in externals


def test_unknown_symbols_are_external() -> None:
    assert needed_members(["puts"], runtime_members(host_target()), PLAIN) == ([], {"puts"})


def test_a_target_without_a_runtime_is_refused() -> None:
    target = dataclasses.replace(named("aarch64"), name="other")
    with pytest.raises(NotImplementedError) as error:
        runtime_members(target)
    asked, wrong, remedy = str(error.value).splitlines()
    assert asked == "a library for target other"
    assert "_runtime.other.a is missing" in wrong
    assert host_target().name in wrong
    assert "make" in remedy


def test_a_public_name_may_be_that_of_a_kernel() -> None:
    wrapper = assemble("define void @sort() {\n  ret void\n}\n")
    kernel = assemble("define void @sort() {\n  ret void\n}\n")
    code = assemble(
        "declare void @sort()\ndefine void @f() {\n  call void @sort()\n  ret void\n}\n"
    )
    members = with_prefix("m", [("a", wrapper), ("b", code), ("c", kernel)], ["sort"])
    found = {name: object_file(content).symbols() for name, content in members}
    assert found == {
        "a": [Symbol("sort", True)],
        "b": [Symbol("m_f", True), Symbol("m_sort", False)],
        "c": [Symbol("m_sort", True)],
    }


def test_prefixes() -> None:
    first = assemble("declare void @g()\ndefine void @f() {\n  call void @g()\n  ret void\n}")
    second = assemble(
        "declare void @puts()\ndefine void @g() {\n  call void @puts()\n  ret void\n}"
    )
    members = with_prefix("m", [("a", first), ("b", second)], ["f"])
    found = [object_file(content).symbols() for _, content in members]
    assert sorted(found[0]) == [Symbol("f", True), Symbol("m_g", False)]
    assert sorted(found[1]) == [Symbol("m_g", True), Symbol("puts", False)]
