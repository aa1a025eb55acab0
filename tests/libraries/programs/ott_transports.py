"""Optimal transport by OTT: Sinkhorn's iterations, their derivatives, and a barycenter."""

from __future__ import annotations

import jax
import numpy as np
from ott.geometry import pointcloud
from ott.problems.linear import linear_problem
from ott.solvers.linear import sinkhorn, sinkhorn_lr
from ott.tools import sinkhorn_divergence

_random = np.random.RandomState(2)
X = _random.randn(20, 2).astype(np.float32)
Y = (_random.randn(24, 2) + 1).astype(np.float32)


def transport():
    """Costs, potentials, the plan."""

    @jax.jit
    def solve(x, y):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, y, epsilon=0.5))
        return sinkhorn.Sinkhorn()(problem)

    out = solve(X, Y)
    return {"cost": out.reg_ot_cost, "f": out.f, "g": out.g, "plan": out.matrix}


def derivative():
    """Through the solution, by the implicit function theorem."""

    def cost(x):
        problem = linear_problem.LinearProblem(pointcloud.PointCloud(x, Y, epsilon=0.5))
        return sinkhorn.Sinkhorn()(problem).reg_ot_cost

    value, gradient = jax.jit(jax.value_and_grad(cost))(X)
    return {"value": value, "gradient": gradient}


def divergence():
    """Sinkhorn's divergence of two clouds."""
    found = sinkhorn_divergence.sinkhorn_divergence(
        pointcloud.PointCloud, X, Y, epsilon=0.5, share_epsilon=True
    )
    value = found[0] if isinstance(found, tuple) else found
    return {"value": getattr(value, "divergence", value)}


def low_rank():
    """A plan of low rank."""
    problem = linear_problem.LinearProblem(pointcloud.PointCloud(X, Y))
    out = sinkhorn_lr.LRSinkhorn(rank=4, epsilon=0.1)(problem)
    return {"cost": out.primal_cost}


PROGRAMS = {
    "transport": transport,
    "derivative": derivative,
    "divergence": divergence,
    "low_rank": low_rank,
}
