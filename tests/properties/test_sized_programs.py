"""Random programs with named axes mean, for each size from 0 to 70, what they mean without names.

Each is traced for all sizes, and called with some: it gives the numbers of the same program without
names, or raises what that raises, or `InconclusiveSizeError`.
"""

from __future__ import annotations

import random
import warnings
from typing import Any

import numpy as np
import pytest

import kiln
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override
from tests.properties.agreement import by_meaning
from tests.properties.sized_programs import drawn, operands

AXES = ({0: "n"}, {0: "n"}, {0: "m"})
PAIRS = 5
"""Of how many sizes each program is called with."""


def _sizes(seed: int) -> list[tuple[int, int]]:
    draw = random.Random(seed)
    sizes = [*draw.sample(range(71), PAIRS - 2), draw.randint(0, 4), draw.randint(0, 2)]
    return [(size, draw.choice([0, 1, 2, size, 9])) for size in sizes]


def _outcome(function: Any, args: list[Any]) -> Any:
    try:
        return [np.asarray(made) for made in function(*args)]
    except InconclusiveSizeError:
        raise
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error)


def _difference(found: Any, expected: Any) -> str | None:
    if isinstance(found, type) or isinstance(expected, type):
        return None if found is expected else f"{found} and not {expected}"
    for i, (mine, theirs) in enumerate(zip(found, expected, strict=True)):
        if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
            return f"v{i}: {mine.dtype}{mine.shape} and not {theirs.dtype}{theirs.shape}"
        # What cancels is as exact as what it was before.
        largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
        if not np.allclose(mine, theirs, rtol=1e-3, atol=1e-4 * largest, equal_nan=True):
            return f"v{i}: {mine} and not {theirs}"
    return None


def check(seeds: range, engine: str) -> None:
    """Compare programs on an engine with the meanings of the same without names."""
    compared = wrong = 0
    texts = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in seeds:
            program = drawn(seed)
            function = program.function
            named, plain = kiln.jit(function, abstracted_axes=AXES), kiln.jit(function)
            for sizes in _sizes(seed):
                args = operands(*sizes)
                try:
                    with override(engine=engine, trace_warning=0):
                        found = _outcome(named, args)
                except InconclusiveSizeError:
                    continue
                with by_meaning(trace_warning=0):
                    different = _difference(found, _outcome(plain, args))
                compared += 1
                if different is not None:
                    wrong += 1
                    texts.append(f"seed {seed}, sizes {sizes}: {different}\n{program.source}")
    assert not texts, f"{wrong} of {compared}\n" + "\n".join(texts[:5])
    # Most programs hold for all sizes.
    assert compared > 0.85 * PAIRS * len(seeds)


@pytest.mark.parametrize(("engine", "programs"), [("reference", 80), ("native", 40)])
def test_programs_of_all_sizes(engine: str, programs: int) -> None:
    check(range(programs), engine)


@pytest.mark.full
@pytest.mark.parametrize("engine", ["reference", "native"])
@pytest.mark.parametrize("part", range(10))
def test_five_thousand_programs_and_sizes(part: int, engine: str) -> None:
    # With both engines and five sizes each: ten thousand.
    check(range(1000 + 100 * part, 1000 + 100 * part + 100), engine)
    kiln.clear_caches()
