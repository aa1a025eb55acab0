"""Optimization, by the names of `scipy.optimize`."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.scipy.optimize.minimization import OptimizeResults as OptimizeResults
from kiln.scipy.optimize.minimization import minimize as minimize

_suggest_names(globals())
