"""Section 5.5: a named size used as a Python number raises, or is right for all sizes.

Not so: texts of a size are its name, `type(n)` is not an int, and a method of an int that is given
a size (`(3).__eq__(n)`) returns NotImplemented.
"""

from __future__ import annotations

import collections
import copy
import decimal
import fractions
import functools
import itertools
import json
import math
import numbers
import operator
import pickle
import random
import statistics
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.errors import InconclusiveSizeError
from kiln.base.options.config import override
from tests.contract.marks import contract

SIZES = (3, 0, 1, 2, 4, 5, 12, 70)
EVERY = range(71)


def _matched(n: Any) -> int:
    match n:
        case 3:
            return 1
        case 0 | 5:
            return 2
        case int():
            return 3
        case _:
            return 4


def _matched_shape(shape: Any) -> int:
    match shape:
        case (3, 2):
            return 1
        case (k, 2) if k == 5:
            return 2
        case _:
            return 3


def _refused(n: Any) -> Any:
    if n != 3:
        raise ValueError("three rows are needed")
    return n


RIGHT: dict[str, Callable[[Any], Any]] = {
    # Rounding, parts, and bits.
    "round": lambda n: round(n) + round(n, 2),
    "floor, ceil, trunc": lambda n: math.floor(n) + math.ceil(n) + math.trunc(n),
    "abs": lambda n: abs(n),
    "parts": lambda n: n.real + n.imag + n.numerator + n.denominator + n.conjugate(),
    "ratio": lambda n: sum(n.as_integer_ratio()),
    "invert": lambda n: ~n,
    "shift": lambda n: (n << 2) + (n >> 1),
    # Arithmetic.
    "divmod": lambda n: sum(divmod(n, 3)),
    "into": lambda n: 7 // (n + 7) + 7 % (n + 8) + divmod(7, n + 8)[1],
    "floor": lambda n: n // 3 + n // -2 + -n // 2 + n % 3 + n % -3,
    "floor of floats": lambda n: n // 2.0 + n % 2.5 + 7.0 // (n + 1) + 7.5 % (n + 1),
    "powers": lambda n: n**2 + n**0 + n**0.5 + (n + 1) ** -1 + (n + 2) ** -2,
    "power of a float": lambda n: 0.5**n,
    "true division": lambda n: n / 2 + 2 / (n + 1) + (n + 1) / (n + 2),
    "beside bool": lambda n: n + True + True * n + n // True,
    "by itself": lambda n: n // n,
    "remainder by itself": lambda n: n % n,
    "a square by itself": lambda n: (n * n) // n,
    "inverse": lambda n: 1 / n,
    "inverse float": lambda n: 1.5 / n,
    "inverse remainder": lambda n: 7.5 % n,
    "ratio of sizes": lambda n: n / (n - 3),
    "by zero": lambda n: n / 0,
    "by float zero": lambda n: n // 0.0,
    "int by zero": lambda n: n // 0,
    "complex": lambda n: abs(n * 1j),
    "numpy ints": lambda n: np.int64(3) * n + n * np.int64(3) + np.int64(3) // (n + 4),
    "numpy floats": lambda n: np.float32(3) * n + n / np.float64(3) + np.float64(3) / (n + 1),
    "numpy arrays": lambda n: (np.ones(3, np.float32) * n + n * np.ones(3, np.float32)).sum(),
    "beyond int32": lambda n: jnp.float32(2) * n**6 + n**7 / 3,
    "far beyond int32": lambda n: jnp.sqrt(n**11),
    "below int32": lambda n: jnp.float32(2) * -(n**6),
    "an int beyond int32": lambda n: jnp.int32(2) * n**6,
    "beyond int32 for all sizes": lambda n: jnp.float32(2) * (n * 2**31) + n * 50_000 * 50_000,
    "below int32 for all sizes": lambda n: jnp.float32(2) * (-n * 2**33 - n),
    "sums": lambda n: sum([n, 1]) + math.prod((n, 2)) + functools.reduce(operator.mul, (n, 2)),
    "numpy sums": lambda n: np.prod((n, 2)) + np.sum([n, 1]) + np.cumsum([n, 2])[1],
    # Comparisons.
    "equal": lambda n: (n == 3) + (n != 5) * 2 + (n == True) * 4,  # noqa: E712
    "equal to what is not an int": lambda n: (n == "3") + (n == None) + (n == 3.5),  # noqa: E711
    "equal to a float": lambda n: n == 3.0,
    "equal to a complex": lambda n: n == 3 + 0j,
    "a complex": lambda n: 3 + 0j == n,  # noqa: SIM300
    "equal to a fraction": lambda n: n == fractions.Fraction(3),
    "a fraction": lambda n: fractions.Fraction(3) == n,
    "equal to a decimal": lambda n: n == decimal.Decimal(3),
    "equal to a numpy int": lambda n: (n == np.int32(3)) + (np.int64(5) == n) * 2,
    "equal to a numpy float": lambda n: (n == np.float32(3)) + (np.float64(5) != n) * 2,
    "equal to a numpy bool": lambda n: n == np.True_,
    "equal to numpy without axes": lambda n: (n == np.array(3)) + (np.array(5) == n) * 2,
    "equal to a numpy array": lambda n: ((np.arange(4) == n) * 2 + (n != np.arange(4))).sum(),
    "below a numpy array": lambda n: ((n < np.arange(4)) * 2 + (np.arange(4) <= n)).sum(),
    "infinity": lambda n: (n < math.inf) + 2 * (n > -math.inf),
    "not negative": lambda n: (n >= 0) + 2 * (n > -1) + 4 * (n > -0.5) + 8 * (n >= 0),
    "is there one": lambda n: 1 if n else 2,
    "and, or, not": lambda n: (n and 3) + (n or 3) + (not n),
    "any, all": lambda n: any((n == 3, n == 5)) + 2 * all([n, 1]),
    "shapes": lambda n: ((n, 2) == (3, 2)) + 2 * ([n] == [5]),
    "membership": lambda n: (n in (3, 5)) + 2 * (n in [1, 4]) + 4 * (n in range(4, 7)),
    "positions": lambda n: [3, 5, *range(71)].index(n) + 100 * [3, 5].count(n),
    "position in a range": lambda n: range(100).index(n),
    "operators": lambda n: operator.eq(n, 3) + 2 * n.__eq__(5) + 4 * n.__ne__(1),
    "functions": lambda n: sum(map(operator.eq, [n], [3])) + functools.partial(operator.ne, 5)(n),
    "match": _matched,
    "match a shape": lambda n: _matched_shape((n, 2)),
    "raise": _refused,
    "array_equal": lambda n: np.array_equal((n,), (3,)),
    # Kinds, copies, iteration.
    "kinds": lambda n: isinstance(n, int) + 2 * isinstance(n, numbers.Integral) + 4 * callable(n),
    "other kinds": lambda n: isinstance(n, (str, float, tuple)) + 2 * isinstance(n, bool),
    "isscalar": lambda n: np.isscalar(n) + jnp.isscalar(n),
    "copies": lambda n: copy.copy(n) + copy.deepcopy(n) + pickle.loads(pickle.dumps(n)),
    "iteration": lambda n: next(zip([n], [1], strict=True))[0] + [*itertools.accumulate([n, 2])][1],
    # Functions of kiln.
    "in functions": lambda n: jnp.sqrt(n) + jnp.maximum(n, 3) + jnp.power(n, 2) + jnp.mod(n, 3),
    "made": lambda n: jnp.arange(n).sum() + jnp.full(3, n).sum() + jnp.eye(n).sum() + jnp.array(n),
    "repeated": lambda n: jnp.repeat(jnp.arange(3), n).sum(),
    "loops": lambda n: lax.fori_loop(0, n, lambda i, c: c + i, 0),
    "scan": lambda n: lax.scan(lambda c, _: (c + 1, None), 0, None, length=n)[0],
    "slices": lambda n: jnp.arange(100)[:n].sum() + jnp.arange(100)[n:].sum(),
    "slices from the end": lambda n: jnp.arange(100)[-n:].sum(),
    "positions of arrays": lambda n: jnp.arange(100)[n] + jnp.zeros(100).at[n].set(1).argmax(),
    "parts of slices": lambda n: jnp.arange(n + 4)[n:].max() + jnp.arange(n + 2)[:2].argmax(),
    "largest of a part": lambda n: jnp.arange(n)[1:].max(),
    "largest of two parts": lambda n: jnp.concatenate([jnp.ones(n)[1:], jnp.ones(n)[3:]]).min(),
    "place in a part": lambda n: jnp.argmax(jnp.arange(n)[2:]),
    "place by lax": lambda n: lax.argmin(jnp.ones(n)[2:], 0, "int32"),
    "largest of half": lambda n: jnp.max(jnp.arange(n)[n // 2 :]) + jnp.ptp(jnp.arange(n)[:-3]),
    "switch": lambda n: lax.switch(n, [lambda: 1, lambda: 2, lambda: 3]),
}
"""What is right, or raises what it raises without names, for all sizes; or is inconclusive."""

RAISING: dict[str, Callable[[Any], Any]] = {
    "int": int,
    "float": float,
    "complex": complex,
    "index": operator.index,
    "range": lambda n: len(range(n)),
    "for": lambda n: sum(1 for _ in range(n)),
    "rounded to tens": lambda n: round(n, -1),
    "%d": lambda n: len("%d" % n),  # noqa: UP031
    "format": lambda n: len(f"{n:3d}"),
    "format as float": lambda n: len(f"{n:.3f}"),
    "hex": lambda n: len(hex(n)),
    "chr": lambda n: ord(chr(n)),
    "bytes": lambda n: len(bytes(n)),
    "bytearray": lambda n: len(bytearray(n)),
    "math.sqrt": math.sqrt,
    "math.log": lambda n: math.log(n + 1),
    "math.gcd": lambda n: math.gcd(n, 6),
    "math.comb": lambda n: math.comb(n, 2),
    "math.isqrt": math.isqrt,
    "math.isclose": lambda n: math.isclose(n, 3),
    "bits": lambda n: n & 1,
    "bits of an int": lambda n: 3 | n,
    "power of an int": lambda n: 2**n,
    "power of itself": lambda n: n**n,
    "power with modulus": lambda n: pow(n, 2, 7),
    "shifted by": lambda n: 1 << n,
    "bit_length": lambda n: n.bit_length(),
    "to_bytes": lambda n: len(n.to_bytes(2, "big")),
    "list * n": lambda n: len([0] * n),
    "n * str": lambda n: len(n * "a"),
    "list[n]": lambda n: list(range(100))[n],
    "list[:n]": lambda n: len(list(range(100))[:n]),
    "slice.indices": lambda n: slice(None).indices(n)[1],
    "np.zeros": lambda n: np.zeros(n).size,
    "np.zeros of a shape": lambda n: np.zeros((n, 2)).size,
    "np.full": lambda n: np.full(n, 1).size,
    "np.eye": lambda n: np.eye(n).sum(),
    "np.float32": np.float32,
    "np.linspace": lambda n: np.linspace(0, 1, n).size,
    "np array[:n]": lambda n: np.arange(100)[:n].size,
    "np.sqrt": np.sqrt,
    "np.log": lambda n: np.log(n + 1),
    "np.minimum": lambda n: np.minimum(n, 3),
    "np.isfinite": np.isfinite,
    "greater": lambda n: n > 3,
    "less than a float": lambda n: n < 3.5,
    "less than a numpy float": lambda n: n < np.float64(3),
    "min": lambda n: min(n, 3),
    "max": lambda n: max(3, n),
    "sorted": lambda n: sorted([n, 3])[1],
    "np.max": lambda n: np.max([n, 3]),
    "hash": hash,
    "dict": lambda n: {1: 2}.get(n, 3),
    "key": lambda n: {n: 2}[3],
    "set": lambda n: len({n, 3}),
    "in a set": lambda n: n in {3, 5},
    "Counter": lambda n: collections.Counter([n, 3])[3],
    "lru_cache": lambda n: functools.lru_cache(lambda k: k + 1)(n),
    "lru_cache of a shape": lambda n: functools.lru_cache(len)((n, 2)),
    "repeat": lambda n: sum(itertools.repeat(1, n)),
    "enumerate": lambda n: next(enumerate([1], n))[0],
    "struct": lambda n: len(struct.pack("i", n)),
    "ljust": lambda n: len("a".ljust(n)),
    "combinations": lambda n: len(list(itertools.combinations(range(5), n))),
    "times a Fraction": lambda n: float(n * fractions.Fraction(1, 3)),
    "random": lambda n: random.Random(n).random(),
    "Fraction": lambda n: float(fractions.Fraction(n, 3)),
    "mean": lambda n: statistics.mean([n, 2]),
}
"""What raises `InconclusiveSizeError`, whatever the size."""

OTHERWISE: dict[str, Callable[[Any], Any]] = {
    "int of a text": lambda n: int(str(n)),
    "Decimal": lambda n: float(decimal.Decimal(n)),
    "json": json.dumps,
    "islice": lambda n: len(list(itertools.islice(range(100), n))),
    "np array[n]": lambda n: np.arange(100)[n],
    "np dtype": lambda n: np.dtype((np.float32, (n,))).itemsize,
    "in a numpy array": lambda n: n in np.arange(3),
    "np.ceil of a quotient": lambda n: np.ceil(n / 2),
    "lax.add": lambda n: lax.add(jnp.int32(1), n),
    "key": lambda n: kiln.random.key(n),
}
"""What raises another error, as Python and NumPy do not ask the size."""


def _outcome(function: Callable[[Any], Any], size: int) -> Any:
    try:
        return np.asarray(function(jnp.zeros(size)))
    except InconclusiveSizeError:
        raise
    except Exception as error:  # noqa: BLE001 - it is compared
        return type(error)


def check(use: Callable[[Any], Any], sizes: Any) -> int:
    """Compare a use with the same without names; return for how many sizes it is refused."""

    def used(x: Any) -> Any:
        return use(x.shape[0]) + jnp.zeros(())

    named, inconclusive = kiln.jit(used, abstracted_axes=("n",)), 0
    with override(trace_warning=0, engine="reference"), np.errstate(all="ignore"):
        for size in sizes:
            try:
                found = _outcome(named, size)
            except InconclusiveSizeError as error:
                inconclusive += len(str(error).splitlines()) == 3
                continue
            expected = _outcome(lambda x: used(x), size)
            if isinstance(expected, type) or isinstance(found, type):
                assert found is expected, size
            else:
                assert (found.shape, found.dtype) == (expected.shape, expected.dtype), size
                np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=f"n = {size}")
    return inconclusive


@contract("5.5")
@pytest.mark.parametrize("name", RIGHT)
def test_right_for_all_sizes(name: str) -> None:
    assert check(RIGHT[name], SIZES) == 0


@contract("5.5")
@pytest.mark.full
@pytest.mark.parametrize("name", RIGHT)
def test_right_for_every_size(name: str) -> None:
    order = [*EVERY]
    random.Random(0).shuffle(order)
    assert check(RIGHT[name], order) == 0


@contract("5.5")
@pytest.mark.parametrize("name", RAISING)
def test_raises_whatever_the_size(name: str) -> None:
    assert check(RAISING[name], SIZES[:3]) == 3


REFUSED = (TypeError, ValueError, IndexError, kiln.errors.ConcretizationTypeError)


@contract("5.5")
@pytest.mark.parametrize("name", OTHERWISE)
def test_raises_what_python_and_numpy_raise(name: str) -> None:
    f = kiln.jit(lambda x: x + OTHERWISE[name](x.shape[0]), abstracted_axes=("n",))
    with pytest.raises(REFUSED) as error:
        f(jnp.zeros(3))
    assert not isinstance(error.value, InconclusiveSizeError)


@contract("5.5")
def test_a_cache_of_functions_says_what_to_type() -> None:
    f = kiln.jit(lambda x: functools.lru_cache(len)(x.shape), abstracted_axes=("n",))
    with pytest.raises(InconclusiveSizeError, match=r"functools\.lru_cache") as error:
        f(jnp.zeros(3))
    assert "test_size_uses.py" in str(error.value)
