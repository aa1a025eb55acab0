"""Keys of generators other than Threefry-2x32, and what is drawn with them, are jax's bit by bit.

A key of four words is in memory a complex number: among the keys that are moved and compared here
are some whose halves, as floats, are nan, infinite, subnormal or a negative zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.lax
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic

NAMES = ("threefry4x32", "philox2x32", "philox4x32", "rbg", "unsafe_rbg")
SLOW = ("threefry4x32", "philox4x32", "philox2x32")
"""Those whose programs take seconds to compile."""
WORDS = {"philox2x32": 1, "philox4x32": 2}
ODD = np.array(
    [
        [1, 0x7FF00000, 0, 0x80000000],
        [0, 0x80000000, 1, 0x7FF00000],
        [0, 0, 0, 0x80000000],
        [0, 0x7FF80000, 1, 0],
        [0, 0xFFF00000, 0xFFFFFFFF, 0xFFFFFFFF],
        [1, 0xFFF80000, 0, 0x7FF00000],
    ],
    np.uint32,
)
"""The words of keys; two numbers compare as unequal to themselves, and three as equal to others."""
Run = Callable[[Any, Any, str], Any]
"""A function of a library, a key and the name of its generator."""


def _data(lib: Any, keys: Any) -> Any:
    return lib.random.key_data(keys)


def _odd(lib: Any, name: str) -> Any:
    return lib.random.wrap_key_data(ODD[:, : WORDS.get(name, 4)], impl=name)


def _scanned(lib: Any, key: Any, name: str) -> Any:
    def step(key: Any, odd: Any) -> Any:
        here, there = lib.random.split(key)
        return here, (lib.random.bits(there, (2,)), odd)

    last, (drawn, odd) = lib.lax.scan(step, key, _odd(lib, name))
    return _data(lib, last), drawn, _data(lib, odd)


def _chosen(lib: Any, key: Any, name: str) -> Any:
    odd = _odd(lib, name)
    taken = lib.lax.cond(odd[0] == odd[0], lambda k: k[1], lambda k: k[2], odd)
    where = lib.numpy.where(np.arange(6) % 2 == 0, odd, odd[::-1])
    return _data(lib, taken), _data(lib, where)


CASES: dict[str, Run] = {
    "words": lambda lib, k, n: _data(lib, k),
    "negative seed": lambda lib, k, n: _data(lib, lib.random.key(-5, impl=n)),
    "seeds": lambda lib, k, n: _data(
        lib, lib.vmap(lambda seed: lib.random.key(seed, impl=n))(np.arange(3))
    ),
    "raw": lambda lib, k, n: lib.random.PRNGKey(3, impl=n),
    "name of the dtype": lambda lib, k, n: np.frombuffer(
        str(lib.random.key_dtype(n)).encode(), np.uint8
    ),
    "split": lambda lib, k, n: _data(lib, lib.random.split(k, 5)),
    "split twice": lambda lib, k, n: _data(lib, lib.random.split(lib.random.split(k)[1], (2, 3))),
    "split odd": lambda lib, k, n: _data(lib, lib.vmap(lib.random.split)(_odd(lib, n))),
    "split nothing": lambda lib, k, n: _data(lib, lib.random.split(k, 0)),
    "fold in": lambda lib, k, n: _data(lib, lib.random.fold_in(k, 77)),
    "fold in many": lambda lib, k, n: _data(
        lib, lib.vmap(lambda i: lib.random.fold_in(k, i))(np.arange(4))
    ),
    "fold into many": lambda lib, k, n: _data(
        lib, lib.vmap(lambda odd: lib.random.fold_in(odd, 3))(_odd(lib, n))
    ),
    **{
        f"bits {dtype}": lambda lib, k, n, dtype=dtype: lib.random.bits(k, (7, 3), dtype)
        for dtype in ("uint8", "uint16", "uint32")
    },
    "one number": lambda lib, k, n: lib.random.bits(k),
    "no number": lambda lib, k, n: lib.random.bits(k, (0, 3)),
    "bits of many": lambda lib, k, n: lib.vmap(lambda key: lib.random.bits(key, (4,)))(
        lib.random.split(k, 3)
    ),
    "bits of many many": lambda lib, k, n: lib.vmap(lib.vmap(lambda key: lib.random.bits(key)))(
        lib.random.split(k, (2, 3))
    ),
    "equal": lambda lib, k, n: _odd(lib, n) == _odd(lib, n)[1],
    "equal to itself": lambda lib, k, n: _odd(lib, n) == _odd(lib, n),
    "unequal": lambda lib, k, n: _odd(lib, n)[2] != _odd(lib, n),
    "gather": lambda lib, k, n: _data(lib, _odd(lib, n)[np.array([4, 0, 5, 1])]),
    "gather and fill": lambda lib, k, n: _data(
        lib, _odd(lib, n).at[np.array([1, 100])].get(mode="fill")
    ),
    "set": lambda lib, k, n: _data(lib, _odd(lib, n).at[1].set(_odd(lib, n)[5])),
    "join": lambda lib, k, n: _data(
        lib, lib.numpy.concatenate([_odd(lib, n), lib.random.split(k)])
    ),
    "full": lambda lib, k, n: _data(lib, lib.numpy.full((2,), 7, k.dtype)),
    "scan": _scanned,
    "choose": _chosen,
    "unknown": lambda lib, k, n: lib.random.key(0, impl="unlikely"),
    "other type": lambda lib, k, n: lib.random.key(0, impl=3),
    "wrong words": lambda lib, k, n: lib.random.wrap_key_data(np.zeros(3, np.uint32), impl=n),
    "poisson": lambda lib, k, n: lib.random.poisson(k, 3.0),
}
SAMPLED: dict[str, Run] = {
    "uniform": lambda lib, k, n: lib.random.uniform(k, (5,)),
    "normal": lambda lib, k, n: lib.random.normal(k, (5,)),
    "randint": lambda lib, k, n: lib.random.randint(k, (5,), 0, 10),
    "gamma": lambda lib, k, n: lib.random.gamma(k, np.float32([0.8, 3.0]), (3, 2)),
    "loggamma": lambda lib, k, n: lib.random.loggamma(k, 0.8, (3,)),
    "binomial": lambda lib, k, n: lib.random.binomial(k, 20.0, 0.3, (4,)),
    "permutation": lambda lib, k, n: lib.random.permutation(k, 9),
    "categorical": lambda lib, k, n: lib.random.categorical(k, np.float32([0.1, 0.2]), shape=(6,)),
}


def ask(lib: Any, run: Run, name: str, jit: bool) -> Any:
    """Run a case with a key of a generator of the library, in the partitionable layout."""
    with lib.threefry_partitionable(True), lib.disable_jit(False):
        key = lib.random.key(42, impl=name)
        return lib.jit(lambda: run(lib, key, name))() if jit else run(lib, key, name)


def cases() -> Iterator[Case]:
    for name in NAMES:
        for title, run in CASES.items():
            jit = title in ("scan", "choose")
            yield Case(name, title, lambda lib, r=run, n=name, j=jit: ask(lib, r, n, j))
        for title, run in SAMPLED.items():
            yield Case(name, title, lambda lib, r=run, n=name: ask(lib, r, n, False), 1e-5)


TOPIC = Topic("generators", cases())


@pytest.mark.parametrize("name", NAMES)
def test_as_jax_by_meaning(name: str) -> None:
    with override(engine="reference"):
        TOPIC.check(name, kiln)


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.full) if name in SLOW else name for name in NAMES],
)
def test_as_jax_on_the_default_engine(name: str) -> None:
    TOPIC.check(name, kiln)


@pytest.mark.full
@pytest.mark.parametrize("name", ["philox2x32", "rbg"])
def test_as_jax_on_xla(name: str) -> None:
    with override(engine="xla"):
        TOPIC.check(name, kiln)
