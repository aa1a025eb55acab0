"""The libraries that are timed: each turns the work of a row into a call that can be repeated.

kiln never imports them, and all but kiln are optional: a peer that is not installed is left out,
with the reason.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks import harness
from benchmarks.suite.row import RATE, Row, Work

PARALLEL_FROM = 20_000
"""From so many numbers on, numba's loops are run by several threads."""


@dataclasses.dataclass(frozen=True)
class Prepared:
    """A call that can be repeated: `statement` names a function `f` and its arguments."""

    names: dict[str, Any]
    asynchronous: bool

    def run(self) -> Any:
        """Call once, and wait."""
        result = self.names["f"](*self.arguments)
        if self.asynchronous:
            first_leaf(result)[1].block_until_ready()
        return result

    @property
    def arguments(self) -> list[Any]:
        """The arguments, in order."""
        return [x for name, x in self.names.items() if name != "f"]

    def sampler(self, result: Any, waiting: bool, shortest_s: float) -> harness.Sampler:
        """Return a sampler of the call; `waiting` for the result of every call."""
        statement = f"f({', '.join(name for name in self.names if name != 'f')})"
        if waiting and self.asynchronous:
            # One result that is ready means that the program has ended.
            statement += first_leaf(result)[0] + ".block_until_ready()"
        return harness.timed(statement, self.names, shortest_s)


def first_leaf(tree: Any, path: str = "") -> tuple[str, Any]:
    """Return how the first array of a result is reached, as text, and the array."""
    if isinstance(tree, dict):
        key = next(iter(tree))
        return first_leaf(tree[key], f"{path}[{key!r}]")
    if isinstance(tree, (tuple, list)):
        return first_leaf(tree[0], f"{path}[0]")
    return path, tree


def leaves(tree: Any) -> list[Any]:
    """Return the arrays of a result, dictionaries by sorted keys."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (tuple, list)):
        return [leaf for part in tree for leaf in leaves(part)]
    return [tree]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """Apply a function to the NumPy arrays of a tree."""
    if isinstance(tree, dict):
        return {key: mapped(function, part) for key, part in tree.items()}
    if isinstance(tree, (tuple, list)):
        return type(tree)(mapped(function, part) for part in tree)
    return function(tree) if isinstance(tree, numpy.ndarray) else tree


def _named(function: Callable[..., Any], arguments: Any) -> dict[str, Any]:
    return {"f": function, **{f"x{i}": x for i, x in enumerate(arguments)}}


class Peer:
    """One column of the table.

    `compiles` says whether its first call of a row is worth a figure.
    """

    name: str
    package: str
    compiles = True
    in_this_process = True
    """Whether the memory of this process is the peer's."""

    def missing(self) -> str | None:
        """Return why the library cannot take part, or None."""
        if importlib.util.find_spec(self.package) is None:
            return f"{self.package} is not installed"
        return None

    def load(self) -> None:
        """Import the library and compile something small, so that no row pays for that."""

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the call of a row, or None if the row has none for this peer."""
        raise NotImplementedError


class ArrayLibrary(Peer):
    """kiln, or JAX: both run the same program text."""

    def __init__(self, name: str) -> None:
        self.name = self.package = name

    def load(self) -> None:
        """Import the library and compile an addition."""
        self.library = harness.load(self.package)
        x = self.library.np.ones(3)
        self.library.root.jit(lambda x: x + 1)(x).block_until_ready()

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the jitted program, on arrays of the library."""

        arguments = work.arguments
        if not work.host:
            arguments = mapped(self.library.np.asarray, arguments)
        constants, arguments = arguments[: work.constants], arguments[work.constants :]
        return Prepared(_named(self._call(work, constants), arguments), True)

    def _call(self, work: Work, constants: tuple[Any, ...]) -> Callable[..., Any]:
        library, numbers = self.library, itertools.count()

        def program(*arguments: Any) -> Any:
            return work.program(library, *constants, *arguments)

        def first(*arguments: Any) -> Any:
            made = work.fresh(1 + next(numbers) / 1024)  # type: ignore[misc]

            def again(*xs: Any) -> Any:
                return made(library, *xs)

            return library.root.jit(again)(*arguments)

        if work.fresh is not None:
            return first
        if work.eager:
            return program
        return library.root.jit(program, **work.jit)  # type: ignore[no-any-return]


class Plain(Peer):
    """NumPy, SciPy, or Python alone."""

    name = package = "numpy"
    compiles = False

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the function as it stands."""
        return work.plain and Prepared(_named(work.plain, work.arguments), False)


def descent(torch: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    """Return a step of gradient descent on `loss(weights, *inputs)`, as torch's users write it."""

    def step(weights: dict[str, Any], *inputs: Any) -> Any:
        names = list(weights)
        tensors = [weights[name].requires_grad_() for name in names]
        value = loss(dict(zip(names, tensors)), *inputs)
        gradients = torch.autograd.grad(value, tensors)
        with torch.no_grad():
            moved = torch._foreach_add(tensors, gradients, alpha=-RATE)
        return value.detach(), dict(zip(names, moved))

    return step


class Torch(Peer):
    """torch, operation by operation."""

    name = package = "torch"
    compiles = False

    def load(self) -> None:
        """Import the library."""
        self.torch = importlib.import_module("torch")

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of tensors in the form that is timed."""
        return function

    def function(self, row: Row, work: Work) -> Callable[..., Any]:
        """Return the function that is called with the arguments alone."""
        assert work.torch is not None
        of, torch = work.torch, self.torch

        def call(*arguments: Any) -> Any:
            return of(torch, *arguments)

        if work.loss:
            return descent(torch, self.compiled(call))
        if row.kind == "inference":
            return torch.inference_mode()(self.compiled(call))  # type: ignore[no-any-return]
        return self.compiled(call)

    def tensor(self, x: Any) -> Any:
        """Return the tensor of an array, with memory of its own."""
        if x.dtype.name == "bfloat16":
            return self.torch.from_numpy(x.astype("float32")).to(self.torch.bfloat16)
        if x.dtype.name == "uint32":
            return self.torch.from_numpy(x.astype("int64"))
        return self.torch.from_numpy(x.copy())

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the function, on tensors."""
        if work.torch is None or work.host:
            return None
        arguments = mapped(self.tensor, work.arguments)
        return Prepared(_named(self.function(row, work), arguments), False)


class TorchCompile(Torch):
    """torch.compile, in the rows that name it: each of its compilations takes seconds."""

    name = "torch.compile"
    compiles = True

    def load(self) -> None:
        """Import the library and compile an addition."""
        super().load()
        # The first use of its code generator, one thread and several, takes seconds more.
        self.torch.compile(lambda x: x + 1)(self.torch.ones(1 << 20))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the compiled function."""
        self.torch._dynamo.reset()
        return self.torch.compile(function, dynamic=False)  # type: ignore[no-any-return]

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the compiled function, on tensors."""
        return super().prepare(row, work) if row.compiled else None


class Numba(Peer):
    """numba, with loops written out and run by several threads."""

    name = package = "numba"

    def __init__(self, loops: str) -> None:
        self._loops = loops

    def load(self) -> None:
        """Import the library, the module of loops, and compile one in parallel."""
        self.numba = importlib.import_module("numba")
        self.loops = importlib.import_module(self._loops)
        warnings.simplefilter("ignore", self.numba.errors.NumbaPerformanceWarning)
        add_one = importlib.import_module("benchmarks.suite.numba_loops").add_one
        self.numba.njit(parallel=True)(add_one)(numpy.ones(1000))

    def prepare(self, row: Row, work: Work) -> Prepared | None:
        """Return the compiled loop."""
        if work.numba is None:
            return None
        function = getattr(self.loops, work.numba, None)
        if function is None:
            return None
        # Waking threads takes longer than a small row.
        numbers = sum(x.size for x in leaves(work.arguments) if isinstance(x, numpy.ndarray))
        parallel = max(numbers, *row.size, 0) >= PARALLEL_FROM
        compiled = self.numba.njit(parallel=parallel)(function)
        return Prepared(_named(compiled, work.arguments), False)


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        ArrayLibrary("kiln"),
        ArrayLibrary("jax"),
        Plain(),
        Torch(),
        TorchCompile(),
        Numba("benchmarks.suite.numba_loops"),
    )
}
"""In the order of the columns."""
