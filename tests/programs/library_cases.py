"""What becomes a library in tests: programs of one argument, and groups of primitive cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import kiln
from kiln import export
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, drawn
from tests.cases.known_gaps import KNOWN_GAPS
from tests.programs.c_driver import Call
from tests.programs.sized import PROGRAMS
from tests.rules.support import unsupported

TOGETHER = 40
"""Cases of one function of a library."""
COMPARED = [case for case in CASES if (case.primitive.name, "engines") not in KNOWN_GAPS]
GROUPS = [COMPARED[i : i + TOGETHER] for i in range(0, len(COMPARED), TOGETHER)]
QUICK = (0, len(GROUPS) // 2)
"""Which are part of `make test`."""
REFUSED = ("the native engine does not compile it", "routines of LAPACK")


def written(
    run: Callable[..., Any], x: Any, name: str, folder: Path, **options: Any
) -> Path | None:
    """Write a library of a function of one argument; None if another engine runs its program."""
    try:
        made = export.library(
            kiln.jit(run), x, name=name, path=folder / name, shared=False, **options
        )
    except NotImplementedError as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        return None
    return Path(made.path)


def sized_calls(
    names: Iterable[str], write: Callable[..., Path | None]
) -> Iterator[tuple[str, Call]]:
    """Yield calls of programs with a named size, by the programs' names, for several sizes.

    `write(run, struct, symbol)` writes a library; a program for which it returns None is left out.
    """
    struct = kiln.ShapeDtypeStruct(export.symbolic_shape("n, 3"), np.float32)
    for number, name in enumerate(names):
        symbol = f"p{number}_{re.sub(r'[^a-z0-9]', '_', name.lower())}"
        path = write(PROGRAMS[name].kiln, struct, symbol)
        if path is None:
            continue
        for n in (1, 2, 5, 33, 1000):
            if n >= PROGRAMS[name].least:
                x = np.random.RandomState(n).randn(n, 3).astype(np.float32)
                yield name, Call(path, symbol, {"n": n}, [x])


def supported(group: int) -> list[Case]:
    """Return the cases of a group that are compiled for the host."""
    return [case for case in GROUPS[group] if unsupported(case, "native") is None]


def calls_of(
    cases: Sequence[Case], folder: Path, **options: Any
) -> list[tuple[Call, list[Any], list[str]]]:
    """Write libraries of some cases; return calls, their results in kiln, and each one's case.

    What has types or effects that do not leave the process is left out.
    """
    together = _call(cases, "all", folder, **options)
    if together is not None:
        return [(*together, [case.id for case in cases for _ in range(_results(case))])]
    # One case that does not leave the process hides the others.
    found = []
    for i, case in enumerate(cases):
        alone = _call([case], f"case{i}", folder, **options)
        if alone is not None:
            found.append((*alone, [case.id] * _results(case)))
    return found


def _results(case: Case) -> int:
    return len(kiln.eval_shape(lambda *xs: applied(case, xs), *drawn(case)))


def _call(
    cases: Sequence[Case], name: str, folder: Path, **options: Any
) -> tuple[Call, list[Any]] | None:
    operands = [drawn(case) for case in cases]
    flat = [x for xs in operands for x in xs]
    fun = kiln.jit(_function(cases, [len(xs) for xs in operands]))
    try:
        made = export.library(fun, *flat, name=name, path=folder / name, shared=False, **options)
    except NotImplementedError:
        return None
    return Call(Path(made.path), name, {}, [data(x) for x in flat]), fun(*flat)


def _function(cases: Sequence[Case], counts: Sequence[int]) -> Callable[..., list[Any]]:
    def fun(*args: Any) -> list[Any]:
        given = iter(args)
        outs: list[Any] = []
        for case, count in zip(cases, counts, strict=True):
            outs += applied(case, [next(given) for _ in range(count)])
        return outs

    return fun


def data(x: Any) -> np.ndarray:
    """Return an array as C has it: the integers behind random keys."""
    is_key = kiln.dtypes.issubdtype(x.dtype, kiln.dtypes.prng_key)
    return np.asarray(kiln.random.key_data(x) if is_key else x)
