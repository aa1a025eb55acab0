"""The public `kiln.random`: keys, and samplers that are functions of a key. One file per topic."""

from __future__ import annotations

from kiln.base.lazy import on_first_use as _on_first_use
from kiln.random.counting import binomial as binomial
from kiln.random.counting import multinomial as multinomial
from kiln.random.counting import poisson as poisson
from kiln.random.gamma import ball as ball
from kiln.random.gamma import beta as beta
from kiln.random.gamma import chisquare as chisquare
from kiln.random.gamma import dirichlet as dirichlet
from kiln.random.gamma import f as f
from kiln.random.gamma import gamma as gamma
from kiln.random.gamma import generalized_normal as generalized_normal
from kiln.random.gamma import loggamma as loggamma
from kiln.random.gamma import t as t
from kiln.random.inversion import cauchy as cauchy
from kiln.random.inversion import exponential as exponential
from kiln.random.inversion import geometric as geometric
from kiln.random.inversion import gumbel as gumbel
from kiln.random.inversion import laplace as laplace
from kiln.random.inversion import logistic as logistic
from kiln.random.inversion import pareto as pareto
from kiln.random.inversion import rayleigh as rayleigh
from kiln.random.inversion import triangular as triangular
from kiln.random.inversion import weibull_min as weibull_min
from kiln.random.keys import PRNGKey as PRNGKey
from kiln.random.keys import clone as clone
from kiln.random.keys import fold_in as fold_in
from kiln.random.keys import key as key
from kiln.random.keys import key_data as key_data
from kiln.random.keys import key_dtype as key_dtype
from kiln.random.keys import key_impl as key_impl
from kiln.random.keys import split as split
from kiln.random.keys import wrap_key_data as wrap_key_data
from kiln.random.matrices import multivariate_normal as multivariate_normal
from kiln.random.matrices import orthogonal as orthogonal
from kiln.random.normal import double_sided_maxwell as double_sided_maxwell
from kiln.random.normal import lognormal as lognormal
from kiln.random.normal import maxwell as maxwell
from kiln.random.normal import normal as normal
from kiln.random.normal import truncated_normal as truncated_normal
from kiln.random.normal import wald as wald
from kiln.random.selection import categorical as categorical
from kiln.random.selection import choice as choice
from kiln.random.selection import permutation as permutation
from kiln.random.uniform import bernoulli as bernoulli
from kiln.random.uniform import bits as bits
from kiln.random.uniform import rademacher as rademacher
from kiln.random.uniform import randint as randint
from kiln.random.uniform import uniform as uniform

__getattr__, __dir__ = _on_first_use(globals())
