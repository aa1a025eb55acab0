"""Special functions at the edges and against jax; their refusals."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

from kiln import lax
from kiln.base.errors import MissingRule
from kiln.base.options.config import override
from kiln.core.arrays.array import from_host
from kiln.ops.elements import special as ops
from kiln.transforms.jvp import jvp

jax = pytest.importorskip("jax")
UNARY = ["erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]
EDGES = np.array(
    [0.0, -0.0, 0.5, -0.5, 1, -1, 1.5, -1.5, -2, 0.99999, 7.9, 8.1, 30, 1e4, 1e30]
    + [np.inf, -np.inf, np.nan],
    np.float32,
)


@pytest.mark.parametrize("name", UNARY)
def test_edges_are_those_of_jax(name: str) -> None:
    expected = np.asarray(getattr(jax.lax, name)(EDGES))
    found = np.asarray(getattr(lax, name)(from_host(EDGES)))
    np.testing.assert_allclose(found, expected, 2e-5, 1e-6)
    if name != "digamma":
        zero = EDGES == 0
        np.testing.assert_array_equal(np.signbit(found)[zero], np.signbit(expected)[zero])


@pytest.mark.parametrize("order", [0, 1, 2, 5])
def test_polygamma_is_that_of_jax(order: int) -> None:
    x = np.array([0.3, 1, 2.5, 10, -0.5, -1.5, 0], np.float32)
    m = np.full_like(x, order)
    expected = np.asarray(jax.lax.polygamma(m, x))
    found = np.asarray(lax.polygamma(from_host(m), from_host(x)))
    fine = np.isfinite(expected)
    np.testing.assert_allclose(found[fine], expected[fine], 2e-5)
    assert not np.isfinite(found[~fine]).any()


def test_polygamma_of_broken_orders_is_nan() -> None:
    assert np.isnan(np.asarray(lax.polygamma(np.float32(0.5), np.float32(2))))
    assert np.isnan(np.asarray(lax.polygamma(np.float32(-1), np.float32(2))))


@pytest.mark.parametrize("name", ["bessel_i0e", "bessel_i1e"])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 2e-6), ("float64", 3e-14)])
def test_expansions_in_chebyshev_polynomials(name: str, dtype: str, tolerance: float) -> None:
    primitive = getattr(ops, f"{name}_p")
    reference = getattr(scipy.special, name.removeprefix("bessel_"))
    with override(enable_x64=dtype == "float64"):
        x = np.concatenate([np.linspace(-30, 30, 401), [8, -8, 1e4, -1e6]]).astype(dtype)
        found = np.asarray(primitive.expand(from_host(x)))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, reference(x.astype(np.float64)), tolerance, tolerance * 1e-3)


def test_half_precision_is_computed_in_single() -> None:
    x = np.linspace(0.1, 9, 50).astype(np.float16)
    expected = scipy.special.i0e(x.astype(np.float64)).astype(np.float16)
    np.testing.assert_allclose(np.asarray(ops.bessel_i0e_p.expand(from_host(x))), expected, 1e-3)


def test_missing_derivatives_are_refused() -> None:
    with pytest.raises(MissingRule, match="with respect to m is not supported"):
        jvp(lambda t: [lax.polygamma(t, np.float32(2))], [np.float32(1.5)], [np.float32(1)])


@pytest.mark.parametrize(("dtype", "tolerance"), [("float16", 2e-3), ("float32", 2e-6)])
def test_the_slope_of_zeta_by_its_first_argument(dtype: str, tolerance: float) -> None:
    x, q = (np.array(v, dtype) for v in ([1.125, 2.5, 5.0], [0.125, 3.0, 2.0]))
    (slope,) = jvp(lambda t: [lax.zeta(t, q)], [x], [np.ones(3, dtype)])[1]
    # mpmath's zeta(x, q, derivative=1).
    expected = [-42.421923565886, -0.26480968239264, -0.028573780509463]
    np.testing.assert_allclose(np.asarray(slope, np.float64), expected, tolerance)


def test_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="erf does not accept dtype int32"):
        lax.erf(from_host(np.arange(3, dtype=np.int32)))
