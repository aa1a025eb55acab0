"""Kernel density estimation with Gaussian kernels.

Source: Scott, "Multivariate density estimation" (1992).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from kiln import numpy as jnp
from kiln import random
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree import register_pytree_node_class
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.normalization import logsumexp
from kiln.numpy.promotion import of_own_ranks, promote_dtypes_inexact
from kiln.ops.linear.linalg import cholesky, triangular_solve
from kiln.scipy.special import ndtr

Bandwidth = str | float | Callable[[Any], Any] | None


def _refused(asked: str, wrong: str, remedy: str, error: type[Exception] = ValueError) -> Exception:
    return error(three_lines(f"{asked} at {current_source()}", wrong, remedy))


@register_pytree_node_class
class gaussian_kde:
    """A density estimated from points: the mean of normal densities around them.

    `dataset` is (d, n) or (n,), `weights` (n,). The covariance of a kernel is that of the points,
    times the square of a factor: "scott" n^(-1/(d+4)), "silverman" (n (d+2) / 4)^(-1/(d+4)), a
    number, or what a function returns for the estimate.

    Raises: ValueError for fewer than two points, other shapes, or another `bw_method`;
        TypeError for complex points.
    Example:
        >>> density = kiln.scipy.stats.gaussian_kde(jnp.array([-1.0, 0.0, 1.0]))
        >>> density(jnp.array([0.0, 5.0])).round(4)
        Array([0.3182, 0.    ], dtype=float32)
    """

    neff: Any
    dataset: Any
    weights: Any
    covariance: Any
    inv_cov: Any

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """Return the arrays, as pytrees do."""
        return (self.neff, self.dataset, self.weights, self.covariance, self.inv_cov), None

    @classmethod
    def tree_unflatten(cls, aux_data: None, children: Any) -> gaussian_kde:
        """Return the estimate with these arrays."""
        made = object.__new__(cls)
        names = ("neff", "dataset", "weights", "covariance", "inv_cov")
        for name, value in zip(names, children, strict=True):
            made._set(name, value)
        return made

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(
            three_lines(
                f"gaussian_kde.{name} = ... at {current_source()}",
                "an estimate is not changed",
                "make another gaussian_kde",
            )
        )

    def __init__(
        self,
        dataset: ArrayLike,
        bw_method: Bandwidth = None,
        weights: ArrayLike | None = None,
    ) -> None:
        points = jnp.atleast_2d(jnp.asarray(dataset))
        asked = f"gaussian_kde of {points.aval}"
        if jnp.iscomplexobj(points):
            raise _refused(
                asked, "gaussian_kde does not support complex data", "pass real points", TypeError
            )
        if points.size <= 1:
            raise _refused(
                asked, "`dataset` input should have multiple elements.", "pass more points"
            )
        count = points.shape[1]
        if weights is None:
            (points,) = promote_dtypes_inexact(points)
            w = jnp.full(count, 1 / count, points.dtype)
        else:
            points, w = promote_dtypes_inexact(points, jnp.asarray(weights))
            if w.shape != (count,):
                raise _refused(
                    asked,
                    f"`weights` input should be one-dimensional of size {count}, got {w.shape}",
                    "pass a weight for each point",
                )
            w = w / jnp.sum(w)
        self._set("dataset", points)
        self._set("weights", w)
        self._set("neff", 1 / jnp.sum(w * w))
        factor = self._factor(bw_method)
        spread = jnp.atleast_2d(jnp.cov(points, rowvar=True, bias=False, aweights=w))
        spread = spread.astype(points.dtype)
        self._set("covariance", spread * factor**2)
        self._set("inv_cov", jnp.linalg.inv(spread) / factor**2)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _factor(self, bw_method: Bandwidth) -> Any:
        if bw_method is None or bw_method == "scott":
            return self.neff ** (-1 / (self.d + 4))
        if bw_method == "silverman":
            return (self.neff * (self.d + 2) / 4) ** (-1 / (self.d + 4))
        if callable(bw_method):
            return bw_method(self)
        if not isinstance(bw_method, str) and jnp.ndim(bw_method) == 0:
            return bw_method
        raise _refused(
            f"gaussian_kde with bw_method={bw_method!r:.40}",
            "`bw_method` should be 'scott', 'silverman', a scalar, or a callable.",
            "leave bw_method out",
        )

    @property
    def d(self) -> int:
        """The number of dimensions."""
        return self.dataset.shape[0]

    @property
    def n(self) -> int:
        """The number of points."""
        return self.dataset.shape[1]

    def _points(self, points: Any) -> Any:
        """Return points as columns.

        Raises: ValueError for points of another number of dimensions.
        """
        found = jnp.atleast_2d(jnp.asarray(points))
        if found.shape[0] == self.d:
            return found
        if found.shape == (1, self.d):
            return found.reshape((self.d, 1))
        raise _refused(
            f"points {found.aval} of an estimate in {self.d} dimensions",
            f"points have dimension {found.shape[0]}, dataset has dimension {self.d}",
            f"pass an array of shape ({self.d}, m)",
        )

    def _logarithms(self, points: Any) -> Any:
        """Return the logarithms of weighted kernels, without their constant, as (m, n)."""
        lower = cholesky(self.covariance)
        scaled = triangular_solve(lower, self.dataset, left_side=True, lower=True)
        wanted = triangular_solve(lower, points, left_side=True, lower=True)
        gaps = wanted[:, :, None] - scaled[:, None, :]
        constant = 0.5 * self.d * math.log(2 * math.pi) + jnp.sum(jnp.log(jnp.diagonal(lower)))
        return jnp.log(self.weights) - 0.5 * jnp.sum(gaps * gaps, axis=0) - constant

    @of_own_ranks
    def logpdf(self, x: ArrayLike) -> Array:
        """Return the logarithm of the density at points (d, m) or (m,).

        Raises: ValueError for points of another number of dimensions.
        """
        points, *_ = promote_dtypes_inexact(self._points(x), self.dataset)
        return logsumexp(self._logarithms(points), axis=1)

    def evaluate(self, points: ArrayLike) -> Array:
        """Return the density at points (d, m) or (m,).

        Raises: ValueError for points of another number of dimensions.
        """
        return jnp.exp(self.logpdf(points))

    __call__ = evaluate

    def pdf(self, x: ArrayLike) -> Array:
        """Return the density at points; see `evaluate`."""
        return self.evaluate(x)

    @of_own_ranks
    def integrate_gaussian(self, mean: ArrayLike, cov: ArrayLike) -> Array:
        """Return the integral of the density times that of a normal distribution.

        Raises: ValueError for another number of dimensions.
        """
        center = jnp.atleast_1d(jnp.squeeze(jnp.asarray(mean)))
        spread = jnp.atleast_2d(jnp.asarray(cov))
        if center.shape != (self.d,) or spread.shape != (self.d, self.d):
            raise _refused(
                f"integrate_gaussian of mean {center.aval}, cov {spread.aval}",
                f"mean and cov must have {self.d} dimensions",
                f"pass shapes ({self.d},) and ({self.d}, {self.d})",
            )
        return jnp.sum(jnp.exp(self._overlaps(self.dataset - center[:, None], spread)))

    def _overlaps(self, gaps: Any, spread: Any) -> Any:
        lower = cholesky(self.covariance + spread)
        scaled = triangular_solve(lower, gaps, left_side=True, lower=True)
        constant = 0.5 * self.d * math.log(2 * math.pi) + jnp.sum(jnp.log(jnp.diagonal(lower)))
        return jnp.log(self.weights) - 0.5 * jnp.sum(scaled * scaled, axis=0) - constant

    def integrate_box_1d(self, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the probability of the interval from `low` to `high`.

        Raises: ValueError for an estimate in several dimensions, or limits that are not numbers.
        """
        if self.d != 1:
            raise _refused(
                f"integrate_box_1d of an estimate in {self.d} dimensions",
                "integrate_box_1d() only handles 1D pdfs",
                "integrate over one coordinate",
            )
        if jnp.ndim(low) or jnp.ndim(high):
            raise _refused(
                "integrate_box_1d", "the limits of integration must be scalars", "pass two numbers"
            )
        scale = jnp.sqrt(self.covariance[0, 0])
        points = self.dataset[0]
        upper, lower = (ndtr((end - points) / scale) for end in (high, low))
        return jnp.sum(self.weights * (upper - lower))

    @of_own_ranks
    def integrate_kde(self, other: gaussian_kde) -> Array:
        """Return the integral of the product of two densities.

        Raises: ValueError for another number of dimensions.
        """
        if self.d != other.d:
            raise _refused(
                f"integrate_kde of {self.d} and {other.d} dimensions",
                "KDEs are not the same dimensionality",
                "pass estimates of equal dimensions",
            )
        gaps = (self.dataset[:, None, :] - other.dataset[:, :, None]).reshape((self.d, -1))
        lower = cholesky(self.covariance + other.covariance)
        scaled = triangular_solve(lower, gaps, left_side=True, lower=True)
        kernels = jnp.exp(-0.5 * jnp.sum(scaled * scaled, axis=0)).reshape((other.n, self.n))
        norm = (2 * math.pi) ** (0.5 * self.d) * jnp.prod(jnp.diagonal(lower))
        return jnp.sum(kernels * other.weights[:, None] * self.weights) / norm

    def resample(self, key: Any, shape: tuple[int, ...] = ()) -> Array:
        """Draw points of the estimated density.

        Shapes: (d, *shape).
        """
        choice, noise = random.split(key)
        found = random.choice(choice, self.n, shape=shape, p=self.weights)
        zero = jnp.zeros(self.d, self.dataset.dtype)
        offsets = random.multivariate_normal(
            noise, zero, self.covariance, shape=shape, dtype=self.dataset.dtype
        )
        return self.dataset[:, found] + jnp.moveaxis(offsets, -1, 0)

    def integrate_box(self, low_bounds: Any, high_bounds: Any, maxpts: Any = None) -> Array:
        """Refuse: there is no integral over boxes in several dimensions."""
        raise _refused(
            "integrate_box",
            "only 1D box integrations are supported; use `integrate_box_1d`",
            "use integrate_box_1d",
            NotImplementedError,
        )

    def set_bandwidth(self, bw_method: Bandwidth = None) -> None:
        """Refuse: an estimate is not changed."""
        raise _refused(
            "set_bandwidth",
            "dynamically changing the bandwidth method is not supported",
            "make another gaussian_kde",
            NotImplementedError,
        )
