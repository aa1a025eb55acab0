"""What a call of an already compiled function costs, by the kind of arguments.

The work itself is a few additions, so the time is the way in and out. Calls follow each other
without waiting; the last result of a sample is waited for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy

from benchmarks.harness import Case, Library, Sampler, repeated

MANY = 100
SIZES = {"64 KiB": 2**16, "1 MiB": 2**20, "16 MiB": 2**24, "64 MiB": 2**26}
LEAVES = 21


def one_array(lib: Library) -> Callable[[], Any]:
    """Return the call `x + 1` on one small array."""
    f = lib.root.jit(lambda x: x + 1)
    x = lib.np.arange(8.0)
    return lambda: f(x)


def many_arrays(lib: Library) -> Callable[[], Any]:
    """Return a call with 100 arrays in and out."""
    f = lib.root.jit(lambda *xs: [x + 1 for x in xs])
    xs = [lib.np.arange(8.0) + i for i in range(MANY)]
    return lambda: f(*xs)


def dictionary(lib: Library) -> Callable[[], Any]:
    """Return a call with a nested dictionary of 21 leaves, as parameters of a model are."""

    def bump(tree: Any) -> Any:
        return {k: bump(v) if isinstance(v, dict) else v + 1 for k, v in tree.items()}

    f = lib.root.jit(bump)
    layers = LEAVES // 3
    tree = {
        f"layer_{i}": {name: lib.np.arange(8.0) + i for name in ("bias", "kernel", "scale")}
        for i in range(layers)
    }
    return lambda: f(tree)


def python_scalar(lib: Library) -> Callable[[], Any]:
    """Return a call with a Python float."""
    f = lib.root.jit(lambda x: x + 1)
    return lambda: f(2.5)


def python_ints(lib: Library) -> Callable[[], Any]:
    """Return the tutorial's call with a static number of steps, `g_jit_correct(10, 20)`."""

    f = lib.root.jit(_g, static_argnames=["n"])
    return lambda: f(10, 20)


def _g(x: Any, n: int) -> Any:
    i = 0
    while i < n:
        i += 1
    return x + i


def numpy_leaf(lib: Library) -> Callable[[], Any]:
    """Return a call with a NumPy array."""
    f = lib.root.jit(lambda x: x + 1)
    x = numpy.arange(8, dtype=numpy.float32)
    return lambda: f(x)


def large_numpy_leaf(size: int) -> Callable[[Library], Callable[[], Any]]:
    """Return what makes a call with a NumPy array of this size."""

    def make(lib: Library) -> Callable[[], Any]:
        f = lib.root.jit(lambda x: x + 1)
        x = numpy.arange(size // 4, dtype=numpy.float32)
        return lambda: f(x)

    return make


def numpy_leaves(lib: Library) -> Callable[[], Any]:
    """Return a call with 100 NumPy arrays in and out."""
    f = lib.root.jit(lambda *xs: [x + 1 for x in xs])
    xs = [numpy.arange(8, dtype=numpy.float32) + i for i in range(MANY)]
    return lambda: f(*xs)


def donated(lib: Library) -> Callable[[], Any]:
    """Return a call that gives its array away and is called with the result next time."""
    f = lib.root.jit(lambda x: x + 1, donate_argnums=0)
    state = [lib.np.arange(8.0)]

    def step() -> Any:
        state[0] = f(state[0])
        return state[0]

    return step


def updated(lib: Library) -> Callable[[], Any]:
    """Return a call that sets one element of a donated array of 4 MB."""
    f = lib.root.jit(lambda x, i: x.at[i].set(1.0), donate_argnums=0)
    state, i = [lib.np.zeros(1_000_000)], numpy.int32(5)

    def step() -> Any:
        state[0] = f(state[0], i)
        return state[0]

    return step


def committed(lib: Library) -> Callable[[], Any]:
    """Return a call with an array that was put on a device."""
    f = lib.root.jit(lambda x: x + 1)
    x = lib.root.device_put(lib.np.arange(8.0), lib.root.devices()[0])
    return lambda: f(x)


def sharded(lib: Library) -> Callable[[], Any]:
    """Return a call of a function that was told its shardings, over a mesh of one device."""
    sharding = lib.root.sharding
    mesh = sharding.Mesh(numpy.array(lib.root.devices()[:1]), ("d",))
    here = sharding.NamedSharding(mesh, sharding.PartitionSpec("d"))
    f = lib.root.jit(lambda x: x + 1, in_shardings=here, out_shardings=here)
    x = lib.root.device_put(lib.np.arange(8.0), here)
    return lambda: f(x)


@dataclasses.dataclass(frozen=True)
class Settings:
    """A static argument of a class of the user's."""

    rate: float
    name: str


def static_object(lib: Library) -> Callable[[], Any]:
    """Return a call with a static dataclass."""
    f = lib.root.jit(lambda x, settings: x + settings.rate, static_argnums=1)
    x, settings = lib.np.arange(8.0), Settings(0.5, "half")
    return lambda: f(x, settings)


def registered(lib: Library) -> Callable[[], Any]:
    """Return a call with a registered dataclass of two arrays and a name."""

    @dataclasses.dataclass
    class State:
        bias: Any
        scale: Any
        name: str

    lib.root.tree_util.register_dataclass(State, ["bias", "scale"], ["name"])
    f = lib.root.jit(lambda state: State(state.bias + 1, state.scale, state.name))
    state = State(lib.np.arange(8.0), lib.np.ones(8), "layer")
    return lambda: f(state)


def eager_sum(lib: Library) -> Callable[[], Any]:
    """Return `x + x` on one small array, without jit."""
    x = lib.np.arange(8.0)
    return lambda: x + x


INTS = "Python ints, one static"
CALLS = {
    "1 small array, x + 1": one_array,
    f"{MANY} arrays in and out": many_arrays,
    f"dict of {LEAVES} leaves": dictionary,
    "Python scalar": python_scalar,
    INTS: python_ints,
    "NumPy array": numpy_leaf,
    **{f"NumPy array of {size}": large_numpy_leaf(n) for size, n in SIZES.items()},
    f"{MANY} NumPy arrays in": numpy_leaves,
    "donated array": donated,
    "one element of a donated array of 4 MB": updated,
    "array put on a device": committed,
    "in_shardings, out_shardings": sharded,
    "static dataclass": static_object,
    "registered dataclass": registered,
    "eager x + x": eager_sum,
}


def _sampler(lib: Library, make: Callable[[Library], Callable[[], Any]]) -> Sampler:
    call = make(lib)
    lib.root.block_until_ready(call())
    return repeated(call, lib.root.block_until_ready)


def cases(libraries: Sequence[Library]) -> Iterator[Case]:
    """Yield the cases."""
    for name, make in CALLS.items():
        samplers = {lib.name: _sampler(lib, make) for lib in libraries}
        if name == INTS:
            samplers["python"] = repeated(lambda: _g(10, 20), lambda last: last)
        yield Case(name, samplers, rounds=30)
