"""Options: environment, global and per-thread values, keys."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading

import pytest

import kiln
from kiln.base.options import config as module
from kiln.base.options.config import Options, config, options, options_of_key, override
from kiln.base.records import metadata_of


def test_key_changes_with_marked_options_only() -> None:
    assert Options(enable_x64=True).key() != Options().key()
    assert Options(explain=True).key() == Options().key()


def test_which_options_are_in_no_key() -> None:
    # Whatever else a function reads while it is recorded, or a compiler while it compiles, is.
    of_processes = "num_cpu_devices num_threads thread_guard no_tracing no_execution default_device"
    of_processes += " share_compiled share_compiled_timeout collective_timeout"
    of_processes += " straggler_seconds"
    of_caches = "executable eager body disk trace"
    of_reports = "dump dump_only dump_dir explain log_compiles progress perf check trace_warning"
    left_out = {
        *of_processes.split(),
        *(f"{name}_cache_mb" for name in of_caches.split()),
        *of_reports.split(),
        *(name for name in vars(options()) if name.startswith("transfer_guard")),
        *("jit", "content", "python_call", "cache_dir", "disk_cache", "debug_key_reuse"),
        *("full_traceback", "traceback_filtering", "legacy_prng_key"),
    }
    fields = metadata_of(Options)
    assert {name for name, field in fields.items() if not field["in_key"]} == left_out
    assert options_of_key(options().key()).keys() == fields.keys() - left_out


def test_override_nests_and_ends() -> None:
    with override(enable_x64=True):
        with override(debug_nans=True):
            assert (options().enable_x64, options().debug_nans) == (True, True)
        assert (options().enable_x64, options().debug_nans) == (True, False)
    assert not options().enable_x64


def test_override_is_of_this_thread_only() -> None:
    seen = []
    with override(enable_x64=True):
        thread = threading.Thread(target=lambda: seen.append(options().enable_x64))
        thread.start()
        thread.join()
    assert seen == [False]


def test_update_reaches_threads_inside_an_override() -> None:
    with override(debug_nans=True):
        config.update("explain", True)
        try:
            assert options().explain
            assert options().debug_nans
        finally:
            config.update("explain", False)


@pytest.mark.parametrize(
    ("alias", "field", "value"),
    [("jax_enable_x64", "enable_x64", True), ("jax_default_matmul_precision", None, "highest")],
)
def test_aliases(alias, field, value) -> None:
    before = config.read(alias)
    config.update(alias, value)
    try:
        assert getattr(config, alias) == value
        assert getattr(options(), field or "default_matmul_precision") == value
    finally:
        config.update(alias, before)


def test_disable_jit_is_the_opposite_of_jit() -> None:
    config.update("jax_disable_jit", True)
    try:
        assert not options().jit
        assert config.jax_disable_jit
    finally:
        config.update("jax_disable_jit", False)


def test_unknown_options() -> None:
    with pytest.raises(AttributeError, match="there is no option"):
        config.update("jax_no_such", 1)
    with pytest.raises(AttributeError, match="no_such"):
        config.read("no_such")


def test_environment() -> None:
    code = (
        "from kiln.base.options.config import options; o = options(); print(o.check, o.dump, o.jit)"
    )
    env = {"KILN_CHECK": "1", "KILN_DUMP": "jaxpr", "KILN_JIT": "0"}
    out = subprocess.run(
        [sys.executable, "-c", code],
        env={**dict(__import__("os").environ), **env},
        capture_output=True,
        text=True,
        check=True,
    )
    assert out.stdout.split() == ["True", "jaxpr", "False"]


def test_every_alias_names_a_field() -> None:
    assert {field for field, *_ in module.ALIASES.values()} <= set(module._TYPES)


def test_the_same_changes_are_the_same_options() -> None:
    found = []
    for x64 in (True, False, True, 1):
        with override(enable_x64=x64), override(check=False):
            found.append(options())
    assert found[0] is found[2]
    assert found[0] is not found[1]
    assert found[0] is not found[3]
    with override(default_device=[]):
        assert options().default_device == []


def test_interrupts_leave_no_option_changed() -> None:
    # The first use loads XLA, which an interrupt ends with a signal.
    device = kiln.devices()[0]
    before = options()
    previous = signal.signal(signal.SIGALRM, signal.default_int_handler)
    draw = random.Random(0)
    try:
        for _ in range(50):
            try:
                signal.setitimer(signal.ITIMER_REAL, draw.uniform(2e-4, 3e-3))
                while True:
                    with (
                        kiln.enable_x64(True),
                        kiln.default_device(device),
                        kiln.default_matmul_precision("float32"),
                        kiln.log_compiles(False),
                        kiln.disable_jit(),
                    ):
                        pass
            except KeyboardInterrupt:
                pass
            assert options() is before
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def test_a_context_left_restores_what_its_thread_had() -> None:
    before = options()
    outer, forgotten = override(enable_x64=True), override(debug_nans=True)
    outer.__enter__()
    forgotten.__enter__()
    outer.__exit__(None, None, None)
    assert options() is before
    forgotten.__exit__(None, None, None)
    assert options() is before


def test_a_context_may_be_entered_again_and_is_a_decorator() -> None:
    before = options()
    context = override(enable_x64=True)
    with context, override(enable_x64=False), context:
        assert options().enable_x64
    assert options() is before

    @context
    def recurse(depth: int) -> bool:
        return recurse(depth - 1) if depth else options().enable_x64

    assert recurse(3)
    assert options() is before


def test_a_context_left_on_another_thread_changes_nothing_there() -> None:
    context = override(enable_x64=True)
    with context:
        thread = threading.Thread(target=context.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        assert options().enable_x64
    assert not options().enable_x64
