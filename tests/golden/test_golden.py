"""Programs as text: one file each with the Python, its jaxprs, and what goes to the compiler.

The files are reviewed like code. `pytest tests/golden --update-golden` writes them again.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core.engines import engine
from kiln.ir.sizes.size import names
from tests.golden.programs import PROGRAMS, Program

HERE = Path(__file__).parent


@pytest.fixture(autouse=True)
def _as_in_the_files() -> Iterator[None]:
    with override(engine="xla", enable_x64=False, threefry_partitionable=False):
        yield


def _stacked(x: Any) -> Any:
    return jnp.stack([x, x])


def _source(function: Callable[..., Any]) -> str:
    text = textwrap.dedent(inspect.getsource(function)).strip()
    return text[text.index("def ") :]


def _sections(program: Program) -> Iterator[tuple[str, Callable[[], str]]]:
    function, args = program.function, program.args
    yield "python", lambda: _source(function)
    yield "jaxpr", lambda: str(kiln.make_jaxpr(function)(*args))
    if program.gradient:
        gradient = kiln.grad(lambda *xs: jnp.sum(function(*xs)))
        yield "jaxpr of grad", lambda: str(kiln.make_jaxpr(gradient)(*args))
    rows = [_stacked(x) for x in args]
    yield "jaxpr of vmap", lambda: str(kiln.make_jaxpr(kiln.vmap(function))(*rows))
    yield "loops", lambda: kiln.jit(function).lower(*args).as_text("loops").strip()
    if program.axes is not None:
        yield "loops for all sizes", lambda: _loops_for_all_sizes(program)
    yield "stablehlo", lambda: kiln.jit(function).lower(*args).as_text().strip()


def _loops_for_all_sizes(program: Program) -> str:
    traced = kiln.jit(program.function, abstracted_axes=program.axes).trace(*program.args)
    jaxpr = traced.jaxpr.jaxpr
    sizes = names(*[n for v in jaxpr.invars for n in v.aval.shape])
    named = engine.Program(jaxpr, program.function.__name__, sizes=sizes)
    return engine.engine("native").compiler.text(named, "loops").strip()


def text_of(program: Program) -> str:
    """Return the golden text of a program."""
    parts = [f"-- {title} --\n{make()}" for title, make in _sections(program)]
    return "\n\n".join(parts) + "\n"


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name: str, request: pytest.FixtureRequest) -> None:
    path = HERE / f"{name}.txt"
    found = text_of(PROGRAMS[name])
    if request.config.getoption("--update-golden"):
        path.write_text(found, encoding="utf-8")
    assert path.exists(), "run pytest tests/golden --update-golden, and read the new file"
    assert found == path.read_text(encoding="utf-8"), (
        f"{path.name} differs; if the change is meant, run pytest tests/golden --update-golden"
    )


def test_no_file_is_left_over() -> None:
    assert sorted(path.stem for path in HERE.glob("*.txt")) == sorted(PROGRAMS)
