"""The miss: in which order files are passed, and what is kept."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import kiln
from kiln import lax
from kiln.api.jit import wrap
from kiln.base.options.config import override

ROOT = Path(kiln.__file__).parent
SOURCE = str(ROOT / "base" / "source.py")


def entrances(call: Any) -> dict[str, list[str]]:
    """Return the functions by which a call enters each file of kiln from another one."""
    found: dict[str, list[str]] = {}
    stack: list[str] = [""]

    def note(frame: Any, event: str, _: Any) -> None:
        if event == "call":
            file = frame.f_code.co_filename
            is_inner = frame.f_code.co_name.startswith("<")
            if file == SOURCE:
                file = stack[-1]  # `api_boundary` calls what it wraps.
            if not is_inner and file != stack[-1] and file.startswith(str(ROOT)):
                name = str(Path(file).relative_to(ROOT))
                found.setdefault(name, []).append(frame.f_code.co_name)
            stack.append(file)
        elif event == "return" and len(stack) > 1:
            stack.pop()

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return found


def test_a_first_call_goes_forward_only() -> None:
    """A file is passed once going down and once coming back, and no function of it twice."""
    x = kiln.numpy.arange(4.0)
    wrap(lambda x: x - 1)(x)
    f = wrap(lambda x: lax.mul(lax.sin(x), x))
    found = entrances(lambda: f(x))
    assert found["jit/function.py"] == ["_call"]
    assert found["jit/lookup.py"] == ["miss"]
    assert found["jit/recorder.py"] == ["record"]
    assert found["jit/tracing.py"] == ["trace", "flat"]  # The second when the function is called.
    assert found["jit/history.py"] == ["__init__", "begin", "end"]
    assert found["jit/cache.py"] == ["recordings_of", "find", "share", "keep"]
    assert found["jit/running.py"] == ["run", "arranged"]
    assert found["execution/placement.py"][0] == "__init__"
    for name, functions in found.items():
        if name.startswith("jit/") and name not in LEAVES:
            assert len(functions) == len(set(functions)), (name, functions)


# Types, names and signatures are values: users read them from there.
LEAVES = (
    "jit/signatures/argument_types.py",
    "jit/entry.py",
    "jit/signatures/signature.py",
    "jit/signatures/parameters.py",
)


def test_a_hit_enters_no_file() -> None:
    x = kiln.numpy.arange(4.0)
    f = wrap(lambda x: lax.mul(lax.sin(x), x))
    with override(engine="xla"):
        f(x), f(x)
        assert entrances(lambda: f(x)) == {}


def test_what_is_recorded_under_a_trace_is_not_kept() -> None:
    made = []

    def outer(a: Any) -> Any:
        made.append(wrap(lambda x: lax.mul(x, a)))
        return made[-1](2.0)

    assert kiln.grad(outer)(3.0) == 2
    lookup = made[0]._lookup
    assert lookup.entries == {} and lookup.table() == {} and lookup.size() == 0


def test_a_signature_known_to_another_wrapper_is_not_traced() -> None:
    traces = []

    def f(x: Any) -> Any:
        traces.append(1)
        return x

    first, second = wrap(f), wrap(f)
    first(np.ones(2, "f4"))
    second(np.ones(2, "f4"))
    assert len(traces) == 1
    info = second.cache_info()
    assert (info.misses, info.traces) == (2, 1)


def test_types_alone_are_no_miss() -> None:
    f = wrap(lambda x: x)
    f.lower(np.ones(2, "f4"))
    assert f.cache_info()[:2] == (0, 1)
