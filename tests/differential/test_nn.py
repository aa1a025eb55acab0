"""Activations, softmax and its kin, attention and initializers are jax's, with their derivatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.nn
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

X = np.array(
    [-50, -6.5, -3, -2, -1.5, -1, -0.5, -1e-3, -0.0, 0, 1e-3, 0.5, 1, 1.5, 2, 3, 6, 7, 50],
    np.float32,
)
EDGES = np.array([np.inf, -np.inf, np.nan, 1e30], np.float32)
ROWS = np.array([[1, 2, -3, 4], [0, 0, 0, 0], [np.inf, 1, 2, 3], [-np.inf] * 4], np.float32)
TAME = ROWS[:2]
WEIGHTS = np.array([1, 2, -0.5, 0], np.float32)
CODES = np.array([[0, 1], [2, -1]])
QUERY, BIAS = smooth("float32", (2, 3, 4, 8)), smooth("float32", (1, 4, 3, 5))
KEY, VALUE = smooth("float32", (2, 5, 2, 8), "key"), smooth("float32", (2, 5, 2, 8), "value")
MASK = smooth("float32", (2, 1, 3, 5), "mask") > 0
LENGTHS, OTHERS = np.array([2, 3]), np.array([5, 1])
ACTIVATIONS = (
    *("relu", "relu6", "sigmoid", "softplus", "soft_sign", "silu", "swish", "mish", "log_sigmoid"),
    *("leaky_relu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "elu", "celu", "selu"),
    *("gelu", "squareplus", "sparse_plus", "sparse_sigmoid", "identity", "tanh", "log1mexp"),
)
OF_FLOATS_ONLY = ("sigmoid", "silu", "swish")
"""jax refuses integers here; kiln takes them as it does elsewhere."""
Run = Callable[[Any], Any]
"""A function of lib.nn."""


def activation(name: str) -> dict[str, Callable[[Any], Any]]:
    """Return cases of the library, by name."""

    def each_slope(lib: Any, fun: Any) -> Any:
        return lib.vmap(lib.grad(fun))(X)

    found: dict[str, Callable[[Any], Any]] = {
        "float32": lambda lib: getattr(lib.nn, name)(X),
        "edges": lambda lib: getattr(lib.nn, name)(EDGES),
        "float16": lambda lib: getattr(lib.nn, name)(X.astype(np.float16)),
        "number": lambda lib: getattr(lib.nn, name)(1.5),
        "slope": lambda lib: each_slope(lib, getattr(lib.nn, name)),
        "curvature": lambda lib: each_slope(lib, lib.grad(getattr(lib.nn, name))),
        "jvp": lambda lib: lib.jvp(getattr(lib.nn, name), (X,), (X * 0 + 2,)),
        "list": lambda lib: getattr(lib.nn, name)([1.0, 2.0]),
    }
    if name not in OF_FLOATS_ONLY:
        found["ints"] = lambda lib: getattr(lib.nn, name)(lib.numpy.arange(-3, 4))
    return found


ALONG: dict[str, Run] = {
    "softmax": lambda n: n.softmax(ROWS),
    "softmax columns": lambda n: n.softmax(ROWS, 0),
    "softmax of all": lambda n: n.softmax(TAME, None),
    "softmax of axes": lambda n: n.softmax(TAME, (0, 1)),
    "softmax where": lambda n: n.softmax(ROWS, where=ROWS > 1),
    "softmax float16": lambda n: n.softmax(ROWS.astype(np.float16)),
    "softmax ints": lambda n: n.softmax(np.arange(3)),
    "softmax scalar": lambda n: n.softmax(np.float32(1)),
    "log_softmax": lambda n: n.log_softmax(ROWS),
    "log_softmax where": lambda n: n.log_softmax(ROWS, where=ROWS > 1),
    "logsumexp": lambda n: n.logsumexp(ROWS, 1),
    "logsumexp of all": lambda n: n.logsumexp(TAME),
    "logsumexp kept": lambda n: n.logsumexp(ROWS, (0,), keepdims=True),
    "logsumexp where": lambda n: n.logsumexp(TAME, 1, where=TAME > 1),
    "logsumexp weights": lambda n: n.logsumexp(TAME, 1, b=WEIGHTS),
    "logsumexp signs": lambda n: n.logsumexp(TAME, 1, b=WEIGHTS - 1, return_sign=True),
    "logsumexp complex": lambda n: n.logsumexp(np.array([1 + 1j, 2 - 1j], np.complex64)),
    "logsumexp ints": lambda n: n.logsumexp(np.arange(3)),
    "logmeanexp": lambda n: n.logmeanexp(TAME, 1),
    "logmeanexp of all": lambda n: n.logmeanexp(TAME),
    "logmeanexp where": lambda n: n.logmeanexp(TAME, 1, TAME >= 0, keepdims=True),
    "standardize": lambda n: n.standardize(TAME),
    "standardize stable": lambda n: n.standardize(TAME, algorithm="stable"),
    "standardize where": lambda n: n.standardize(TAME, where=TAME >= 0),
    "standardize given": lambda n: n.standardize(TAME, 0, np.float32(1), np.float32(2), 1e-3),
    "standardize algorithm": lambda n: n.standardize(TAME, algorithm="slow"),
    "glu": lambda n: n.glu(ROWS),
    "glu columns": lambda n: n.glu(TAME, 0),
    "glu odd": lambda n: n.glu(np.ones(3, np.float32)),
    "one_hot": lambda n: n.one_hot(CODES, 3),
    "one_hot first": lambda n: n.one_hot(CODES, 3, axis=0, dtype="int8"),
    "one_hot between": lambda n: n.one_hot(CODES, 3, axis=1, dtype=bool),
    "one_hot number": lambda n: n.one_hot(1, 3),
    "one_hot float": lambda n: n.one_hot(1.0, 3),
    "one_hot uint8": lambda n: n.one_hot(np.uint8(1), 300),
    "one_hot axis": lambda n: n.one_hot(CODES, 3, axis=5),
}
ATTENTION: dict[str, dict[str, Any]] = {
    "plain": {},
    "causal": {"is_causal": True},
    "bias": {"bias": BIAS, "mask": MASK, "scale": 0.3},
    "shared bias": {"bias": BIAS[:, :1]},
    "query lengths": {"query_seq_lengths": LENGTHS},
    "key lengths": {"key_value_seq_lengths": OTHERS},
    "window": {"local_window_size": 1},
    "all": {"local_window_size": (0, 2), "query_seq_lengths": LENGTHS, "is_causal": True},
}
REFUSED: dict[str, Run] = {
    "width": lambda n: n.dot_product_attention(QUERY[..., :3], KEY, VALUE),
    "heads": lambda n: n.dot_product_attention(QUERY, KEY.repeat(3, 2), VALUE.repeat(3, 2)),
    "mask": lambda n: n.dot_product_attention(QUERY, KEY, VALUE, mask=BIAS),
    "dtype": lambda n: n.dot_product_attention(QUERY, KEY.astype(np.float16), VALUE),
    "implementation": lambda n: n.dot_product_attention(QUERY, KEY, VALUE, implementation="fast"),
}
INITIALIZERS: dict[str, Callable[[Any, Any], Any]] = {
    "uniform": lambda i, k: i.uniform()(k, (3, 4)),
    "uniform int": lambda i, k: i.uniform(dtype="int32")(k, (3,)),
    "normal": lambda i, k: i.normal(0.5, "bfloat16")(k, (3, 4)),
    "truncated": lambda i, k: i.truncated_normal(2.0, lower=-1.0, upper=3.0)(k, (30,)),
    "float16": lambda i, k: i.he_normal()(k, (4, 5), "float16"),
    "axes": lambda i, k: i.he_normal((0, 1), 2, 3)(k, (3, 3, 4, 5)),
    "vector": lambda i, k: i.lecun_normal()(k, (3,)),
    "mode": lambda i, k: i.variance_scaling(1.0, "fan", "normal")(k, (3, 4)),
    "distribution": lambda i, k: i.variance_scaling(1.0, "fan_in", "cauchy")(k, (3, 4)),
    "zeros": lambda i, k: i.zeros(k, (2,)),
    "ones": lambda i, k: i.ones(k, (2,), "int8"),
    "constant": lambda i, k: i.constant(np.arange(2.0))(k, (3, 2)),
    "orthogonal": lambda i, k: i.orthogonal()(k, (5, 3)),
    "orthogonal wide": lambda i, k: i.orthogonal(2.0)(k, (3, 5)),
    "orthogonal rows": lambda i, k: i.orthogonal(column_axis=0)(k, (2, 5, 3)),
    "orthogonal vector": lambda i, k: i.orthogonal()(k, (3,)),
    "delta": lambda i, k: i.delta_orthogonal()(k, (3, 3, 4, 5)),
    "delta matrix": lambda i, k: i.delta_orthogonal()(k, (4, 5)),
    "delta narrow": lambda i, k: i.delta_orthogonal()(k, (3, 5, 4)),
    **{
        f"{kind}_{distribution}": lambda i, k, name=f"{kind}_{distribution}": getattr(i, name)()(
            k, (3, 3, 4, 5)
        )
        for kind in ("glorot", "xavier", "lecun", "he", "kaiming")
        for distribution in ("uniform", "normal")
    },
    **{
        f"{mode} {distribution} {dtype}": lambda i, k, a=(mode, distribution, dtype): (
            i.variance_scaling(2.0, *a[:2], dtype=a[2])(k, (4, 6))
        )
        for mode, dtype in [("fan_out", "float32"), ("fan_geo_avg", "complex64")]
        for distribution in ("truncated_normal", "normal", "uniform")
    },
}


def drawn(lib: Any, run: Callable[[Any, Any], Any]) -> Any:
    """Run an initializer of a library."""
    with lib.threefry_partitionable(True), lib.disable_jit(False):
        return run(lib.nn.initializers, lib.random.key(1))


def attention_slopes(lib: Any) -> Any:
    """Differentiate causal attention by its three operands."""

    def total(*xs: Any) -> Any:
        return lib.nn.dot_product_attention(*xs, is_causal=True).sum()

    return lib.grad(total, (0, 1, 2))(QUERY, KEY, VALUE)


def cases() -> Iterator[Case]:
    for name in ACTIVATIONS:
        for title, run in activation(name).items():
            yield Case("activations", f"{name} {title}", run)
    for name, of_nn in ALONG.items():
        yield Case("axes", name, lambda lib, run=of_nn: run(lib.nn))
    for name in ("softmax", "log_softmax", "logsumexp", "standardize", "glu"):
        yield Case(
            "axes",
            f"{name} slope",
            lambda lib, name=name: lib.grad(lambda x: (getattr(lib.nn, name)(x) ** 2).sum())(TAME),
        )
    for name, options in ATTENTION.items():
        yield Case(
            "attention",
            name,
            lambda lib, options=options: lib.nn.dot_product_attention(
                QUERY, KEY, VALUE, return_residual=True, **options
            ),
        )
    yield Case(
        "attention",
        "without batch",
        lambda lib: lib.nn.dot_product_attention(QUERY[0], KEY[0], VALUE[0]),
    )
    yield Case("attention", "slopes", attention_slopes)
    for name, of_nn in REFUSED.items():
        yield Case("attention", f"refused {name}", lambda lib, run=of_nn: run(lib.nn))
    for name, of_key in INITIALIZERS.items():
        yield Case("initializers", name, lambda lib, run=of_key: drawn(lib, run), 1e-4)


TOPIC = Topic("nn", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)
