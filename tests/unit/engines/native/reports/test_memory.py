"""Where programs keep their values, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override

X = jnp.ones((64, 64))


def test_three_lines_then_buffers_by_their_names() -> None:
    def f(x: Any, w: Any) -> Any:
        h = jnp.sort(jnp.tanh(x @ w), axis=1)
        return x + 1, lax.scan(lambda c, _: (jnp.sin(c @ w), None), h, None, length=5)[0], w

    jitted = kiln.jit(f, donate_argnums=0)
    lines = jitted.explain_memory(X, X * 1).splitlines()
    assert lines[:3] == [
        "f takes 32 KiB of arguments and gives 48 KiB of results",
        "16 KiB of the results lie where arguments were donated",
        "with 32 KiB of workspace a call needs 80 KiB at the peak",
    ]
    assert "  %o2: f32[4096], 16 KiB; lies where %i0 was donated" in lines
    assert "  %i1: f32[4096], 16 KiB; is the argument itself" in lines
    shared = [line for line in lines if "is at other times" in line]
    assert shared
    assert all("; at 0, where %t" in line for line in shared)
    compiled = jitted.lower(X, X * 1).compile()
    assert compiled.explain_memory() == "\n".join(lines)
    loops = compiled.as_text("loops")
    assert "%o2: f32[4096]" in loops
    assert all(line.split(":")[0].strip() in loops for line in shared)


def test_copies_have_reasons_and_lines() -> None:
    def swapped(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 7, lambda _, c: (c[1], c[0][::-1] + 1), (a, b))

    lines = kiln.jit(swapped).explain_memory(X, X * 1).splitlines()
    copies = lines[lines.index("copies:") + 1 :]
    assert len(copies) == 4
    assert all("test_memory.py:" in line and " in swapped: " in line for line in copies)
    assert copies[0].endswith("an input is never written")
    assert copies[2].endswith("buffers exchange their values")


def test_rows() -> None:
    def f(x: Any) -> Any:
        y = kiln.nn.softmax(x, axis=1)
        return y, y + 1, x + jnp.arange(64.0)

    text = kiln.jit(f).explain_memory(X)
    assert "call needs 64 KiB at the peak" in text
    assert "rows, on the stack of each thread:\n  %r" in text


def test_products_that_are_nowhere_as_a_whole() -> None:
    a, b = np.ones((600, 64), np.float32), np.ones((64, 500), np.float32)
    text = kiln.jit(lambda a, b: jnp.tanh(a @ b)).explain_memory(a, b)
    assert "products, a block of each thread at a time:\n  %b" in text
    assert "workspace" not in text.replace("with 0 bytes of workspace", "")


def test_other_engines() -> None:
    f = kiln.jit(lambda x: x * 2 + 17)
    with override(engine="xla"):
        assert len(f.explain_memory(X).splitlines()) == 3
    with override(engine="reference"), pytest.raises(ValueError, match="plans no memory") as found:
        f.explain_memory(X)
    assert len(str(found.value).splitlines()) == 3
