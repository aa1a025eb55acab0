"""From text to code in memory: errors, kernels, threads, code that is dropped."""

from __future__ import annotations

import ctypes
import gc
import signal
import subprocess
import sys
import threading
from typing import Any

import llvmlite.binding
import pytest

from kiln.engines.native.llvm import assembly, linking, target
from kiln.engines.native.llvm.writer import Writer

SUM = """
define i64 @run(i64 %x) {
  %y = add i64 %x, NUMBER
  ret i64 %y
}
"""


def run(code: assembly.Code, x: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(code.address)(x)


def test_code_of_one_name_may_be_loaded_many_times() -> None:
    codes = [assembly.load(assembly.assemble(SUM.replace("NUMBER", str(i))), "run") for i in (1, 2)]
    assert [run(c, 40) for c in codes] == [41, 42]
    again = assembly.load(assembly.assemble(SUM.replace("NUMBER", "3")), "run")
    del codes
    gc.collect()
    assert run(again, 40) == 43


def test_errors_are_said() -> None:
    with pytest.raises(RuntimeError, match="parsing"):
        assembly.assemble("define void @f( {")
    with pytest.raises(RuntimeError, match="other"):
        assembly.load(assembly.assemble(SUM.replace("NUMBER", "1")), "other")
    calls = "declare void @nowhere()\ndefine void @run() {\n  call void @nowhere()\n  ret void\n}\n"
    with pytest.raises(RuntimeError, match="materialize"):
        assembly.load(assembly.assemble(calls), "run")


def test_code_calls_kernels_of_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    kind = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
    kernel = kind(lambda x: 2 * x)
    address = ctypes.cast(kernel, ctypes.c_void_p).value
    monkeypatch.setattr(linking, "symbols", lambda: {"kiln_twice": address})
    text = """
declare i64 @kiln_twice(i64)
define i64 @run(i64 %x) {
  %y = call i64 @kiln_twice(i64 %x)
  ret i64 %y
}
"""
    assert run(assembly.load(assembly.assemble(text), "run"), 21) == 42


def test_an_interrupt_as_a_module_dies(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM frees it in a finalizer, where Python drops what is raised."""
    module = llvmlite.binding.ModuleRef
    dispose = module._dispose

    def struck(self: Any) -> None:
        monkeypatch.undo()
        signal.raise_signal(signal.SIGINT)
        dispose(self)

    monkeypatch.setattr(module, "_dispose", struck)
    with pytest.raises(KeyboardInterrupt):
        assembly.assemble(SUM.replace("NUMBER", "4"))
    assert assembly.assemble(SUM.replace("NUMBER", "4"))


def test_threads_compile_at_once() -> None:
    found: dict[int, int] = {}

    def work(i: int) -> None:
        for k in range(5):
            code = assembly.load(assembly.assemble(SUM.replace("NUMBER", str(10 * i + k))), "run")
            found[10 * i + k] = run(code, 0)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert found == {n: n for n in found}
    assert len(found) == 20


def test_assembly_text_names_the_function() -> None:
    for level in target.LEVELS.values():
        assert "run:" in assembly.disassemble(SUM.replace("NUMBER", "1"), level)


def test_levels_are_chosen_by_features() -> None:
    new = {feature: True for level in target.LEVELS.values() for feature in level.requires}
    assert {"avx512vl", "avx2", "fma", "f16c", "sse4.2"} < set(new)
    assert target.best("x86_64", new).name == "x86-64-v4"
    assert target.best("x86_64", {**new, "avx512vl": False}).name == "x86-64-v3"
    # Without fma nothing as new as the third level.
    assert target.best("x86_64", {**new, "fma": False}).name.startswith("x86-64-v2")
    assert target.best("aarch64", {}).name == "aarch64"
    for architecture, features in (("x86_64", {}), ("riscv64", new)):
        with pytest.raises(RuntimeError, match="native engine needs"):
            target.best(architecture, features)
    assert target.LEVELS["x86-64-v3"].lanes(32) == 8


def test_a_target_may_be_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    here = assembly.host_target().triple
    levels = [level for level in target.LEVELS.values() if level.triple == here]
    monkeypatch.setenv("KILN_TARGET", levels[0].name)
    assert assembly.host_target.__wrapped__() is levels[0]
    for other, why in (("z80", "no such target"), ("riscv64", "does not run")):
        monkeypatch.setenv("KILN_TARGET", other)
        with pytest.raises(
            ValueError, match=f"(?s){why}.*set KILN_TARGET to one of: {levels[0].name}"
        ):
            assembly.host_target.__wrapped__()


def test_a_level_that_the_processor_lacks_is_not_forced() -> None:
    old = dict.fromkeys(target.LEVELS["x86-64-v2"].requires, True)
    assert target.forced("x86-64-v2", "x86_64", old).name == "x86-64-v2"
    for name in ("x86-64-v3", "x86-64-v4", "aarch64", "wasm32"):
        with pytest.raises(ValueError, match="does not run"):
            target.forced(name, "x86_64", old)


def test_a_writer_joins_blocks_by_phi() -> None:
    w = Writer(assembly.host_target())
    then, end = w.label("then"), w.label("end")
    positive = w.emit("icmp sgt i64 %x, 0")
    w.do(f"br i1 {positive}, label %{then}, label %{end}")
    w.begin(then)
    twice = w.emit("add i64 %x, %x")
    w.do(f"br label %{end}")
    w.begin(end)
    found = w.phi("i64", (twice, then), ("0", "entry"))
    w.do(f"ret i64 {found}")
    code = assembly.load(assembly.assemble(w.text("define i64 @run(i64 %x)")), "run")
    assert [run(code, x) for x in (-3, 4)] == [0, 8]


LATE = """
import atexit, sys, threading, time
import kiln
from kiln.engines.native.llvm import assembly

ending = threading.Event()

def work():
    ending.wait()
    while True:
        assembly.disassemble("define void @f() { ret void }")
        assembly._promotion(assembly.host_target(), assembly.USUAL_EFFORT)
        assembly._linker()

# From 3.12 on no thread can be started during interpreter shutdown.
threading.Thread(target=work, daemon=True).start()

@atexit.register
def begin():
    assert "llvmlite" not in sys.modules
    ending.set()
    while not assembly._linker.cache_info().currsize:
        time.sleep(0.01)
"""


def test_a_thread_loads_the_library_while_the_interpreter_ends() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE], capture_output=True, text=True, timeout=100, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
