"""Optimization, by the names of `scipy.optimize`."""

from kiln.scipy.optimize.minimization import OptimizeResults as OptimizeResults
from kiln.scipy.optimize.minimization import minimize as minimize
