"""SELU on a million elements, eager and jitted: the function of the tutorial."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from benchmarks.harness import Case, Library, Sampler, repeated

ELEMENTS = 1_000_000


def selu(np: Any) -> Callable[[Any], Any]:
    """Return SELU over an array library."""

    def function(x: Any, alpha: float = 1.67, lambda_: float = 1.05) -> Any:
        return lambda_ * np.where(x > 0, x, alpha * np.exp(x) - alpha)

    return function


def _sampler(lib: Library, jitted: bool) -> Sampler:
    function = selu(lib.np)
    if jitted:
        function = lib.root.jit(function)
    x = lib.np.arange(ELEMENTS)
    return repeated(lambda: function(x).block_until_ready(), lambda _: None)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for jitted in (False, True):
        name = f"selu, {ELEMENTS:,} elements, {'jitted' if jitted else 'eager'}"
        yield Case(name, {lib.name: _sampler(lib, jitted) for lib in libraries}, rounds=20)
