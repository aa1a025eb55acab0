"""Which generator makes the code of a program, and when LLVM's takes over."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.engines.engine import Program
from kiln.core.staging import stage_pure
from kiln.core.trace import aval_of
from kiln.engines.native.compiler import NativeCompiler
from kiln.engines.native.executables import executable as executables
from kiln.engines.native.executables.executable import NativeExecutable
from kiln.engines.native.llvm import generation
from kiln.engines.native.llvm.assembly import LEAST_EFFORT, assemble, disassemble, host_target
from kiln.engines.native.llvm.generation import LEVELS, MOST_NESTED, assembled
from kiln.engines.native.loop_ir.parse import parse
from tests.emulated.marks import forks_beside_threads

pytestmark = pytest.mark.skipif(
    host_target().name not in LEVELS, reason="the assembler writes code for other levels"
)
X = np.linspace(-3, 3, 37, dtype=np.float32)


def compiled(fun: Any = lambda x: jnp.exp(x) + 1, x: Any = X) -> NativeExecutable:
    jaxpr = stage_pure(lambda a: [fun(a)], [aval_of(x)])
    found = NativeCompiler().compile(Program(jaxpr, "program"))
    assert isinstance(found, NativeExecutable)
    return found


def run(executable: NativeExecutable, x: Any = X) -> bytes:
    return bytes(memoryview(executable([np.asarray(x)])[0]))


def is_llvms(executable: NativeExecutable) -> bool:
    return executable.image == assemble(executable.code.llvm)


def nested(levels: int) -> Any:
    """Return loops in each other, which end when all elements are as large as there are levels."""

    def level(k: int) -> Any:
        if k == 0:
            return lambda x: jnp.sin(x) * 0.25 + x
        inner = level(k - 1)
        return lambda x: lax.while_loop(lambda y: y.min() < k, inner, x + 1)

    return level(levels)


def test_deep_nests_stay_with_the_assembler() -> None:
    deep = compiled(nested(MOST_NESTED + 1))
    assert deep.image == assembled(deep.code.llvm)
    assert deep.code.calls == 0
    assert is_llvms(compiled(nested(MOST_NESTED)))


def test_llvm_takes_the_least_effort_with_deep_nests() -> None:
    usual = compiled(nested(MOST_NESTED + 1))
    with override(code_generator="llvm"):
        deep = compiled(nested(MOST_NESTED + 1))
        assert is_llvms(compiled(nested(MOST_NESTED)))
    text = deep.code.llvm
    assert not is_llvms(deep)
    assert deep.image == assemble(text, codegen=LEAST_EFFORT)
    assert deep.as_text("asm") == disassemble(text, codegen=LEAST_EFFORT)
    assert run(deep) == run(usual)
    assert np.frombuffer(run(deep), np.float32).min() >= MOST_NESTED + 1


def test_loops_in_turn_are_not_deep() -> None:
    def many(x: Any) -> Any:
        for _ in range(MOST_NESTED + 1):
            x = lax.while_loop(lambda y: y[0] < 0, lambda y: y + 1, x)
        return x

    assert is_llvms(compiled(many))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the ninth call of a short program the one that asks LLVM."""
    monkeypatch.setattr(generation, "WORTH_LLVM", 1 << 40)
    work = round((1 << 40) / compiled().code.calls)
    monkeypatch.setattr(generation, "WORTH_LLVM", 9 * work)
    return 9


def test_llvm_compiles_what_runs_often(few: int) -> None:
    executable = compiled()
    first = executable.code.owner
    assert executable.image == assembled(executable.code.llvm)
    expected = run(executable)
    for _ in range(few - 2):
        assert run(executable) == expected
    assert executable.code.owner is first
    assert run(executable) == expected
    assert executable.code.owner is not first
    assert is_llvms(executable)
    assert run(executable) == expected
    code = executable.code
    del executable
    gc.collect()
    assert "kiln_entry" in code.as_text("asm")


def test_a_call_that_does_much_is_worth_llvm_at_once() -> None:
    assert is_llvms(compiled(lambda x: jnp.exp(x) * x + 1, np.zeros((4096, 16384), np.float32)))
    assert is_llvms(compiled(lambda x: lax.while_loop(lambda y: y[0] < 0, lambda y: y + 1, x)))
    turns = compiled(lambda x: lax.fori_loop(0, 1 << 24, lambda i, y: y * 0.5 + i, x))
    assert is_llvms(turns)
    assert not is_llvms(compiled(lambda x: lax.fori_loop(0, 10, lambda i, y: y * 0.5 + i, x)))
    assert compiled().code.calls > 1 << 18
    assert 10 < compiled(jnp.exp, np.zeros(1 << 20, np.float32)).code.calls < 10_000


def test_numbers_take_as_long_as_vectors() -> None:
    """The operations of a nest of one point count, not only the nest."""
    start = tuple(np.float32(i) for i in range(20))

    def turned(x: Any, times: int) -> Any:
        def step(_: Any, numbers: Any) -> Any:
            for _ in range(times):
                numbers = tuple(
                    a * b - c
                    for a, b, c in zip(numbers, numbers[1:] + numbers[:1], start, strict=True)
                )
            return numbers

        return jnp.stack(lax.fori_loop(0, 1000, step, tuple(x[i] for i in range(20))))

    short, long = (compiled(lambda x, n=n: turned(x, n)) for n in (1, 4))
    lines = [each.code.llvm.count("\n") for each in (short, long)]
    assert lines[1] < 4 * lines[0]
    assert long.code.calls < short.code.calls


def test_long_code_is_llvms_after_more_calls() -> None:
    function = parse("""function f(%i0: f32[9000]) -> (%o1: f32[9000]) {
  nest i0 < 9000 {
    v0: f32 = %i0[i0]
    %o1[i0] = v0
  }
}
""")
    calls = generation.calls_before_llvm(function, generation.LINES)
    assert calls > generation.FEWEST_CALLS
    assert generation.calls_before_llvm(function, 1) == calls
    assert 4 * calls <= generation.calls_before_llvm(function, 4 * generation.LINES) < 4 * calls + 4


def test_a_generator_may_be_chosen(few: int) -> None:
    with override(code_generator="llvm"):
        assert is_llvms(compiled())
    with override(code_generator="kiln"):
        executable = compiled()
    for _ in range(2 * few):
        run(executable)
    assert executable.image == assembled(executable.code.llvm)
    with pytest.raises(ValueError, match="'auto', 'kiln', 'llvm'"):
        kiln.config.update("code_generator", "gcc")


def test_rare_values_of_wide_vectors_are_not_left_to_llvm() -> None:
    executable = compiled(lambda x: jnp.sum(jnp.sin(x)), np.ones(64, np.float32))
    wide = 2 * host_target().lanes(32)
    assert f"alloca <{wide} x float>" in executable.code.llvm
    assert executable.image == assembled(executable.code.llvm)


def test_what_is_not_understood_is_llvms() -> None:
    x = np.arange(-9, 9, dtype=np.int64)
    with override(code_generator="kiln", enable_x64=True):
        executable = compiled(lambda x: lax.div(x, jnp.full_like(x, 3)), x)
    assert assembled(executable.code.llvm) is None
    assert is_llvms(executable)
    assert run(executable, x) == np.trunc(x / 3).astype(np.int64).tobytes()


def test_jitted_functions_change_too(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []
    monkeypatch.setattr(executables, "assemble", lambda text: texts.append(text) or assemble(text))
    fun = kiln.jit(lambda x: jnp.exp(x) + 1, donate_argnums=0)
    expected = np.exp(X) + 1
    for _ in range(2 * few):
        np.testing.assert_allclose(fun(jnp.asarray(X)), expected, rtol=1e-6)
    assert len(texts) == 1


@pytest.mark.parametrize("error", [RuntimeError, MemoryError, ImportError])
def test_the_code_at_hand_stays_if_llvm_fails(
    few: int, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    asked = []

    def fail(text: str) -> bytes:
        asked.append(text)
        raise error("no")

    monkeypatch.setattr(executables, "assemble", fail)
    executable = compiled()
    expected = run(executable)
    for _ in range(3 * few):
        assert run(executable) == expected
    assert len(asked) == 1


def test_an_interrupt_ends_the_call_and_the_next_one_asks_again(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(text: str) -> bytes:
        monkeypatch.undo()
        raise KeyboardInterrupt

    executable = compiled()
    monkeypatch.setattr(executables, "assemble", interrupted)
    expected = run(executable)
    for _ in range(few - 2):
        run(executable)
    with pytest.raises(KeyboardInterrupt):
        run(executable)
    assert not is_llvms(executable)
    assert run(executable) == expected
    assert is_llvms(executable)


def test_a_program_that_is_written_otherwise_keeps_its_code(
    few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is written again must be the same, or its buffers might lie elsewhere."""
    executable = compiled()
    other = compiled(lambda x: x - 1)
    monkeypatch.setattr(executable.code, "source", other.code.source)
    expected = run(executable)
    for _ in range(2 * few):
        assert run(executable) == expected


def test_threads_meet_the_change(few: int) -> None:
    executable = compiled(lambda x: jnp.sin(x) * 2)
    expected = run(executable)
    wrong: list[bytes] = []

    def work() -> None:
        wrong.extend(found for _ in range(50) if (found := run(executable)) != expected)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert is_llvms(executable)


def test_a_program_that_calls_itself_meanwhile(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    executable = compiled()
    expected = run(executable)
    inside: list[bytes] = []

    def assemble_and_call(text: str) -> bytes:
        inside.append(run(executable))
        return assemble(text)

    monkeypatch.setattr(executables, "assemble", assemble_and_call)
    for _ in range(2 * few):
        assert run(executable) == expected
    assert inside == [expected]


@forks_beside_threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_the_child_of_a_fork_asks_llvm_itself(few: int) -> None:
    executable = compiled()
    expected = run(executable)
    child = os.fork()
    if child == 0:
        same = all(run(executable) == expected for _ in range(2 * few))
        os._exit(0 if same and is_llvms(executable) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not is_llvms(executable)


def test_named_sizes_share_what_llvm_made(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generation, "calls_before_llvm", lambda *_: few)
    texts: list[str] = []
    monkeypatch.setattr(executables, "assemble", lambda text: texts.append(text) or assemble(text))
    fun = kiln.jit(lambda x: jnp.exp(x) + 1, abstracted_axes=("n",))
    for _ in range(2 * few):
        for n in (3, 20, 37):
            np.testing.assert_allclose(fun(X[:n]), np.exp(X[:n]) + 1, rtol=1e-6)
    assert len(texts) == 1


def test_what_is_stored_is_llvms() -> None:
    executable = compiled()
    assert not is_llvms(executable)
    compiler = NativeCompiler()
    stored = compiler.serialize(executable)
    assert is_llvms(executable)
    again = compiler.load(executable.program, stored)
    assert again.image == executable.image
    assert run(again) == run(executable)


SHORT = """
import sys, kiln, kiln.numpy as jnp
f = kiln.jit(lambda x, y: jnp.where(x > 0, jnp.tanh(x @ y), jnp.sum(x)))
print(float(f(jnp.ones((8, 8)), jnp.ones((8, 8)))[0, 0]))
print(*[name for name in sys.modules if "llvm" in name and "engines" not in name])
"""


def test_a_process_of_short_programs_does_not_load_llvm() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SHORT], capture_output=True, text=True, check=True, timeout=100
    )
    number, modules = done.stdout.split("\n")[:2]
    assert float(number) == pytest.approx(1.0)
    assert modules == ""
