"""Names of compiled code for gdb: what is registered, and what a debugger shows."""

from __future__ import annotations

import ctypes
import gc
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime
from kiln.base.options.config import override
from kiln.engines.native.executables import gdb_symbols, perf_map
from kiln.engines.native.executables.perf_map import Function

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="objects are ELF")


class Entry(ctypes.Structure):
    """`jit_code_entry` of gdb's interface."""


Entry._fields_ = [
    ("next", ctypes.POINTER(Entry)),
    ("previous", ctypes.POINTER(Entry)),
    ("image", ctypes.c_void_p),
    ("size", ctypes.c_uint64),
]


class Descriptor(ctypes.Structure):
    """`jit_descriptor` of gdb's interface."""

    _fields_ = (
        ("version", ctypes.c_uint32),
        ("action", ctypes.c_uint32),
        ("relevant", ctypes.POINTER(Entry)),
        ("first", ctypes.POINTER(Entry)),
    )


def registered() -> Iterator[bytes]:
    """Iterate over the objects that a debugger finds in this process."""
    library = ctypes.CDLL(_runtime.__file__)
    assert library.__jit_debug_register_code
    descriptor = Descriptor.in_dll(library, "__jit_debug_descriptor")
    assert descriptor.version == 1
    entry, before = descriptor.first, None
    while entry:
        found = entry.contents
        behind = ctypes.addressof(found.previous.contents) if found.previous else None
        assert behind == before
        before = ctypes.addressof(found)
        yield ctypes.string_at(found.image, found.size)
        entry = found.next


def symbols_of(image: bytes) -> dict[str, tuple[int, int]]:
    """Return the addresses and sizes of the functions of an object whose sections have a place."""
    (start,) = struct.unpack_from("<Q", image, 40)
    found = {}
    for each in perf_map.functions(image):
        (base,) = struct.unpack_from("<Q", image, start + 64 * each.section + 16)
        found[each.name] = (base + each.offset, each.size)
    return found


def is_code(address: int, size: int) -> bool:
    """Tell whether memory of the process may be executed."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, rights, *_ = line.split()
        begin, end = (int(place, 16) for place in places.split("-"))
        if begin <= address and address + size <= end:
            return "x" in rights
    return False


def of_program(name: str) -> list[dict[str, tuple[int, int]]]:
    found = map(symbols_of, registered())
    return [each for each in found if any(f"kiln.{name}." in symbol for symbol in each)]


def test_functions_are_registered_at_their_addresses_as_long_as_their_code_lives() -> None:
    def shown_in_gdb(x: kiln.Array) -> kiln.Array:
        return jnp.sin(x).sum(0) + jnp.sort(x, 0)

    def compiled() -> kiln.stages.Compiled:
        return kiln.jit(shown_in_gdb).lower(jnp.ones((300, 300))).compile()

    hidden = compiled()
    assert of_program("shown_in_gdb") == []
    del hidden
    kiln.clear_caches()
    with override(gdb=True):
        held = compiled()
    code = held.runtime_executable().code
    (symbols,) = of_program("shown_in_gdb")
    address, size = symbols["kiln.shown_in_gdb.kiln_entry"]
    assert address == code.owner.address
    assert size > 0
    assert any("nest" in name for name in symbols)
    assert all(is_code(*place) for place in symbols.values())
    del held, code
    kiln.clear_caches()
    gc.collect()
    assert of_program("shown_in_gdb") == []


def test_entries_leave_the_list_in_any_order() -> None:
    def made(name: str) -> object:
        functions = [Function("kiln_entry", 4096, 16), Function("nest0", 4112, 8)]
        return gdb_symbols.register(name, functions, 62)

    held = {name: made(name) for name in ("a1", "b2", "c3", "d4")}
    assert of_program("b2") == [{"kiln.b2.kiln_entry": (4096, 16), "kiln.b2.nest0": (4112, 8)}]
    for name in ("b2", "d4", "a1", "c3"):
        assert of_program(name)
        del held[name]
        assert not of_program(name)
        assert all(of_program(other) for other in held)


def test_only_bytes_are_registered() -> None:
    with pytest.raises(TypeError):
        _runtime.register_symbols("text")  # type: ignore[arg-type]


SCRIPT = """
import faulthandler, os, signal
import kiln, kiln.numpy as jnp

def stopped(x):
    os.kill(os.getpid(), signal.SIGTRAP)
    return x

def watched_program(x):
    y = jnp.sort(jnp.sin(x) * 2, 0)
    return kiln.pure_callback(stopped, kiln.ShapeDtypeStruct((64,), "float32"), y) + 1

kiln.jit(watched_program)(jnp.ones(64, "float32"))
"""


@pytest.mark.skipif(shutil.which("gdb") is None, reason="gdb is not installed")
def test_gdb_shows_names(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SCRIPT)
    asked = ["run", "backtrace 200", "info symbol 'kiln.watched_program.kiln_entry'"]
    commands = [part for command in asked for part in ("-ex", command)]
    done = subprocess.run(
        ["gdb", "--batch", "-nx", *commands, "--args", sys.executable, str(path)],
        env={**os.environ, "KILN_GDB": "1", "KILN_NUM_THREADS": "1", "DEBUGINFOD_URLS": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if "ptrace" in done.stderr or "Could not trace" in done.stderr:
        pytest.skip("processes must not be traced here")
    assert "SIGTRAP" in done.stdout, done.stdout + done.stderr
    assert "kiln.watched_program.kiln_entry in section .text" in done.stdout
    # Frames of compiled code lead to those of the interpreter.
    stack = done.stdout[done.stdout.index("in kiln.watched_program.kiln_entry") :]
    assert "kiln::run_program" in stack
    assert "PyEval" in stack
