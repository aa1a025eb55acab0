"""Distributions and statistics are SciPy's, in 64 bits and at the edges of supports."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.stats as reference

import kiln
from kiln.scipy import stats

X = np.array([-1.5, -0.3, 0.0, 0.2, 0.5, 0.9, 1.0, 1.7, 4.0, 30.0, np.nan, np.inf, -np.inf])
Q = np.array([-0.1, 0.0, 1e-9, 0.1, 0.5, 0.8, 1.0, 1.1, np.nan])
K = np.array([-1.0, 0, 1, 2, 3, 5, 6, 0.5])
PARAMETERS: dict[str, tuple[float, ...]] = {
    **dict.fromkeys(("norm", "cauchy", "expon", "uniform", "laplace", "logistic"), ()),
    **dict.fromkeys(("gumbel_r", "gumbel_l"), ()),
    "gamma": (2.3,),
    "chi2": (3.1,),
    "beta": (2.1, 1.3),
    "pareto": (2.2,),
    "t": (3.3,),
    "gennorm": (1.4,),
    "vonmises": (2.0,),
    "wrapcauchy": (0.3,),
    "truncnorm": (-0.7, 1.9),
}
DISCRETE: dict[str, tuple[float, ...]] = {
    "bernoulli": (0.3,),
    "binom": (5, 0.3),
    "betabinom": (5, 1.2, 2.2),
    "geom": (0.3,),
    "nbinom": (3, 0.4),
    "poisson": (2.2,),
}
SAMPLE = np.random.default_rng(0).normal(size=(3, 9))


def _asked(name: str, fun: str) -> np.ndarray:
    if fun in ("ppf", "isf"):
        return Q
    return K if name in DISCRETE else X


@pytest.mark.parametrize("name", [*PARAMETERS, *DISCRETE])
def test_distribution(name: str) -> None:
    module = getattr(stats, name)
    parameters = (PARAMETERS | DISCRETE)[name]
    calls = []
    for fun in set(module.__all__) - {"entropy"}:
        takes = inspect.signature(getattr(module, fun)).parameters
        calls += [(fun, {})] + ([(fun, {"loc": 0.3, "scale": 1.7})] if "scale" in takes else [])

    def run(*arguments: Any) -> Any:
        pairs = zip(calls, arguments, strict=True)
        return [getattr(module, f)(x, *parameters, **options) for (f, options), x in pairs]

    with kiln.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = kiln.jit(run)(*[_asked(name, fun) for fun, _ in calls])
        for (fun, options), value in zip(calls, found, strict=True):
            wanted = getattr(getattr(reference, name), fun)
            expected = wanted(_asked(name, fun), *parameters, **options)
            text = f"{name}.{fun} {options}"
            np.testing.assert_allclose(value, expected, rtol=2e-12, atol=1e-300, err_msg=text)


def test_entropy() -> None:
    mu = np.array([0.0, 0.1, 2.0, 20, 59, 61, 300])
    with kiln.enable_x64(True):
        found = stats.poisson.entropy(mu)
    np.testing.assert_allclose(found, reference.poisson.entropy(mu), rtol=1e-10)


def test_several_dimensions() -> None:
    spread = SAMPLE[:, :3] @ SAMPLE[:, :3].T + np.eye(3)
    with kiln.enable_x64(True):
        normal = reference.multivariate_normal(SAMPLE[:, 0], spread)
        found = stats.multivariate_normal.logpdf(SAMPLE.T, SAMPLE[:, 0], spread)
        np.testing.assert_allclose(found, normal.logpdf(SAMPLE.T), rtol=1e-13)
        found = stats.multivariate_normal.pdf(SAMPLE.T, SAMPLE[:, 0], spread)
        np.testing.assert_allclose(found, normal.pdf(SAMPLE.T), rtol=1e-13)
        p = np.array([0.2, 0.3, 0.5])
        found = stats.dirichlet.pdf(p, np.array([1.0, 2, 3]))
        np.testing.assert_allclose(found, reference.dirichlet.pdf(p, [1, 2, 3]), rtol=1e-13)
        short = stats.dirichlet.pdf(p[:2], np.array([1.0, 2, 3]))
        np.testing.assert_allclose(short, found, rtol=1e-13)
        assert float(stats.dirichlet.logpdf(2 * p, np.array([1.0, 2, 3]))) == -np.inf
        found = stats.multinomial.pmf(np.array([1, 2, 3]), 6, p)
        np.testing.assert_allclose(found, reference.multinomial.pmf([1, 2, 3], 6, p), rtol=1e-13)


@pytest.mark.parametrize("axis", [0, 1, None])
def test_modes_and_ranks(axis: int | None) -> None:
    a = np.random.default_rng(1).integers(0, 4, (5, 6))
    with kiln.enable_x64(True):
        for found, expected in zip(stats.mode(a, axis), reference.mode(a, axis), strict=True):
            np.testing.assert_array_equal(found, expected)
        for method in ("average", "min", "max", "dense", "ordinal"):
            found = stats.rankdata(a, method, axis=axis)
            np.testing.assert_array_equal(found, reference.rankdata(a, method, axis=axis))
        np.testing.assert_allclose(stats.sem(a, axis), reference.sem(a, axis))


@pytest.mark.parametrize("dimensions", [1, 2])
@pytest.mark.parametrize("bandwidth", [None, "silverman", 0.4])
def test_kernel_density(dimensions: int, bandwidth: Any) -> None:
    points, weights = SAMPLE[:dimensions], np.abs(SAMPLE[2])
    with kiln.enable_x64(True):
        ours = stats.gaussian_kde(points, bandwidth, weights)
        theirs = reference.gaussian_kde(points, bandwidth, weights)
        where = SAMPLE[:dimensions, :4] + 0.1
        np.testing.assert_allclose(kiln.jit(lambda k: k(where))(ours), theirs(where))
        np.testing.assert_allclose(ours.logpdf(where), theirs.logpdf(where))
        other = reference.gaussian_kde(points[:, :5])
        found = ours.integrate_kde(stats.gaussian_kde(points[:, :5]))
        np.testing.assert_allclose(found, theirs.integrate_kde(other))
        center, spread = np.zeros(dimensions), np.eye(dimensions)
        found = ours.integrate_gaussian(center, spread)
        np.testing.assert_allclose(found, theirs.integrate_gaussian(center, spread))
        if dimensions == 1:
            found = ours.integrate_box_1d(-1.0, 0.5)
            np.testing.assert_allclose(found, theirs.integrate_box_1d(-1.0, 0.5))
    assert ours.resample(kiln.random.key(0), (4,)).shape == (dimensions, 4)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: stats.rankdata(np.ones(2), "best"), ValueError, "unknown method"),
        (lambda: stats.mode(np.ones(2), nan_policy="omit"), NotImplementedError, "omit"),
        (lambda: stats.gaussian_kde(np.ones(1)), ValueError, "multiple elements"),
        (lambda: stats.gaussian_kde(np.ones(3), "wide"), ValueError, "bw_method"),
        (lambda: stats.gaussian_kde(SAMPLE).set_bandwidth(1), NotImplementedError, "dynamically"),
        (lambda: stats.dirichlet.pdf(np.ones(5), np.ones(3)), ValueError, "one entry fewer"),
    ],
)
def test_refusals(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        call()
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "functions", "parameters"),
    [
        *(("beta", "logpdf pdf", p) for p in [(-2, 1), (2, -1), (0, 1), (2, 0)]),
        *(("beta", "logpdf pdf", (2, 1, 0, scale)) for scale in (-1, 0)),
        *(("betabinom", "logpmf pmf", p) for p in [(-5, 1, 2), (5, -1, 2), (5, 1, 0)]),
        ("gennorm", "cdf", (0,)),
        *(
            (name, "logpdf pdf cdf logcdf sf logsf", (0, scale))
            for name in ("gumbel_l", "gumbel_r")
            for scale in (-1, 0)
        ),
    ],
)
def test_parameters_that_must_be_positive(name: str, functions: str, parameters: Any) -> None:
    x = np.array([-1.0, 0.0, 0.5, 1.0, 2.0])
    for function in functions.split():
        found = getattr(getattr(stats, name), function)(x, *parameters)
        assert np.isnan(found).all(), function
        assert np.isnan(getattr(getattr(reference, name), function)(x, *parameters)).all()


def test_counts_need_no_promotion() -> None:
    x, n, p = np.array([1, 2]), 3, np.array([0.25, 0.75], np.float32)
    with kiln.numpy_dtype_promotion("strict"):
        found = stats.multinomial.logpmf(x, n, p)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, reference.multinomial.logpmf(x, n, p), rtol=1e-6)
