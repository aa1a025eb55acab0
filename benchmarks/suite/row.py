"""What a row of the suite is: a program at a given size, and the same work for each peer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy

EMITTED = (
    "elementwise",
    "transcendental",
    "reductions",
    "softmax and norms",
    "transposes",
    "scans",
    "loops",
    "random",
    "large outputs",
)
KERNELS = ("sorting", "indexing", "matrix", "fft", "conv", "solves")
OTHERS = ("program", "call")
RATE = 0.01
"""The step of gradient descent in rows that train."""
KINDS = EMITTED + KERNELS + OTHERS
"""The kinds of the rows of this suite."""
MODELS = ("inference", "training")
REPORTS = ("scan", "array", "kernel", "eager", "first call")
EVERY_KIND = KINDS + MODELS + REPORTS


@dataclasses.dataclass(frozen=True)
class Work:
    """What a row computes at one size.

    A peer without a function is left out of the row. Arguments are trees of NumPy arrays, which
    each library turns into its own arrays before the clock starts, unless `host`. In a model the
    first argument holds the weights.
    """

    arguments: tuple[Any, ...]
    program: Callable[..., Any]
    """Called as `program(lib, *arguments)` under `jit`, with `lib` kiln or JAX."""
    plain: Callable[..., Any] | None = None
    """Called as `plain(*arguments)`: NumPy, SciPy, or Python alone."""
    torch: Callable[..., Any] | None = None
    """Called as `torch(torch, *arguments)`, eager and under `torch.compile`."""
    numba: str | None = None
    """The name of a function in `numba_loops.py`, called as `f(*arguments)`."""
    _: dataclasses.KW_ONLY
    loss: bool = False
    """Whether `torch` returns a loss; the work is then a step of gradient descent by `RATE`."""
    fresh: Callable[[float], Callable[..., Any]] | None = None
    """Makes the program from a constant: each call jits a new one, and pays for a first call."""
    eager: bool = False
    """Whether the program runs without `jit`."""
    host: bool = False
    constants: int = 0
    """How many of the first arguments kiln and JAX close over."""
    size: tuple[Any, ...] = ()
    """What the work was built from; `Row.work` sets it."""
    jit: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Row:
    """A line of the table.

    `tolerance` is the greatest error relative to the greatest number in JAX's result. Peers in
    `by_shape` draw other random numbers, so only the shapes of their results are compared.
    """

    name: str
    kind: str
    build: Callable[..., Work]
    size: tuple[Any, ...]
    tiny: tuple[Any, ...]
    tolerance: float = 1e-5
    x64: bool = False
    compiled: bool = False
    """Whether `torch.compile` takes part: each of its compilations takes seconds."""
    by_shape: tuple[str, ...] = ()
    waits: bool = True
    """Whether each call is waited for, or calls follow each other at once."""
    exported: bool = False
    """Whether runtimes take part that run the torch function as an ONNX model."""
    report: str = ""
    """The address of the public report that the program follows."""

    def __post_init__(self) -> None:
        if self.kind not in EVERY_KIND:
            raise ValueError(f"row {self.name!r} is of kind {self.kind!r}, not of {EVERY_KIND}")

    def work(self, tiny: bool = False) -> Work:
        """Build the work of the row."""
        size = self.tiny if tiny else self.size
        return dataclasses.replace(self.build(*size), size=size)


def shared(function: Callable[..., Any], *arguments: Any, **others: Any) -> Work:
    """Return the work of `function(np, *arguments)`, where NumPy, torch, JAX agree on the names."""

    def program(lib: Any, *xs: Any) -> Any:
        return function(lib.np, *xs)

    def plain(*xs: Any) -> Any:
        return function(numpy, *xs)

    return Work(arguments, program, **{"plain": plain, "torch": function, **others})


def normal(*shape: int, dtype: str = "float32", seed: int = 0) -> numpy.ndarray:
    """Return normally distributed numbers."""
    return numpy.random.default_rng(seed).standard_normal(shape).astype(dtype)


def uniform(
    *shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32", seed: int = 0
) -> numpy.ndarray:
    """Return numbers in an interval."""
    return numpy.random.default_rng(seed).uniform(low, high, shape).astype(dtype)


def integers(*shape: int, high: int, dtype: str = "int32", seed: int = 0) -> numpy.ndarray:
    """Return whole numbers from zero up to `high`, without it."""
    return numpy.random.default_rng(seed).integers(0, high, shape).astype(dtype)
