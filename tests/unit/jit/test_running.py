"""An entry is run, or becomes an equation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.options.config import options, override
from kiln.core.arrays.array import from_host
from kiln.jit.running import arranged, bind, run

ONES = from_host(np.ones(3, np.float32))


def entry_of(fun: Any, *args: Any) -> Any:
    return kiln.jit(fun).entry_for(args, {})


def test_run_prepares_once() -> None:
    entry = entry_of(lambda x: {"a": x * 2}, ONES)
    with override(engine="reference"):
        outs = run(entry, [ONES], options())
        direct = entry.placer.direct
        assert direct is not None and entry.history.compile_seconds > 0
        run(entry, [ONES], options())
    assert entry.placer.direct is direct
    np.testing.assert_array_equal(arranged(entry, outs)["a"], [2, 2, 2])


def test_arrays_elsewhere_run_elsewhere() -> None:
    entry = entry_of(lambda x: x * 2, ONES)
    run(entry, [ONES], options())
    moved = kiln.device_put(np.ones(3, np.float32), kiln.devices()[1])
    (out,) = run(entry, [moved], options())
    assert out.devices() == {kiln.devices()[1]}


def test_an_entry_becomes_one_equation_or_its_own() -> None:
    entry = entry_of(lambda x: x * 2, ONES)
    as_call = kiln.make_jaxpr(lambda x: bind(entry, [x]))(ONES)
    assert [eqn.primitive.name for eqn in as_call.eqns] == ["jit"]
    inline = kiln.make_jaxpr(lambda x: bind(entry, [x], inline=True))(ONES)
    assert [eqn.primitive.name for eqn in inline.eqns] == ["mul"]


def test_compiler_options_are_for_whole_programs() -> None:
    entry = entry_of(lambda x: x * 2, ONES)
    settings = (("xla_cpu_enable_fast_math", True),)
    with pytest.raises(ValueError, match="xla_cpu_enable_fast_math"):
        kiln.make_jaxpr(lambda x: bind(entry, [x], settings=settings))(ONES)
