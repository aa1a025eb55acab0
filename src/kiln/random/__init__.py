"""The public `kiln.random`: keys, and variates that are functions of a key. One file per topic."""

from __future__ import annotations

from kiln.random.counting import binomial, multinomial, poisson
from kiln.random.gamma import (
    ball,
    beta,
    chisquare,
    dirichlet,
    f,
    gamma,
    generalized_normal,
    loggamma,
    t,
)
from kiln.random.inversion import (
    cauchy,
    exponential,
    geometric,
    gumbel,
    laplace,
    logistic,
    pareto,
    rayleigh,
    triangular,
    weibull_min,
)
from kiln.random.keys import (
    PRNGKey,
    clone,
    fold_in,
    key,
    key_data,
    key_impl,
    split,
    wrap_key_data,
)
from kiln.random.matrices import multivariate_normal, orthogonal
from kiln.random.normal import (
    double_sided_maxwell,
    lognormal,
    maxwell,
    normal,
    truncated_normal,
    wald,
)
from kiln.random.selection import categorical, choice, permutation
from kiln.random.uniform import bernoulli, bits, rademacher, randint, uniform
