"""Special functions at the edges of their domains, their derivatives, dtypes and errors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy.special as reference

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.scipy import special

EDGES = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 0.5, 2, -2.5])
# What SciPy and kiln give at the edges is the same, but for these places of EDGES.
UNARY: dict[str, tuple[int, ...]] = {
    "gamma": (1, 5),
    "gammasgn": (),
    "erfcx": (),
    "dawsn": (),
    "ndtr": (),
    "log_ndtr": (),
    "ndtri": (),
    "exp1": (3, 5, 9),
    "expi": (),
    "spence": (),
    "entr": (),
    "logit": (),
    "i0": (),
    "i1": (),
    "factorial": (6,),
}
PAIRS = np.array([(0.0, 0), (0, 2), (2, 0), (-1, 2), (2, -1), (np.nan, 1), (1, np.nan), (3, 0.5)])
BINARY = ("xlogy", "xlog1py", "rel_entr", "kl_div", "beta", "betaln", "boxcox", "boxcox1p")


def test_edges() -> None:
    wrong = []
    with kiln.enable_x64(True), np.errstate(all="ignore"):
        found = kiln.jit(lambda x: {n: getattr(special, n)(x) for n in UNARY})(EDGES)
        for name, left_out in UNARY.items():
            expected = getattr(reference, name)(EDGES)
            keep = [i for i in range(len(EDGES)) if i not in left_out]
            if not np.allclose(
                np.asarray(found[name])[keep], expected[keep], rtol=1e-13, atol=0, equal_nan=True
            ):
                wrong.append((name, np.asarray(found[name]), expected))
    assert wrong == []


def test_edges_of_two() -> None:
    wrong = []
    x, y = PAIRS.T
    with kiln.enable_x64(True), np.errstate(all="ignore"):
        found = kiln.jit(lambda x, y: {n: getattr(special, n)(x, y) for n in BINARY})(x, y)
        for name in BINARY:
            expected = getattr(reference, name)(x, y)
            if not np.allclose(found[name], expected, rtol=1e-13, atol=0, equal_nan=True):
                wrong.append((name, np.asarray(found[name]), expected))
    assert wrong == []


SLOPES: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("gamma", "erfcx", "dawsn", "ndtr", "log_ndtr", "expi", "exp1"), (0.7,)),
    **dict.fromkeys(("spence", "i0", "i1", "entr", "factorial"), (0.7,)),
    **dict.fromkeys(("ndtri", "logit"), (0.3,)),
    **dict.fromkeys(("xlogy", "xlog1py", "rel_entr", "kl_div"), (0.7, 1.3)),
    **dict.fromkeys(("boxcox", "boxcox1p", "beta", "betaln", "owens_t"), (0.7, 1.3)),
    "poch": (2.5, 1.5),
    "hyp1f1": (0.7, 1.5, 0.8),
    "hyp2f1": (0.7, 1.5, 2.2, 0.4),
}


@pytest.mark.full  # a slice of the derivatives is in tests/derivatives
def test_slopes() -> None:
    wrong = []
    with kiln.enable_x64(True):

        def all_slopes() -> Any:
            return {
                name: kiln.grad(getattr(special, name), tuple(range(len(places))))(*places)
                for name, places in SLOPES.items()
            }

        found = kiln.jit(all_slopes)()
        for name, places in SLOPES.items():
            for i, slope in enumerate(found[name]):
                h = 1e-5
                up, down = ([*places[:i], places[i] + s, *places[i + 1 :]] for s in (h, -h))
                fun = getattr(reference, name)
                expected = (fun(*up) - fun(*down)) / (2 * h)
                if not math.isclose(float(slope), float(expected), rel_tol=2e-6, abs_tol=1e-8):
                    wrong.append((name, i, float(slope), float(expected)))
    assert wrong == []


def test_complex_numbers() -> None:
    z = np.array([1 + 1j, -2.5 + 0.3j, -3.5 - 2j, 0.5 - 20j, -5.2 + 15j, 1e-3 + 0j])
    with kiln.enable_x64(True):
        for name in ("loggamma", "gamma", "wofz", "erfcx"):
            found = np.asarray(getattr(special, name)(z))
            np.testing.assert_allclose(found, getattr(reference, name)(z), rtol=1e-12)
        slope = kiln.jvp(special.loggamma, (jnp.asarray(z),), (jnp.ones_like(jnp.asarray(z)),))[1]
        np.testing.assert_allclose(slope, reference.digamma(z), rtol=1e-12)


def test_harmonics_at_negative_angles() -> None:
    n, m = np.array([3, 2, 5]), np.array([-3, 1, -1])
    theta, phi = np.array([-2.0, -0.4, -1.1]), np.array([0.5, -4.0, 2.0])
    found = special.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(found, reference.sph_harm_y(n, m, theta, phi), rtol=1e-5)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: special.bessel_jn(x, v=2),
        lambda x: kiln.jvp(lambda y: special.bessel_jn(y, v=2), (x,), (x,))[1],
        lambda x: special.multigammaln(x + 5, 3),
    ],
)
def test_ranks_are_not_promoted_inside(call: Any) -> None:
    x = np.array([0.0, 1.0, 3.0], np.float32)
    with override(numpy_rank_promotion="raise"):
        assert np.isfinite(call(x)).all()


def test_orders_and_degrees() -> None:
    z = np.array([0.0, 1.0, 20.0])
    with kiln.enable_x64(True):
        expected = reference.jv(np.arange(4)[:, None], z)
        np.testing.assert_allclose(special.bessel_jn(z, v=3), expected, atol=1e-13)
        n, m = np.array([3, 2, 5, 0]), np.array([-2, 1, 5, 0])
        theta, phi = np.array([0.3, 0.4, 1.9, 0.1]), np.array([0.5, 0.6, 4.0, 0.2])
        expected = reference.sph_harm_y(n, m, theta, phi)
        np.testing.assert_allclose(special.sph_harm_y(n, m, theta, phi), expected, rtol=1e-13)
        np.testing.assert_allclose(special.bernoulli(30), reference.bernoulli(30), rtol=1e-11)
        found = special.multigammaln(5.5, 3)
        np.testing.assert_allclose(found, reference.multigammaln(5.5, 3), rtol=1e-14)


def test_small_floats_are_computed_in_f32() -> None:
    x = jnp.asarray([0.3, 1.7], "bfloat16")
    for name in ("gamma", "ndtr", "expi", "dawsn", "entr"):
        found = getattr(special, name)(x)
        assert found.dtype == jnp.bfloat16
        wide = getattr(special, name)(x.astype("float32")).astype("bfloat16")
        np.testing.assert_array_equal(found, wide)


def test_counts_are_whole_numbers() -> None:
    np.testing.assert_array_equal(special.comb(jnp.arange(8), 3), [0, 0, 0, 1, 4, 10, 20, 35])
    np.testing.assert_array_equal(special.factorial(jnp.arange(6)), [1, 1, 2, 6, 24, 120])
    assert float(special.comb(3, 2, repetition=True)) == 6


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: special.zeta(2.0), NotImplementedError, "q != None"),
        (lambda: special.gammasgn(1j), ValueError, "not defined for complex"),
        (lambda: special.bernoulli(-1), ValueError, "non-negative"),
        (lambda: special.bessel_jn(1.0, v=-1), ValueError, "from 0 to n_iter"),
        (lambda: special.log_ndtr(1.0, series_order=99), ValueError, "<= 30"),
        (lambda: special.factorial(3, exact=True), NotImplementedError, "exact"),
        (lambda: special.sph_harm_y(1, 0, 0.1, 0.2, diff_n=1), NotImplementedError, "derivatives"),
        (
            lambda: kiln.jit(lambda n: special.sph_harm_y(n, 0, 0.1, 0.2))(1),
            ValueError,
            "n_max=8",
        ),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize("name", ["xlogy", "xlog1py"])
def test_products_of_zero_and_nan(name: str) -> None:
    found = getattr(special, name)(np.zeros(3, np.float32), np.array([0.0, np.nan, 2.0]))
    np.testing.assert_array_equal(found, [0.0, np.nan, 0.0])


def test_the_slope_of_entr() -> None:
    for derivative in (kiln.jacfwd, kiln.jacrev):
        assert float(derivative(special.entr)(0.0)) == np.inf
        assert float(derivative(special.entr)(1.0)) == -1.0


def test_sums_of_exponentials_mix_no_dtypes_and_need_no_infinity() -> None:
    a, b = np.array([1.0, 2.0j], np.complex64), np.array([3.0, 1.0], np.complex64)
    with override(numpy_dtype_promotion="strict"):
        found = special.logsumexp(a, b=b)
    np.testing.assert_allclose(found, np.log((b * np.exp(a)).sum()), rtol=1e-6)
    with override(debug_infs=True):
        assert float(special.logsumexp(np.ones(4, np.float32))) == pytest.approx(2.386294)
    assert float(special.logsumexp(np.ones(0, np.float32))) == -np.inf


def test_hypergeometric_functions_are_infinite_beyond_one_unless_they_end() -> None:
    a, b, c, x = np.array([[0.45, 0.3, -2], [0.7, 1.1, 1.5], [0.45, 2.2, 1], [1.5, 3, 2]])
    expected = reference.hyp2f1(a, b, c, x)
    assert np.isinf(expected).tolist() == [True, True, False]
    np.testing.assert_allclose(special.hyp2f1(a, b, c, x), expected, rtol=1e-6)


def test_complex_gamma_needs_no_promotion() -> None:
    x = np.array([0.5 + 1j, -1.5 + 9j, 3 - 2j], np.complex64)
    with kiln.numpy_dtype_promotion("strict"):
        found = special.gamma(x)
    np.testing.assert_allclose(found, reference.gamma(x), rtol=2e-5)
