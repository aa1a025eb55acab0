"""What applying a module costs beyond the call of its compiled program.

`linen` is kiln's, or flax's in the column of jax. The module is small, so the time is the way in
and out: bare `jit` of a function with the module's leaves, `jit` of `apply`, `apply` of a jitted
module, and a plain module that holds twelve jitted ones.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from benchmarks.harness import Case, Library, Sampler, repeated

BLOCKS = 12
WIDTH = 8
X = numpy.ones((4, WIDTH), numpy.float32)


def linen_of(lib: Library) -> Any:
    """Return the library's modules."""
    return importlib.import_module({"jax": "flax"}.get(lib.module, lib.module) + ".linen")


def _parts(lib: Library) -> tuple[Any, Any, Any]:
    linen = linen_of(lib)
    x = lib.np.asarray(X)
    return linen, linen.Dense(WIDTH).init(lib.root.random.key(0), x), x


def bare(lib: Library) -> Callable[[], Any]:
    """Return a call of a jitted function with a module's leaves."""
    _, variables, x = _parts(lib)

    def dense(variables: Any, x: Any) -> Any:
        params = variables["params"]
        return x @ params["kernel"] + params["bias"]

    run = lib.root.jit(dense)
    return lambda: run(variables, x)


def jit_of_apply(lib: Library) -> Callable[[], Any]:
    """Return a call of `jit(module.apply)`."""
    linen, variables, x = _parts(lib)
    run = lib.root.jit(linen.Dense(WIDTH).apply)
    return lambda: run(variables, x)


def jitted_module(lib: Library) -> Callable[[], Any]:
    """Return a call of `apply` of a jitted module."""
    linen, variables, x = _parts(lib)
    module = linen.jit(linen.Dense)(WIDTH)
    return lambda: module.apply(variables, x)


def jitted_blocks(lib: Library) -> Callable[[], Any]:
    """Return a call of `apply` of a plain module with jitted blocks."""
    linen, _, x = _parts(lib)
    block = linen.jit(linen.Dense)

    class Tower(linen.Module):  # type: ignore[misc, name-defined]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            for _ in range(BLOCKS):
                x = block(WIDTH)(x)
            return x

    module = Tower()
    variables = module.init(lib.root.random.key(0), x)
    return lambda: module.apply(variables, x)


CALLS = {
    "jit of a function, 2 leaves": bare,
    "jit of apply": jit_of_apply,
    "apply of a jitted module": jitted_module,
    f"apply of {BLOCKS} jitted blocks": jitted_blocks,
}


def _sampler(lib: Library, make: Callable[[Library], Callable[[], Any]]) -> Sampler:
    call = make(lib)
    lib.root.block_until_ready(call())
    return repeated(call, lib.root.block_until_ready)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, make in CALLS.items():
        yield Case(name, {lib.name: _sampler(lib, make) for lib in libraries}, rounds=30)
