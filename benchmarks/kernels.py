"""Kernels by `pallas_call`, beside the same in plain `jnp`; in jax, in interpret mode."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from benchmarks.harness import Case, Library, Sampler, repeated

ELEMENTS, ROWS, COLUMNS, SIDE = 1 << 20, 1024, 1024, 512


class Kernels:
    """The programs over a library: as kernels, and in plain operations."""

    def __init__(self, lib: Library) -> None:
        self.lib = lib
        self.pl: Any = importlib.import_module(f"{lib.module}.experimental.pallas")

    def run(self, kernel: Callable[..., None], shape: tuple[int, ...], **how: Any) -> Any:
        """Return the jitted function of a kernel with one float32 output."""
        out = self.lib.root.ShapeDtypeStruct(shape, numpy.float32)
        call = self.pl.pallas_call(kernel, out_shape=out, interpret=True, **how)
        return self.lib.root.jit(call)

    def add(self, size: int) -> Any:
        """Return a sum of vectors, in blocks."""

        def kernel(x: Any, y: Any, out: Any) -> None:
            out[...] = x[...] + y[...]

        block = self.pl.BlockSpec((size,), lambda i: (i,))
        how = {"grid": ELEMENTS // size, "in_specs": [block, block], "out_specs": block}
        return self.run(kernel, (ELEMENTS,), **how)

    def softmax(self, rows: int) -> Any:
        """Return a softmax of rows, some of them at a time."""

        def kernel(x: Any, out: Any) -> None:
            out[...] = softmax(self.lib.np, x[...])

        block = self.pl.BlockSpec((rows, COLUMNS), lambda i: (i, 0))
        how = {"grid": ROWS // rows, "in_specs": [block], "out_specs": block}
        return self.run(kernel, (ROWS, COLUMNS), **how)

    def matmul(self, size: int, terms: int) -> Any:
        """Return a product of matrices in blocks, summed over blocks of terms."""
        pl = self.pl

        def kernel(x: Any, y: Any, out: Any) -> None:
            @pl.when(pl.program_id(2) == 0)
            def start() -> None:
                out[...] = self.lib.np.zeros_like(out)

            out[...] += x[...] @ y[...]

        return self.run(
            kernel,
            (SIDE, SIDE),
            grid=(SIDE // size, SIDE // size, SIDE // terms),
            in_specs=[
                pl.BlockSpec((size, terms), lambda i, j, k: (i, k)),
                pl.BlockSpec((terms, size), lambda i, j, k: (k, j)),
            ],
            out_specs=pl.BlockSpec((size, size), lambda i, j, k: (i, j)),
        )


def softmax(np: Any, x: Any) -> Any:
    """Return the softmax of rows."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def _programs(lib: Library) -> dict[str, tuple[Any, tuple[tuple[int, ...], ...]]]:
    kernels = Kernels(lib)
    vectors: tuple[tuple[int, ...], ...] = ((ELEMENTS,), (ELEMENTS,))
    rows: tuple[tuple[int, ...], ...] = ((ROWS, COLUMNS),)
    squares: tuple[tuple[int, ...], ...] = ((SIDE, SIDE), (SIDE, SIDE))
    jit = lib.root.jit
    found = {f"add, {ELEMENTS:,} elements, plain": (jit(lambda x, y: x + y), vectors)}
    for size in (1024, 65536):
        found[f"add, kernel of {size} elements"] = (kernels.add(size), vectors)
    plain = jit(functools.partial(softmax, lib.np))
    found[f"softmax, {ROWS} x {COLUMNS}, plain"] = (plain, rows)
    for count in (1, 64):
        found[f"softmax, kernel of {count} rows"] = (kernels.softmax(count), rows)
    found[f"matmul, {SIDE} x {SIDE}, plain"] = (jit(lib.np.matmul), squares)
    for size, terms in ((128, SIDE), (128, 128)):
        name = f"matmul, kernel of {size} x {terms} x {size}"
        found[name] = (kernels.matmul(size, terms), squares)
    return found


def _sampler(lib: Library, function: Any, shapes: Sequence[tuple[int, ...]]) -> Sampler:
    generator = numpy.random.default_rng(0)
    args = [lib.np.asarray(generator.random(shape, numpy.float32)) for shape in shapes]
    return repeated(lambda: function(*args).block_until_ready(), lambda _: None)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    programs = {lib.name: _programs(lib) for lib in libraries}
    for name in programs[libraries[0].name]:
        samplers = {lib.name: _sampler(lib, *programs[lib.name][name]) for lib in libraries}
        yield Case(name, samplers, rounds=10)
