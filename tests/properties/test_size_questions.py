"""Programs that ask for the values of named sizes mean, for each size, what they mean without names.

Each program is drawn: questions about sizes decide which operations it has. It is called with all
sizes from 0 to 70, and either raises `InconclusiveSizeError` or gives what the same function does
without named axes.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override

SIZES = range(71)

QUESTIONS = (
    *("n == {a}", "n != {a}", "{a} == n", "n % {b} == {a}", "n // {b} == {a}", "n * 2 == {a}"),
    *(
        "n // (y.shape[0] + {b}) == {a}",
        "n % (y.shape[0] + {b}) > {a}",
        "({b} + {c}) // (n + 1) == {a}",
    ),
    *("n in ({a}, {c})", "(n, {a}) == ({c}, {a})", "x.shape == ({a},)", "n - {a} == {c}"),
    *("[{a}, {c}].count(n)", "n == {a} or n == {c}", "n % {b} == 0 and n != {c}", "n == {a}.0"),
    *("divmod(n, {b})[1] == {a}", "n + n == {a}", "x.size == {a}", "len(x.shape) == {a}"),
    *("n == np.int32({a})", "n > {a}", "n <= {a}", "n >= 1", "n", "not n", "min(n, {a}) == {a}"),
    *("y.shape[0] == {a}", "n == y.shape[0]", "y.shape == x.shape", "y.shape[0] - n == {a}"),
    *("{{{a}: 1}}.get(n)", "n in {{{a}, {c}}}", "int(n) == {a}", "list(range(n)) == []"),
    *("x[1:].shape[0] == {a}", "x[::2].shape[0] == {a}", "jnp.concatenate([x, y]).size == {a}"),
)
STEPS = (
    *("x * 2", "x + 1", "jnp.cumsum(x)", "x[::-1]", "x - x.sum()", "-x", "x * n"),
    *("jnp.concatenate([x, y])", "x[1:]", "x[:{a}]", "jnp.roll(x, {a})", "jnp.squeeze(x) + 0 * x"),
    *(
        "x / 2 ** jnp.minimum(x.size, 2)",
        "jnp.where(x > 0.3, x, n)",
        "jnp.sort(x)",
        "x.at[:1].set(3)",
    ),
    *("jnp.pad(x, {b})", "jnp.broadcast_to(x.sum(), x.shape)", "x + jnp.isnan(jnp.std(x, ddof=1))"),
    *("jnp.pad(x, (0, n % (y.shape[0] + 1)))", "x[: n // (y.shape[0] + 1) * (y.shape[0] + 1)]"),
    *("jnp.arange(n) + x", "jnp.repeat(x, 2)", "jnp.stack([x, x]).sum(0)", "jnp.tile(x, {b})"),
)


def _drawn(seed: int) -> str:
    """Return the text of a function of `x` and `y`."""
    draw = random.Random(seed)

    def filled(text: str) -> str:
        few = draw.randint(0, 5)
        return text.format(a=few, b=draw.randint(1, 9), c=draw.randint(0, 70))

    lines = ["def f(x, y):", "    n = x.shape[0]"]
    for _ in range(draw.randint(1, 3)):
        lines += [
            f"    if {filled(draw.choice(QUESTIONS))}:",
            f"        x = {filled(draw.choice(STEPS))}",
            "    else:",
            f"        x = {filled(draw.choice(STEPS))}",
            "    n = x.shape[0]",
        ]
    return "\n".join([*lines, "    return x", ""])


def _made(text: str) -> Callable[[Any, Any], Any]:
    space = {"np": np, "jnp": jnp}
    exec(compile(text, "<drawn>", "exec"), space)
    return space["f"]  # type: ignore[return-value]


def _operands(size: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.arange(size, dtype=np.float32) % 9 - 3
    # The other name has the same size at times.
    return x, np.ones((size * 7) % 5 + (size % 11 == 0) * size, np.float32)


def _run(f: Callable[[Any, Any], Any], size: int) -> Any:
    try:
        return np.asarray(f(*map(jnp.asarray, _operands(size))))
    except InconclusiveSizeError:
        raise
    except (TypeError, ValueError, IndexError, ZeroDivisionError) as error:
        return type(error)


def _agree(mine: np.ndarray, expected: np.ndarray) -> bool:
    if mine.shape != expected.shape or mine.dtype != expected.dtype:
        return False
    # What cancels is as exact as what it was before.
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return np.allclose(mine, expected, rtol=1e-4, atol=1e-4 * largest, equal_nan=True)


def _disagreements(seed: int, sizes: Any) -> list[Any]:
    """Return the sizes, and the text, for which a program is not what it is without names."""
    text = _drawn(seed)
    f = _made(text)
    named = kiln.jit(f, abstracted_axes=(("n",), ("m",)))
    found = []
    for size in sizes:
        try:
            with override(trace_warning=0):
                mine = _run(named, size)
        except InconclusiveSizeError:
            continue
        expected = _run(f, size)
        if isinstance(expected, type) or isinstance(mine, type):
            if not (isinstance(expected, type) and isinstance(mine, type)):
                found.append((size, text, expected, mine))
        elif not _agree(mine, expected):
            found.append((size, text, expected, mine))
    return found


def test_questions_about_sizes() -> None:
    for seed in range(25):
        assert _disagreements(seed, (3, 0, 1, 2, 4, 5, 8, 21, 3, 1)) == []


@pytest.mark.full
@pytest.mark.parametrize("part", range(50))
def test_five_thousand_programs_over_all_sizes(part: int) -> None:
    for seed in range(part * 100, part * 100 + 100):
        order = [*SIZES]
        random.Random(seed).shuffle(order)
        assert _disagreements(seed, order) == []
        kiln.clear_caches()
