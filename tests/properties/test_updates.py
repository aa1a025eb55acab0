"""Programs that change parts of arrays, often while reading others, mean the same in place."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from tests.properties.agreement import agree, by_meaning
from tests.properties.exploring import explored

SIZES = (5, 8, 17, 64)
METHODS = ("set", "add", "multiply", "max")


def _index(draw: random.Random, n: int) -> str:
    start = draw.randrange(n - 1)
    return draw.choice(
        (
            str(draw.randrange(n)),
            f"{start}:{draw.randrange(start + 1, n)}",
            "i",
            "::2",
            f"jnp.array({[draw.randrange(n) for _ in range(3)]})",
        )
    )


def _step(draw: random.Random, n: int, changed: str, read: str) -> str:
    index = _index(draw, n)
    new = draw.choice((f"{read}[{index}] * 2 + 1", f"{read}.sum()", f"{read}[::-1][{index}]"))
    update = f"{changed}.at[{index}].{draw.choice(METHODS)}({new})"
    turns = draw.randrange(1, 4)
    return draw.choice(
        (
            *[update] * 8,
            f"{changed}.at[1:].set({read}[:-1])",
            f"{changed}.at[:-1].set({read}[1:])",
            f"lax.fori_loop(0, {turns}, lambda q, c: c.at[q].set(c[q + 1] + {read}[q]), {changed})",
            f"lax.fori_loop(0, {turns}, lambda q, c: {update.replace(changed, 'c', 1)}, {changed})",
            f"lax.scan(lambda c, q: (c.at[q].add({read}[q]), c[0]), {changed}, jnp.arange(3))[0]",
            f"lax.dynamic_update_slice({changed}, {read}[:3] + 1, (i,) + (0,) * (x.ndim - 1))",
            f"lax.cond(i > 2, lambda a, b: a.at[0].set(b[1]), lambda a, b: b, {changed}, {read})",
        )
    )


def _source(draw: random.Random, n: int) -> str:
    names = ["x"]
    lines = ["def program(x, i):"]
    for number in range(draw.randrange(1, 5)):
        changed = draw.choice(names) if draw.random() < 0.3 else names[-1]
        step = _step(draw, n, changed, draw.choice(["x", *names]))
        lines.append(f"    v{number} = {step}")
        names.append(f"v{number}")
    others = (draw.choice(names), f"{draw.choice(names)}.sum()", "x[2]")
    results = [names[-1], *(other for other in others if draw.random() < 0.4)]
    return "\n".join([*lines, f"    return ({', '.join(results)},)"])


@explored(st.randoms(use_true_random=False), few=60, many=4000)
def test_donated_arrays_are_updated_as_others_are(draw: random.Random) -> None:
    n = draw.choice(SIZES)
    source = _source(draw, n)
    namespace: dict[str, Any] = {"jnp": jnp, "lax": lax}
    exec(source, namespace)
    shape = draw.choice(((n,), (n, 3)))
    values = np.array([draw.randrange(-3, 4) for _ in range(n)], np.float32)
    given = np.broadcast_to(values.reshape(n, *[1] * (len(shape) - 1)), shape) + np.zeros(
        shape, "f4"
    )
    place = np.int32(draw.randrange(n))
    program = namespace["program"]
    with by_meaning():
        expected = kiln.jit(program)(given, place)
    with override(engine="native", check=True):
        donating = kiln.jit(program, donate_argnums=0)
        for _ in range(2):
            # Memory of NumPy's is never given away.
            agree(donating(jnp.array(given) + 0, place), expected, 1e-5)
        agree(kiln.jit(program)(given, place), expected, 1e-5)
