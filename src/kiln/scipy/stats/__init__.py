"""Distributions and statistics, by the names of `scipy.stats`; modules load on first use."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use

if _TYPE_CHECKING:
    from kiln.scipy.stats import bernoulli as bernoulli
    from kiln.scipy.stats import beta as beta
    from kiln.scipy.stats import betabinom as betabinom
    from kiln.scipy.stats import binom as binom
    from kiln.scipy.stats import cauchy as cauchy
    from kiln.scipy.stats import chi2 as chi2
    from kiln.scipy.stats import dirichlet as dirichlet
    from kiln.scipy.stats import expon as expon
    from kiln.scipy.stats import gamma as gamma
    from kiln.scipy.stats import gennorm as gennorm
    from kiln.scipy.stats import geom as geom
    from kiln.scipy.stats import gumbel_l as gumbel_l
    from kiln.scipy.stats import gumbel_r as gumbel_r
    from kiln.scipy.stats import laplace as laplace
    from kiln.scipy.stats import logistic as logistic
    from kiln.scipy.stats import multinomial as multinomial
    from kiln.scipy.stats import multivariate_normal as multivariate_normal
    from kiln.scipy.stats import nbinom as nbinom
    from kiln.scipy.stats import norm as norm
    from kiln.scipy.stats import pareto as pareto
    from kiln.scipy.stats import poisson as poisson
    from kiln.scipy.stats import t as t
    from kiln.scipy.stats import truncnorm as truncnorm
    from kiln.scipy.stats import uniform as uniform
    from kiln.scipy.stats import vonmises as vonmises
    from kiln.scipy.stats import wrapcauchy as wrapcauchy
    from kiln.scipy.stats.kde import gaussian_kde as gaussian_kde
    from kiln.scipy.stats.summaries import mode as mode
    from kiln.scipy.stats.summaries import rankdata as rankdata
    from kiln.scipy.stats.summaries import sem as sem

__getattr__, __dir__ = _on_first_use(
    globals(),
    "bernoulli",
    "beta",
    "betabinom",
    "binom",
    "cauchy",
    "chi2",
    "dirichlet",
    "expon",
    "gamma",
    "gennorm",
    "geom",
    "gumbel_l",
    "gumbel_r",
    "laplace",
    "logistic",
    "multinomial",
    "multivariate_normal",
    "nbinom",
    "norm",
    "pareto",
    "poisson",
    "t",
    "truncnorm",
    "uniform",
    "vonmises",
    "wrapcauchy",
    "kiln.scipy.stats.kde: gaussian_kde",
    "kiln.scipy.stats.summaries: mode rankdata sem",
)
