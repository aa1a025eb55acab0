"""What programs with named sizes tell of themselves: memory, costs, picture, profile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.core.engines.engine import Program, engine
from kiln.engines.native.executables.sized import SizedExecutable
from kiln.engines.native.reports.profiling import trace
from kiln.ir.sizes.size import symbol
from tests.unit.engines.native.reports.test_picture import svg_of, texts_of

AXES = ({0: "n"},)


def table(n: int) -> np.ndarray:
    return np.random.RandomState(n).randn(n, 3).astype(np.float32)


def swapped(x: Any) -> Any:
    return lax.fori_loop(0, 7, lambda _, c: (c[1], c[0] + 1), (x, jnp.sin(x)))


def model(x: Any) -> Any:
    y = jnp.sort(jnp.sin(x) * 2, 0)
    return lax.scan(lambda c, _: (jnp.cumsum(c, 0), None), y, None, length=5)[0], y.sum()


def sized(f: Any) -> SizedExecutable:
    general = kiln.jit(f, abstracted_axes=AXES).trace(table(3)).jaxpr.jaxpr
    found = engine("native").compiler.compile(Program(general, f.__name__, sizes=("n",)))
    assert isinstance(found, SizedExecutable)
    return found


# Memory.


def test_memory_by_names_and_for_the_sizes_asked_for() -> None:
    f = kiln.jit(swapped, abstracted_axes=AXES)
    lines = f.explain_memory(table(8)).splitlines()
    assert lines[:4] == [
        "swapped takes 12*n bytes of arguments and gives 24*n bytes of results",
        "no result lies where an argument was donated",
        "with 0 bytes of workspace a call needs 36*n bytes at the peak",
        "for n = 8: 96 bytes of arguments, 192 bytes of results, 0 bytes of workspace, 288 bytes "
        "at the peak",
    ]
    assert "  %i0: f32[3*n], 12*n bytes" in lines
    copies = lines[lines.index("copies:") + 1 :]
    assert all(line.startswith("  12*n bytes to %") for line in copies)
    assert "for n = 3: 36 bytes of arguments" in f.lower(table(3)).compile().explain_memory()
    assert sized(swapped).explain_memory().splitlines() == lines[:3] + lines[4:]


def test_temporaries_that_share_memory() -> None:
    def several(x: Any) -> Any:
        for _ in range(4):
            x = jnp.sort(jnp.cumsum(x, 0), 0)
        return x.sum(0)

    text = kiln.jit(several, abstracted_axes=AXES).explain_memory(table(100))
    temporaries = [line for line in text.splitlines() if "; at " in line]
    assert len(temporaries) >= 2
    assert any("is at other times" in line for line in temporaries)
    assert any("; at 64*((3*n+15)//16), where %t" in line for line in temporaries)


def test_donated_memory_has_a_name() -> None:
    f = kiln.jit(lambda x: x + 1, abstracted_axes=AXES, donate_argnums=0)
    text = f.explain_memory(table(5))
    assert "12*n bytes of the results lie where arguments were donated" in text
    assert "for n = 5: 60 bytes of arguments, 60 bytes of results" in text
    assert "60 bytes at the peak" in text


# Costs.


def test_costs_are_sizes_or_numbers() -> None:
    n = symbol("n")
    made = sized(lambda x: x * 2 + 1)
    assert made.cost_analysis() == {"flops": 6 * n, "bytes accessed": 24 * n}
    memory = made.memory_analysis()
    assert memory.argument_size_in_bytes == memory.output_size_in_bytes == 12 * n
    five = made.for_sizes([5])
    assert five is not None
    assert five.cost_analysis() == {"flops": 30.0, "bytes accessed": 120.0}
    assert five.memory_analysis().argument_size_in_bytes == 60


def test_costs_of_loops_and_branches() -> None:
    def chosen(x: Any) -> Any:
        longer = lax.cond(x[0, 0] > 0, lambda y: jnp.exp(y * 2), lambda y: y + 1, x)
        return lax.fori_loop(0, x.shape[0], lambda _, c: c + longer, x)

    found = sized(chosen)
    costs = found.cost_analysis()
    for n in (1, 7, 100):
        made = found.for_sizes([n])
        assert made is not None
        known = made.cost_analysis()
        assert known["flops"] >= 3 * n * n
        assert known["bytes accessed"] >= 3 * 4 * n * n
    assert "n**2" in str(costs["flops"]) or "n*n" in str(costs["flops"])


# The picture.


def test_a_picture_by_names() -> None:
    f = kiln.jit(model, abstracted_axes=AXES)
    page = f.lower(table(9)).as_text("html")
    texts = texts_of(svg_of(page))
    assert any("nest 3*n -> %t" in text for text in texts)
    assert any("%i0 12*n bytes" in text for text in texts)
    assert "24*n bytes; 6*n operations; reads %i0" in texts
    assert "taken to be 1,024" in page
    assert page == f.lower(table(9)).compile().as_text("html")
    assert "taken to be" not in kiln.jit(model).lower(table(9)).as_text("html")


# The profile.


def test_a_profile_of_all_calls() -> None:
    with override(profile=True):
        f = kiln.jit(model, abstracted_axes=AXES)
        ahead = f.lower(table(3)).compile()
        for n in (3, 5, 700, 5):
            np.testing.assert_allclose(
                ahead(table(n))[1], jnp.sort(jnp.sin(table(n)) * 2, 0).sum(), rtol=1e-4, atol=1e-4
            )
    table_text = ahead.as_text("profile")
    assert table_text.startswith("model, for all sizes of n: ")
    assert "in 4 calls" in table_text.splitlines()[0]
    profile = ahead.runtime_executable().profile
    outside = [each for each in profile.measured() if each.depth == 0]
    assert {each.runs for each in outside} == {4}
    # Bytes are those of each call, by its sizes.
    first = outside[0]
    assert first.bytes == sum(2 * 12 * n for n in (3, 5, 700, 5))
    assert first.flops == sum(2 * 3 * n for n in (3, 5, 700, 5))
    (inside,) = {each.runs for each in profile.measured() if each.depth == 1}
    assert inside == 20
    events = [each for each in trace()["traceEvents"] if each.get("cat") == "model"]
    found = [each["args"]["bytes"] for each in events if each["name"].startswith("nest")]
    assert {24 * n for n in (3, 5, 700)} <= {*found}
    page = ahead.as_text("html")
    assert " of the time." in page
    assert any(" in 4 runs, " in text for text in texts_of(svg_of(page)))


def test_figures_of_known_sizes() -> None:
    with override(profile=True):
        compiled = kiln.jit(lambda x: x * 3 + 1).lower(table(50)).compile()
        for _ in range(6):
            compiled(table(50))
    (only,) = compiled.runtime_executable().profile.measured()
    assert (only.runs, only.bytes, only.flops) == (6, 6 * 1200, 6 * 300)


SOURCE = """
import numpy as np
import kiln, kiln.numpy as jnp

def model(x):
    y = jnp.sin(x) * 2
    return jnp.sort(y, 0), y.sum()

f = kiln.jit(model, abstracted_axes=({0: "n"},))
for n in (10, 20, 3000):
    f(np.ones((n, 3), np.float32))
"""


def test_figures_at_the_end_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(SOURCE)
    err = subprocess.run(
        [sys.executable, str(path)],
        env={**os.environ, "KILN_DUMP_DIR": str(tmp_path), "KILN_PROFILE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stderr
    assert err.count("model, for all sizes of n: ") == 1
    assert "in 3 calls" in err
    assert "nest 3*n -> %" in err
    (written,) = tmp_path.glob("kiln_profile_*.json")
    events = [each for each in json.loads(written.read_text())["traceEvents"] if each["ph"] == "X"]
    assert len({each["args"]["bytes"] for each in events}) >= 3


def test_stages_that_there_are_not() -> None:
    made = sized(lambda x: x + 41)
    with pytest.raises(ValueError, match="no such stage") as found:
        made.as_text("picture")
    assert len(str(found.value).splitlines()) == 3
    with pytest.raises(ValueError, match="is not instrumented"):
        made.as_text("profile")


def test_products_count_their_multiplications_and_additions():
    x, y = np.ones((3, 64, 32), np.float32), np.ones((3, 32, 16), np.float32)
    for function in (jnp.matmul, lambda x, y: jnp.tanh(x @ y) + 1):
        compiled = kiln.jit(function).lower(x, y).compile()
        assert compiled.cost_analysis()["flops"] >= 2 * 3 * 64 * 32 * 16
