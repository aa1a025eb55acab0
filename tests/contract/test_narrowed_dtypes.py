"""Every function that takes a dtype tells that it narrows an explicit one, as in JAX."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import kiln

_FLOATS = """
J.arange(3, dtype=D) | J.ones(3, D) | J.zeros(3, D) | J.empty(3, D) | J.full(3, 1, D)
J.ones(3).astype(D) | J.astype(J.ones(3), D) | J.array([1, 2], D) | J.asarray(1, D)
J.zeros_like(J.ones(2), D) | J.ones_like(J.ones(2), D) | J.full_like(J.ones(2), 1, D)
J.linspace(0, 1, 3, dtype=D) | J.logspace(0, 1, 3, dtype=D) | J.geomspace(1, 2, 3, dtype=D)
J.eye(3, dtype=D) | J.identity(3, D) | J.tri(3, dtype=D) | J.sum(J.ones(3), dtype=D)
J.prod(J.ones(3), dtype=D) | J.mean(J.ones(3), dtype=D) | J.var(J.ones(3), dtype=D)
J.std(J.ones(3), dtype=D) | J.cumsum(J.ones(3), dtype=D) | J.cumprod(J.ones(3), dtype=D)
J.nansum(J.ones(3), dtype=D) | J.nanmean(J.ones(3), dtype=D) | J.trace(J.ones((3, 3)), dtype=D)
J.concatenate([J.ones(2)], dtype=D) | J.stack([J.ones(2)], dtype=D)
J.dot(J.ones(2), J.ones(2), preferred_element_type=D)
J.einsum("i->", J.ones(2), preferred_element_type=D)
J.fft.fftfreq(4, dtype=D) | J.add.reduce(J.ones(3), dtype=D) | J.frombuffer(b"12345678", D)
L.lax.convert_element_type(J.ones(3), D) | L.lax.convert_element_type(1, D) | L.lax.iota(D, 3)
L.lax.broadcasted_iota(D, (3,), 0) | L.lax.full((3,), 1, D) | L.lax.full_like(J.ones(3), 1, D)
L.lax.bitcast_convert_type(J.ones(3), D)
L.lax.dot(J.ones((2, 2)), J.ones((2, 2)), preferred_element_type=D)
L.lax.conv(J.ones((1, 1, 3)), J.ones((1, 1, 2)), (1,), "SAME", preferred_element_type=D)
L.random.normal(K, (3,), D) | L.random.uniform(K, (3,), D) | L.random.gamma(K, 1.0, (3,), D)
L.random.truncated_normal(K, -1.0, 1.0, (3,), D) | L.random.exponential(K, (3,), D)
L.random.dirichlet(K, J.ones(3), (2,), D) | L.random.rademacher(K, (3,), D)
L.nn.one_hot(J.array([1, 2]), 3, dtype=D) | L.nn.initializers.normal(dtype=D)(K, (3,))
L.nn.initializers.zeros(K, (3,), D) | L.nn.initializers.glorot_uniform()(K, (3, 3), D)
L.jit(lambda x: x.astype(D))(J.ones(3)) | L.eval_shape(lambda x: x.astype(D), J.ones(3))
J.float64(1)
"""
_INTEGERS = """
J.arange(3, dtype=D) | J.ones(3).astype(D) | J.indices((2, 2), D) | L.lax.argmax(J.ones(3), 0, D)
L.lax.argmin(J.ones(3), 0, D) | L.random.randint(K, (3,), 0, 5, D)
L.random.poisson(K, 1.0, (3,), D)
L.lax.iota(D, 3) | J.sum(J.ones(3, "int32"), dtype=D) | J.int64(1)
"""


def _calls(text: str) -> list[str]:
    return [call.strip() for line in text.strip().splitlines() for call in line.split("|")]


def _said(library: Any, call: str, dtype: Any) -> tuple[list[Any], bool]:
    """Return the dtypes of the results, and whether a narrowed dtype was told."""
    names = {"L": library, "J": library.numpy, "K": library.random.key(0), "D": dtype}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = eval(call, names)
    leaves = [np.dtype(x.dtype) for x in library.tree_util.tree_leaves(found)]
    return leaves, any("requested" in str(w.message) for w in told)


def _of_numpy(library: Any) -> dict[str, Any]:
    return {"float64": np.float64, "int64": np.int64}


def _of_the_library(library: Any) -> dict[str, Any]:
    return {"float64": library.numpy.float64, "int64": library.numpy.int64}


def _by_name(library: Any) -> dict[str, Any]:
    return {"float64": "float64", "int64": "int64"}


def _of_python(library: Any) -> dict[str, Any]:
    return {"float64": float, "int64": int}


SPELLINGS = [_of_numpy, _of_the_library, _by_name, _of_python]
CALLS = [(c, "float64") for c in _calls(_FLOATS)] + [(c, "int64") for c in _calls(_INTEGERS)]


@pytest.mark.parametrize(("call", "name"), CALLS)
def test_narrowing_is_told_as_in_jax(call: str, name: str) -> None:
    # JAX tells once per trace: one spelling shows whether it tells.
    theirs = _said(jax, call, _of_numpy(jax)[name])
    for spelling in SPELLINGS:
        if spelling is _of_python:
            theirs = theirs[0], "J.float64" in call or "J.int64" in call
        assert _said(kiln, call, spelling(kiln)[name]) == theirs, spelling.__name__


def test_the_warning_names_the_function_and_the_users_line() -> None:
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("convert_element_type", lambda: kiln.lax.convert_element_type(1, np.float64)),
        ("astype", lambda: kiln.numpy.ones(2).astype(kiln.numpy.float64)),
    ]
    for name, call in calls:
        with pytest.warns(UserWarning, match=f"float64 requested in {name} is not") as told:
            call()
        assert told[0].filename == __file__
