"""Incomplete gamma and beta functions: the loops against scipy, at the edges too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

from kiln import lax
from kiln.base.errors import MissingRule
from kiln.base.options.config import override
from kiln.control.loops import special_loops as loops
from kiln.core.arrays.array import from_host
from kiln.core.staging import stage
from kiln.ir.types import ShapedArray
from kiln.transforms.jvp import jvp

EDGES = [0, -1, 1e-3, 0.5, 1, 3, 12, 50, 1e4, np.inf, np.nan]


def grid(*values: list[float], dtype: str) -> list[np.ndarray]:
    return [g.ravel().astype(dtype) for g in np.meshgrid(*values)]


def expanded(primitive: Any, *xs: np.ndarray) -> np.ndarray:
    return np.asarray(primitive.expand(*map(from_host, xs)))


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-4), ("float64", 1e-11)])
@pytest.mark.parametrize(
    ("primitive", "reference"),
    [(loops.igamma_p, scipy.special.gammainc), (loops.igammac_p, scipy.special.gammaincc)],
    ids=["igamma", "igammac"],
)
def test_incomplete_gamma(primitive: Any, reference: Any, dtype: str, tolerance: float) -> None:
    with override(enable_x64=dtype == "float64", engine="reference"):
        a, x = grid(EDGES, [*EDGES, 11.0, 1.01e4], dtype=dtype)
        found = expanded(primitive, a, x)
    expected = reference(a.astype(np.float64), x.astype(np.float64))
    # The complement of nearly all of the mass loses digits in 32 bits.
    np.testing.assert_allclose(found, expected, tolerance, tolerance * 1e-2)


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("float64", 1e-11)])
def test_incomplete_beta(dtype: str, tolerance: float) -> None:
    places = [0, 1e-5, 0.1, 0.3, 0.5, 0.9, 1, -0.1, 1.1, np.nan]
    with override(enable_x64=dtype == "float64", engine="reference"):
        a, b, x = grid(
            [0.5, 2, 10, 0, -1, 100, np.inf], [0.5, 3, 0, 1e3, np.inf], places, dtype=dtype
        )
        found = expanded(loops.regularized_incomplete_beta_p, a, b, x)
    expected = scipy.special.betainc(*[v.astype(np.float64) for v in (a, b, x)])
    np.testing.assert_allclose(found, expected, tolerance, tolerance * 1e-2)


def test_the_derivative_by_a_is_that_of_the_distribution() -> None:
    a, x = grid([0.05, 0.5, 2, 10, 300], [0.01, 0.7, 3, 9, 330], dtype="float64")
    step = 1e-5 * a
    slope = (scipy.special.gammainc(a + step, x) - scipy.special.gammainc(a - step, x)) / (2 * step)
    with override(enable_x64=True):
        found = np.asarray(lax.igamma_grad_a(from_host(a), from_host(x)))
    np.testing.assert_allclose(found, slope, 1e-5, 1e-9)


def test_samples_move_along_their_quantile() -> None:
    a, u = grid([0.3, 1, 4, 30], [0.05, 0.5, 0.95], dtype="float64")
    x = scipy.special.gammaincinv(a, u)
    step = 1e-6 * a
    slope = (scipy.special.gammaincinv(a + step, u) - scipy.special.gammaincinv(a - step, u)) / (
        2 * step
    )
    with override(enable_x64=True):
        found = np.asarray(lax.random_gamma_grad(from_host(a), from_host(x)))
    np.testing.assert_allclose(found, slope, 1e-6)


def test_derivatives() -> None:
    with override(enable_x64=True):
        a, b, x = (np.asarray(v) for v in (1.7, 2.4, 0.3))
        one = np.asarray(1.0)
        for fun, reference in (
            (lambda x: [lax.igamma(a, x)], lambda x: scipy.special.gammainc(a, x)),
            (lambda x: [lax.igammac(a, x)], lambda x: scipy.special.gammaincc(a, x)),
            (lambda x: [lax.betainc(a, b, x)], lambda x: scipy.special.betainc(a, b, x)),
        ):
            _, (t,) = jvp(fun, [from_host(x)], [from_host(one)])
            slope = (reference(x + 1e-6) - reference(x - 1e-6)) / 2e-6
            np.testing.assert_allclose(np.asarray(t), slope, 1e-7)


def test_the_density_of_the_exponential_distribution_at_zero() -> None:
    _, (t,) = jvp(lambda x: [lax.igamma(np.float32(1), x)], [np.float32(0)], [np.float32(1)])
    assert float(t) == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda t: lax.betainc(t, np.float32(1), np.float32(0.5)),
        lambda t: lax.betainc(np.float32(1), t, np.float32(0.5)),
        lambda t: lax.igamma_grad_a(t, np.float32(1)),
        lambda t: lax.random_gamma_grad(t, np.float32(1)),
    ],
)
def test_derivatives_nobody_has_are_refused(call: Any) -> None:
    with pytest.raises(MissingRule, match="is not supported"):
        jvp(lambda t: [call(t)], [np.float32(1.5)], [np.float32(1)])


def test_one_equation_in_the_program() -> None:
    scalar, vector = ShapedArray((), np.dtype(np.float32)), ShapedArray((3,), np.dtype(np.float32))
    jaxpr, _ = stage(lambda a, x: [lax.igamma(a, x)], [scalar, vector])
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["igamma"]
    assert jaxpr.out_avals == [vector]
    with pytest.raises(TypeError, match="igamma does not accept dtype int32"):
        lax.igamma(np.int32(1), np.int32(2))


def test_loops_end_when_all_elements_have_settled() -> None:
    jaxpr, _ = stage(
        lambda a, x: [loops.igamma_p.expand(a, x)], [ShapedArray((3,), np.dtype("f4"))] * 2
    )
    assert sum(eqn.primitive.name == "while" for eqn in jaxpr.eqns) == 2
