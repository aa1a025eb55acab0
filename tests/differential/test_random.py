"""Keys and variates are jax's, number for number, in both layouts of the counters.

All cases run by meaning, where nothing is compiled; a few groups also on the default engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic

A = np.array([0.5, 1.0, 2.0], np.float32)
P = np.array([0.1, 0.2, 0.3, 0.2, 0.2], np.float32)
LOGITS = np.log(np.array([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]], np.float32))
X = np.arange(12, dtype=np.float32).reshape(3, 4)
COV = np.array([[2.0, 0.5], [0.5, 1.0]], np.float32)
ODD = np.array([-1.0, 0.0, np.nan, 1e5, 1e-3], np.float32)
Run = Callable[[Any, Any], Any]
"""A function of (lib.random, key)."""


def _data(r: Any, key: Any) -> Any:
    return r.key_data(key)


GROUPS: dict[str, dict[str, Run]] = {
    "keys": {
        "split": lambda r, k: _data(r, r.split(k)),
        "split 5": lambda r, k: _data(r, r.split(k, 5)),
        "split shape": lambda r, k: _data(r, r.split(k, (2, 3))),
        "split nothing": lambda r, k: _data(r, r.split(k, 0)),
        "fold_in": lambda r, k: _data(r, r.fold_in(k, 7)),
        "fold_in largest": lambda r, k: _data(r, r.fold_in(k, 2**32 - 1)),
        "fold_in array": lambda r, k: _data(r, r.fold_in(k, np.int32(-1))),
        "fold_in negative": lambda r, k: r.fold_in(k, -1),
        "fold_in vector": lambda r, k: r.fold_in(k, np.arange(3)),
        "clone": lambda r, k: _data(r, r.clone(k)),
        "many": lambda r, k: r.normal(r.split(k)),
        "no key": lambda r, k: r.normal(3),
        "wrong words": lambda r, k: r.normal(np.zeros(3, np.uint32)),
        "wrong dtype": lambda r, k: r.normal(np.zeros(2, np.int32)),
        "wrap": lambda r, k: _data(r, r.wrap_key_data(r.key_data(k))),
        "wrap words": lambda r, k: r.wrap_key_data(np.zeros(3, np.uint32)),
        "wrap scalar": lambda r, k: r.wrap_key_data(np.uint32(3)),
        **{
            f"seed {seed}": lambda r, k, seed=seed: [_data(r, r.key(seed)), r.PRNGKey(seed)]
            for seed in (0, 5, True, 2**31, 2**32 - 1)
        },
        "seed array": lambda r, k: _data(r, r.key(np.int32(-4))),
        "seed int8": lambda r, k: _data(r, r.key(np.int8(-3))),
        "seed float": lambda r, k: r.key(1.5),
        "seed vector": lambda r, k: r.key(np.array([1, 2])),
        "seed text": lambda r, k: r.key("a"),
        "seed huge": lambda r, k: r.key(2**64 + 5),
        "unknown": lambda r, k: r.key(0, impl="foo"),
    },
    "bits": {
        "scalar": lambda r, k: r.bits(k),
        "odd": lambda r, k: r.bits(k, (5,)),
        "matrix": lambda r, k: r.bits(k, (3, 4)),
        "empty": lambda r, k: r.bits(k, (0, 4)),
        "uint8": lambda r, k: r.bits(k, (7,), "uint8"),
        "uint16": lambda r, k: r.bits(k, (3, 3), "uint16"),
        "int32": lambda r, k: r.bits(k, (2,), "int32"),
    },
    "uniform": {
        "scalar": lambda r, k: r.uniform(k),
        "matrix": lambda r, k: r.uniform(k, (4, 5)),
        "size": lambda r, k: r.uniform(k, 3),
        "float16": lambda r, k: r.uniform(k, (7,), "float16"),
        "bfloat16": lambda r, k: r.uniform(k, (7,), "bfloat16"),
        "bounds": lambda r, k: r.uniform(k, (3,), None, A, 5.0),
        "int bound": lambda r, k: r.uniform(k, (2, 3), minval=-2, maxval=A),
        "int": lambda r, k: r.uniform(k, (), int),
        "negative size": lambda r, k: r.uniform(k, (2.5,)),
    },
    "normal": {
        "scalar": lambda r, k: r.normal(k),
        "vector": lambda r, k: r.normal(k, (101,)),
        "float16": lambda r, k: r.normal(k, (7,), "float16"),
        "bfloat16": lambda r, k: r.normal(k, (7,), "bfloat16"),
        "complex": lambda r, k: r.normal(k, (5,), "complex64"),
        "int": lambda r, k: r.normal(k, (), int),
        "truncated": lambda r, k: r.truncated_normal(k, -2.0, 2.0, (50,)),
        "truncated bounds": lambda r, k: r.truncated_normal(k, -A, A),
        "truncated bfloat16": lambda r, k: r.truncated_normal(k, 0, 1, (5,), "bfloat16"),
        "truncated shapes": lambda r, k: r.truncated_normal(k, A, 1.0, (2,)),
        "log": lambda r, k: r.lognormal(k, A),
        "log complex": lambda r, k: r.lognormal(k, 2.0, (3,), "complex64"),
        "maxwell": lambda r, k: r.maxwell(k, (9,)),
        "double-sided maxwell": lambda r, k: r.double_sided_maxwell(k, A, 2.0, (2,)),
        "wald": lambda r, k: r.wald(k, A, (2, 3)),
    },
    "randint": {
        "ten": lambda r, k: r.randint(k, (50,), 0, 10),
        "int8": lambda r, k: r.randint(k, (50,), -5, 3, "int8"),
        "uint8": lambda r, k: r.randint(k, (9,), 0, 256, "uint8"),
        "beyond": lambda r, k: r.randint(k, (9,), -1000, 1000, "int8"),
        "int16": lambda r, k: r.randint(k, (9,), -1000, 1000, "int16"),
        "uint32": lambda r, k: r.randint(k, (9,), 0, 2**31 - 1, "uint32"),
        "all": lambda r, k: r.randint(k, (9,), -(2**31), 2**31 - 1),
        "unsigned bounds": lambda r, k: r.randint(
            k, (9,), np.uint32(1), np.uint32(2**32 - 1), "uint32"
        ),
        "empty range": lambda r, k: r.randint(k, (9,), 5, 5),
        "reversed": lambda r, k: r.randint(k, (9,), 5, 2),
        "bounds": lambda r, k: r.randint(k, (2, 3), np.array([0, 5, 10]), 20),
        "float bounds": lambda r, k: r.randint(k, (9,), 1.7, 9.3),
        "float": lambda r, k: r.randint(k, (9,), 0, 4, float),
    },
    "coins": {
        "p": lambda r, k: r.bernoulli(k, 0.3, (50,)),
        "p array": lambda r, k: r.bernoulli(k, A / 3),
        "float16": lambda r, k: r.bernoulli(k, np.float16(0.3), (9,)),
        "high": lambda r, k: r.bernoulli(k, 0.01, (50,), "high"),
        "int": lambda r, k: r.bernoulli(k, 1),
        "shapes": lambda r, k: r.bernoulli(k, A / 3, (2,)),
        "mode": lambda r, k: r.bernoulli(k, 0.5, (2,), "best"),
        "rademacher": lambda r, k: r.rademacher(k, (9,)),
        **{
            f"rademacher {dtype}": lambda r, k, dtype=dtype: r.rademacher(k, (9,), dtype)
            for dtype in ("int8", "uint8", "float32", "bool")
        },
    },
    "inversion": {
        "exponential": lambda r, k: r.exponential(k, (50,)),
        "exponential float16": lambda r, k: r.exponential(k, (5,), "float16"),
        "cauchy": lambda r, k: r.cauchy(k, (50,)),
        "laplace": lambda r, k: r.laplace(k, (50,)),
        "logistic": lambda r, k: r.logistic(k, (50,)),
        "gumbel": lambda r, k: r.gumbel(k, (50,)),
        "gumbel high": lambda r, k: r.gumbel(k, (50,), mode="high"),
        "gumbel mode": lambda r, k: r.gumbel(k, (5,), mode="best"),
        "pareto": lambda r, k: r.pareto(k, A, (2, 3)),
        "weibull": lambda r, k: r.weibull_min(k, 2.0, 3.0, (9,)),
        "weibull one draw": lambda r, k: r.weibull_min(k, A, A),
        "rayleigh": lambda r, k: r.rayleigh(k, A),
        "triangular": lambda r, k: r.triangular(k, A - 1, A, 4.0),
        "geometric": lambda r, k: r.geometric(k, 0.3, (50,)),
        "geometric uint8": lambda r, k: r.geometric(k, A / 3, (2, 3), "uint8"),
        "geometric float": lambda r, k: r.geometric(k, 0.3, (5,), float),
    },
    "categorical": {
        "last": lambda r, k: r.categorical(k, LOGITS),
        "first": lambda r, k: r.categorical(k, LOGITS, 0),
        "shape": lambda r, k: r.categorical(k, LOGITS, shape=(5, 2)),
        "axis and shape": lambda r, k: r.categorical(k, LOGITS, 0, (4, 3)),
        "distinct": lambda r, k: r.categorical(k, LOGITS, -1, (2, 2), False),
        "distinct first": lambda r, k: r.categorical(k, LOGITS, 0, (2, 3), False),
        "too many": lambda r, k: r.categorical(k, LOGITS, -1, (4, 2), False),
        "high": lambda r, k: r.categorical(k, LOGITS, mode="high"),
        "shapes": lambda r, k: r.categorical(k, LOGITS, shape=(3,)),
    },
    "choice": {
        "number": lambda r, k: r.choice(k, 5, (3,)),
        "one": lambda r, k: r.choice(k, 5),
        "rows": lambda r, k: r.choice(k, X, (2,)),
        "columns": lambda r, k: r.choice(k, X, (2, 3), axis=1),
        "distinct": lambda r, k: r.choice(k, 5, (3,), False),
        "distinct columns": lambda r, k: r.choice(k, X, (2, 2), False, axis=1),
        "weighted": lambda r, k: r.choice(k, 5, (7,), p=P),
        "weighted rows": lambda r, k: r.choice(k, X, (2,), False, P[:3]),
        "weighted distinct": lambda r, k: r.choice(k, 5, (3,), False, P),
        "too many": lambda r, k: r.choice(k, 5, (6,), False),
        "nothing": lambda r, k: r.choice(k, 0),
        "nothing of nothing": lambda r, k: r.choice(k, 0, (0,)),
        "axis": lambda r, k: r.choice(k, X, (2,), axis=5),
        "weights": lambda r, k: r.choice(k, 3, p=P),
    },
    "permutation": {
        "number": lambda r, k: r.permutation(k, 5),
        "vector": lambda r, k: r.permutation(k, np.arange(100)),
        "rows": lambda r, k: r.permutation(k, X),
        "columns": lambda r, k: r.permutation(k, X, 1),
        "independent": lambda r, k: r.permutation(k, X, 1, True),
        "bools": lambda r, k: r.permutation(k, np.array([True, False, True])),
        "two rounds": lambda r, k: r.permutation(k, 2000)[:20],
        "nothing": lambda r, k: r.permutation(k, 0),
        "float": lambda r, k: r.permutation(k, 3.0),
    },
    "gamma": {
        "gamma": lambda r, k: r.gamma(k, A, (4, 3)),
        "gamma small": lambda r, k: r.gamma(k, 0.3, (20,)),
        "gamma odd": lambda r, k: r.gamma(k, ODD),
        "gamma float16": lambda r, k: r.gamma(k, 2.0, (5,), "float16"),
        "loggamma": lambda r, k: r.loggamma(k, 0.01, (20,)),
        "beta": lambda r, k: r.beta(k, A, 0.5),
        "beta small": lambda r, k: r.beta(k, 0.001, 0.001, (20,)),
        "dirichlet": lambda r, k: r.dirichlet(k, A, (2,)),
        "dirichlet scalar": lambda r, k: r.dirichlet(k, np.float32(1)),
        "chisquare": lambda r, k: r.chisquare(k, A),
        "f": lambda r, k: r.f(k, A, 5.0),
        "t": lambda r, k: r.t(k, A),
        "generalized normal": lambda r, k: r.generalized_normal(k, 1.5, (9,)),
        "ball": lambda r, k: r.ball(k, 3, 1.0, (4,)),
    },
    "counts": {
        "poisson": lambda r, k: r.poisson(k, 2.0, (20,)),
        "poisson large": lambda r, k: r.poisson(k, 50.0, (20,)),
        "poisson odd": lambda r, k: r.poisson(k, np.array([0.0, 1, 15, 1000, np.nan], np.float32)),
        "poisson int8": lambda r, k: r.poisson(k, 3, (4,), "int8"),
        "poisson float": lambda r, k: r.poisson(k, 3, (4,), float),
        "binomial": lambda r, k: r.binomial(k, 10.0, 0.3, (20,)),
        "binomial large": lambda r, k: r.binomial(k, 100.0, 0.7, (20,)),
        "binomial odd": lambda r, k: r.binomial(k, ODD, np.float32(0.4)),
        "binomial chances": lambda r, k: r.binomial(k, 10, ODD / 2),
        "binomial float16": lambda r, k: r.binomial(k, 10, 0.5, (5,), "float16"),
        "multinomial": lambda r, k: r.multinomial(k, np.float32(10), P),
    },
    "matrices": {
        "cholesky": lambda r, k: r.multivariate_normal(k, A[:2], COV, (3,)),
        "stack": lambda r, k: r.multivariate_normal(k, np.ones((3, 2), np.float32), COV),
        "eigh": lambda r, k: r.multivariate_normal(k, A[:2], COV, (3,), method="eigh"),
        "svd": lambda r, k: r.multivariate_normal(k, A[:2], COV, (3,), method="svd"),
        "method": lambda r, k: r.multivariate_normal(k, A[:2], COV, method="lu"),
        "scalar mean": lambda r, k: r.multivariate_normal(k, A[0], COV),
        "sizes": lambda r, k: r.multivariate_normal(k, A, COV),
        "orthogonal": lambda r, k: r.orthogonal(k, 3, (2,)),
        "orthogonal wide": lambda r, k: r.orthogonal(k, 3, m=5),
    },
}
SLOPES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "uniform": lambda r, k, x: r.uniform(k, (3,), minval=-x, maxval=x),
    "truncated": lambda r, k, x: r.truncated_normal(k, -x, x),
    "gamma": lambda r, k, x: r.gamma(k, x),
    "loggamma": lambda r, k, x: r.loggamma(k, x / 100),
    "beta": lambda r, k, x: r.beta(k, x, x + 1),
    "dirichlet": lambda r, k, x: r.dirichlet(k, x),
    "t": lambda r, k, x: r.t(k, x),
    "weibull": lambda r, k, x: r.weibull_min(k, x, x, (3,)),
    "multivariate": lambda r, k, x: r.multivariate_normal(k, x[:2], COV * x[2]),
}


def slope_of(lib: Any, fun: Callable[[Any, Any, Any], Any]) -> Any:
    """Differentiate a weighted sum of variates by their parameters."""

    def total(x: Any) -> Any:
        drawn = fun(lib.random, lib.random.key(42), x)
        return (drawn * lib.numpy.arange(1.0, 1 + drawn.size)).sum()

    with lib.threefry_partitionable(True), lib.disable_jit(False):
        return lib.grad(total)(A)


# Sums and factorizations in another order; rare variates depend on the last bits.
LOOSE = {"matrices": 1e-4, "gamma": 1e-4}
ON_DEFAULT_ENGINE = ("keys", "bits", "uniform")


def ask(lib: Any, run: Run, partitionable: bool, raw: bool) -> Any:
    """Run a case with a key of the library."""
    with lib.threefry_partitionable(partitionable), lib.disable_jit(False):
        key = (lib.random.PRNGKey if raw else lib.random.key)(42)
        return run(lib.random, key)


def cases() -> Iterator[Case]:
    for group, members in GROUPS.items():
        for name, run in members.items():
            for layout in (False, True):
                title = f"{name}{', partitionable' if layout else ''}"
                # Either kind of key with one of the layouts is enough.
                yield Case(
                    group,
                    title,
                    lambda lib, run=run, layout=layout: ask(lib, run, layout, not layout),
                    LOOSE.get(group),
                )

    for name, fun in SLOPES.items():
        yield Case("slopes", name, lambda lib, fun=fun: slope_of(lib, fun), 1e-4)


TOPIC = Topic("random", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax_by_meaning(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)


@pytest.mark.parametrize("group", ON_DEFAULT_ENGINE)
def test_as_jax_on_the_default_engine(group: str) -> None:
    TOPIC.check(group, kiln)
