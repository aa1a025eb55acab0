"""Wrappers of layers that divide the layer's parameters by a norm."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.base.tree import keystr, tree_map_with_path
from kiln.linen.dtypes import canonicalize_dtype
from kiln.linen.linear.dense import canonical_axes
from kiln.linen.module import Module
from kiln.linen.module.methods import compact, nowrap
from kiln.linen.module.refusal import refused
from kiln.linen.transforms import map_variables
from kiln.nn import initializers


def _by_name(layer: Any, path: tuple[Any, ...]) -> str:
    """Return the name of a layer's parameter among the variables of its wrapper."""
    return "/".join([layer.name, *(keystr((key,), simple=True) for key in path[1:])])


def _unit(x: Any, axes: Any, epsilon: float) -> Any:
    return x * lax.rsqrt(jnp.sum(x * x, axes, keepdims=True) + epsilon)


class SpectralNorm(Module):
    """Divide the matrices of a layer by their largest singular value, found by iteration.

    The collection holds, for each matrix, the latest vector `u` and value `sigma`; kernels with
    more axes are treated as matrices of shape (the rest, last axis).
    Source: Miyato, Kataoka, Koyama, Yoshida 2018.
    Example:
        >>> class Net(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.SpectralNorm(linen.Dense(2))(x, update_stats=True)
        >>> sorted(Net().init(random.key(0), jnp.ones((1, 3))))
        ['batch_stats', 'params']
    """

    layer_instance: Module
    n_steps: int = 1
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = np.float32
    error_on_non_matrix: bool = False
    collection_name: str = "batch_stats"

    @compact
    def __call__(self, *args: Any, update_stats: bool, **kwargs: Any) -> Any:
        """Call the layer with divided matrices.

        The iteration continues for `n_steps` from the latest values; if `update_stats`, the
        collection stores the new ones.
        """

        def forward(layer: Any) -> Any:
            return layer(*args, **kwargs)

        def divided(variables: Any) -> Any:
            return tree_map_with_path(
                lambda path, value: self._divided(path, value, update_stats), variables
            )

        return map_variables(
            forward, trans_in_fn=divided, init=self.is_initializing(), mutable=True
        )(self.layer_instance)

    @nowrap
    def _divided(self, path: tuple[Any, ...], given: Any, update_stats: bool) -> Any:
        given = jnp.asarray(given)
        if given.ndim <= 1 or self.n_steps < 1:
            return given
        if given.ndim > 2 and self.error_on_non_matrix:
            raise refused(
                self,
                f"a parameter of {given.shape}, error_on_non_matrix=True",
                f"Input is {given.ndim}D but error_on_non_matrix is True",
                "leave error_on_non_matrix False: the axes before the last are merged",
            )
        matrix = jnp.reshape(given, (-1, given.shape[-1]))
        name = _by_name(self.layer_instance, path)
        vector = self._variable(
            f"{name}/u",
            lambda: initializers.normal(1.0)(
                self.make_rng("params"), (1, matrix.shape[-1]), self.param_dtype
            ),
        )
        largest = self._variable(f"{name}/sigma", lambda: jnp.ones((), self.param_dtype))
        u, v = vector.value, None
        for _ in range(self.n_steps):
            v = _unit(jnp.matmul(u, matrix.T), None, self.epsilon)
            u = _unit(jnp.matmul(v, matrix), None, self.epsilon)
        u, v = lax.stop_gradient(u), lax.stop_gradient(v)
        sigma = jnp.matmul(jnp.matmul(v, matrix), u.T)[0, 0]  # type: ignore[arg-type]
        if update_stats:
            vector.value, largest.value = u, sigma
        matrix = matrix / jnp.where(sigma != 0, sigma, 1)
        dtype = canonicalize_dtype(given, u, sigma, dtype=self.dtype)
        return jnp.asarray(jnp.reshape(matrix, given.shape), dtype)

    @nowrap
    def _variable(self, name: str, start: Any) -> Any:
        return self.variable(self.collection_name, name, start)


class WeightNorm(Module):
    """Give the parameters of a layer unit norm, and each feature a learned length.

    Parameters whose path contains a string of `variable_filter` are normalized; all, if it is None.
    Source: Salimans and Kingma 2016.
    Example:
        >>> layer = linen.WeightNorm(linen.Dense(2))
        >>> layer.init_with_output(random.key(0), jnp.ones((1, 3)))[0].shape
        (1, 2)
    """

    layer_instance: Module
    epsilon: float = 1e-12
    dtype: Any = None
    param_dtype: Any = np.float32
    use_scale: bool = True
    scale_init: Any = initializers.ones
    feature_axes: int | Iterable[int] | None = -1
    variable_filter: Iterable[str] | None = frozenset({"kernel"})

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer with normalized parameters."""

        def forward(layer: Any) -> Any:
            return layer(*args, **kwargs)

        def normalized(variables: Any) -> Any:
            return tree_map_with_path(self._normalized, variables)

        return map_variables(forward, trans_in_fn=normalized, init=self.is_initializing())(
            self.layer_instance
        )

    @nowrap
    def _normalized(self, path: tuple[Any, ...], given: Any) -> Any:
        given = jnp.asarray(given)
        name = _by_name(self.layer_instance, path)
        if self.variable_filter and not any(part in name for part in self.variable_filter):
            return given
        wanted = () if self.feature_axes is None else self.feature_axes
        features = canonical_axes(self, wanted, given.ndim, "feature_axes")
        reduced = tuple(axis for axis in range(given.ndim) if axis not in features)
        out = _unit(given, reduced, self.epsilon)
        operands = [given]
        if self.use_scale:
            shape = tuple(given.shape[axis] for axis in features)
            scale = self.param(f"{name}/scale", self.scale_init, shape, self.param_dtype)
            seen = [size if axis in features else 1 for axis, size in enumerate(given.shape)]
            scale = jnp.reshape(scale, seen)
            out = out * scale
            operands.append(scale)
        return jnp.asarray(out, canonicalize_dtype(*operands, dtype=self.dtype))
