"""Options by JAX's names: those that are kiln's, and those that are refused or warned of."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

import kiln
from kiln.base.options.config import config, options
from kiln.base.options.jax_options import FOREIGN
from kiln.base.options.names import ALIASES, checked
from kiln.errors import UnavailableOptionError
from kiln.execution.disk_cache import chosen_path

# What users of JAX set most, by the names of `jax.config` and of contexts.
SET_MOST = """
    jax_enable_x64 jax_debug_nans jax_debug_infs jax_disable_jit jax_check_tracer_leaks
    jax_log_compiles jax_explain_cache_misses jax_default_matmul_precision jax_default_device
    jax_default_prng_impl jax_threefry_partitionable jax_numpy_rank_promotion
    jax_numpy_dtype_promotion jax_platforms jax_platform_name jax_num_cpu_devices
    jax_compilation_cache_dir jax_persistent_cache_min_compile_time_secs jax_traceback_filtering
    jax_transfer_guard jax_debug_key_reuse jax_enable_checks jax_enable_custom_prng
    jax_softmax_custom_jvp jax_logging_level jax_use_shardy_partitioner
    jax_cpu_enable_async_dispatch
"""
WAYS = ("host_to_device", "device_to_device", "device_to_host")
CONTEXTS: dict[str, Any] = {
    "checking_leaks": True,
    "debug_infs": True,
    "debug_key_reuse": True,
    "debug_nans": True,
    "default_device": "cpu",
    "default_matmul_precision": "highest",
    "default_prng_impl": "threefry2x32",
    "allow_f16_reductions": False,
    "enable_custom_prng": True,
    "no_execution": True,
    "no_tracing": True,
    "softmax_custom_jvp": True,
    "jax2tf_associative_scan_reductions": True,
    "thread_guard": True,
    "disable_jit": True,
    "enable_checks": True,
    "enable_x64": True,
    "explain_cache_misses": False,
    "log_compiles": False,
    "numpy_dtype_promotion": "strict",
    "numpy_rank_promotion": "raise",
    "threefry_partitionable": True,
    "transfer_guard": "allow",
}


@pytest.mark.parametrize("name", SET_MOST.split())
def test_what_users_set_most_can_be_read_and_set_to_what_it_is(name: str) -> None:
    value = getattr(config, name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.update(name, value)
    assert config.read(name) == value


@pytest.mark.parametrize("name", CONTEXTS)
def test_contexts_change_options_and_end(name: str) -> None:
    before = options()
    with getattr(kiln, name)(CONTEXTS[name]):
        pass
    assert options() == before


def test_a_name_is_one_of_a_kind() -> None:
    assert not set(ALIASES) & set(FOREIGN)
    for option in FOREIGN.values():
        assert option.why and option.instead and option.values


def test_other_values_are_refused_where_they_change_results() -> None:
    for name, value in (
        ("jax_platforms", "cuda"),
        ("jax_array_garbage_collection_guard", "log"),
        ("jax_enable_recoverability", True),
    ):
        with pytest.raises(UnavailableOptionError, match=rf"{name}[\s\S]*test_names\.py:"):
            config.update(name, value)


def test_other_values_are_warned_of_where_they_do_not() -> None:
    with pytest.warns(UserWarning, match="block_until_ready") as caught:
        config.update("jax_cpu_enable_async_dispatch", False)
    assert caught[0].filename == __file__
    assert config.jax_cpu_enable_async_dispatch is True


def test_options_of_speed_and_text_are_warned_of() -> None:
    for name, value, instead in (
        ("jax_optimization_level", "O0", "leave it out"),
        ("jax_dump_ir_to", "/tmp", "KILN_DUMP_DIR"),
        ("jax_persistent_cache_min_entry_size_bytes", 10, "disk_cache_mb"),
        ("jax_cuda_visible_devices", "0", "lowering_platforms"),
    ):
        with pytest.warns(UserWarning, match=instead):
            config.update(name, value)


def test_the_cache_on_disk_is_spelled_as_in_jax() -> None:
    before = options().cache_dir
    try:
        config.update("jax_compilation_cache_dir", "/tmp/cache")
        assert options().cache_dir == config.jax_compilation_cache_dir == "/tmp/cache"
        config.update("jax_compilation_cache_dir", None)
        assert options().cache_dir == "auto"
        assert config.jax_compilation_cache_dir is None
    finally:
        config.update("cache_dir", before)


def test_the_size_of_the_cache_and_whether_there_is_one_are_spelled_as_in_jax() -> None:
    before = options().disk_cache_mb
    try:
        for size, mb, read in ((2**21, 2, 2**21), (1, 1, 2**20), (0, 0, 0)):
            config.update("jax_compilation_cache_max_size", size)
            assert options().disk_cache_mb == mb
            assert config.jax_compilation_cache_max_size == read
        config.update("jax_compilation_cache_max_size", -1)
        assert config.jax_compilation_cache_max_size == -1
    finally:
        config.update("disk_cache_mb", before)
    assert config.jax_enable_compilation_cache
    config.update("jax_enable_compilation_cache", False)
    try:
        assert chosen_path() is None
    finally:
        config.update("jax_enable_compilation_cache", True)


def test_options_that_say_nothing_take_any_value_and_keep_it() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        config.update("jax_use_direct_linearize", False)
        assert config.jax_use_direct_linearize is False
        config.update("jax_use_direct_linearize", True)
    assert config.jax_use_direct_linearize is True


def test_options_are_not_assigned() -> None:
    with pytest.raises(AttributeError, match=r"config\.update\('jax_enable_x64', True\)"):
        config.jax_enable_x64 = True
    assert not config.x64_enabled


def test_the_guard_of_all_transfers_is_that_of_each_direction() -> None:
    directions = [f"jax_transfer_guard_{way}" for way in WAYS]
    try:
        config.update("jax_transfer_guard", "log")
        assert [config.read(name) for name in directions] == ["log"] * 3
        config.update(directions[0], "allow")
        assert config.jax_transfer_guard == "log"
        with kiln.transfer_guard("disallow"):
            assert [config.read(name) for name in directions] == ["disallow"] * 3
            with kiln.transfer_guard_host_to_device(None):
                assert [config.read(name) for name in directions] == [None, *["disallow"] * 2]
        assert [config.read(name) for name in directions] == ["allow", "log", "log"]
    finally:
        config.update("jax_transfer_guard", None)
    assert [config.read(name) for name in directions] == [None] * 3


def test_no_guard_leaves_the_options_plain() -> None:
    assert options().plain_places
    for level in (None, "allow"):
        with kiln.transfer_guard(level):
            assert options().plain_places
            assert not options().guards_transfers
    # On the CPU nothing is transferred to the host.
    with kiln.transfer_guard_device_to_host("disallow_explicit"):
        assert options().plain_places
    for guard in (kiln.transfer_guard_host_to_device, kiln.transfer_guard_device_to_device):
        with guard("log_explicit"):
            opts = options()
            assert opts.guards_transfers
            assert not (opts.plain or opts.plain_eager or opts.remembers_calls)


def test_tracebacks_are_spelled_as_in_jax() -> None:
    assert config.jax_traceback_filtering == "auto"
    config.update("jax_traceback_filtering", "off")
    try:
        assert options().traceback_filtering == "off"
        assert config.jax_traceback_filtering == "off"
    finally:
        config.update("jax_traceback_filtering", "auto")
    with pytest.raises(ValueError, match="no value 'some'"):
        config.update("jax_traceback_filtering", "some")


def test_values_of_options_with_few_are_checked() -> None:
    assert checked("numpy_rank_promotion", "warn") == "warn"
    assert checked("dump", "anything") == "anything"
    for set_it in (
        lambda: config.update("jax_numpy_rank_promotion", "never"),
        lambda: config.update("numpy_dtype_promotion", "never"),
        lambda: kiln.numpy_rank_promotion("never"),
        lambda: kiln.numpy_dtype_promotion("never"),
        lambda: config.update("jax_transfer_guard", "never"),
        lambda: kiln.transfer_guard("never"),
        lambda: kiln.transfer_guard_host_to_device("never"),
    ):
        with pytest.raises(ValueError, match=r"'never'[\s\S]*use one of: '"):
            set_it()
