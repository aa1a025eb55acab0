"""Programs for sizes of named axes: which of them share one code, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.execution.compilation import CachedProgram, on_compile
from kiln.execution.sized_programs import ProgramForSizes, compile_for_sizes
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.specialize import specialize

AXES = ({0: "n"},)


@pytest.fixture(autouse=True)
def _native() -> Iterator[None]:
    with override(engine="native"):
        yield


def general(f: Any) -> Jaxpr:
    found = kiln.jit(f, abstracted_axes=AXES).trace(np.ones(3, np.float32)).jaxpr.jaxpr
    assert isinstance(found, Jaxpr)
    return found


def compiled(jaxpr: Jaxpr, n: int) -> CachedProgram | str:
    return compile_for_sizes(jaxpr, "f", {"n": n}, specialize(jaxpr, {"n": n}).out_avals)


def test_programs_for_several_sizes_run_one_executable() -> None:
    names: list[str] = []
    stop = on_compile(lambda name, seconds: names.append(name))
    jaxpr = general(lambda x: x * 11)
    try:
        programs = [compiled(jaxpr, n) for n in (2, 3, 2)]
        again = compiled(general(lambda x: x * 11), 4)
    finally:
        stop()
    assert names == ["f"]
    assert all(isinstance(each, ProgramForSizes) for each in (*programs, again))
    assert len({each.base for each in (*programs, again)}) == 1  # type: ignore[union-attr]
    for n, program in zip((2, 3, 2), programs, strict=True):
        x = np.arange(n, dtype=np.float32)
        (found,) = program([from_host(x)])  # type: ignore[operator]
        np.testing.assert_array_equal(found, 11 * x)


def test_a_program_is_loaded_again_after_it_was_evicted() -> None:
    program = compiled(general(lambda x: x * 13), 3)
    assert isinstance(program, ProgramForSizes)
    program.base.unload()
    assert not program.is_loaded
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(program([from_host(x)])[0], 13 * x)
    assert program.is_loaded
    assert program.load().size_in_bytes() == program.base.size
    program.pin()
    assert program.base.pinned


@pytest.mark.parametrize("engine", ["xla", "reference"])
def test_other_engines_compile_for_each_size(engine: str) -> None:
    with override(engine=engine):
        assert (
            compiled(general(lambda x: x * 2), 3) == f"the engine {engine} compiles for each size"
        )


def test_reasons_to_compile_for_one_size() -> None:
    jaxpr = general(lambda x: x * 2)
    assert compile_for_sizes(jaxpr, "f", {"n": 0}, jaxpr.out_avals) == "a size is 0"
    huge = compile_for_sizes(jaxpr, "f", {"n": 1 << 61}, jaxpr.out_avals)
    assert huge == "array is too big"


def test_an_array_without_addresses_is_an_error_as_ever() -> None:
    f = kiln.jit(lambda x: jnp.zeros((x.shape[0], 1 << 60), jnp.float32), abstracted_axes=AXES)
    with pytest.raises(ValueError, match="array is too big"):
        f(np.ones(3, np.float32))
