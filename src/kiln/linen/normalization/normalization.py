"""Layers that center and scale their input: batch, layer, RMS, group and instance norm.

Each lists all its fields, since their order is that of the constructor's arguments, and fields
common to all norms come after some that only one has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.base import dtypes
from kiln.linen.dtypes import canonicalize_dtype
from kiln.linen.linear.dense import canonical_axes
from kiln.linen.module import Module
from kiln.linen.module.methods import compact, nowrap
from kiln.linen.module.refusal import refused
from kiln.linen.scopes.variables import merge_param
from kiln.nn import initializers

Axes = int | Sequence[int]


def _squared(x: Any) -> Any:
    """Return the square of the absolute value."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return lax.square(lax.real(x)) + lax.square(lax.imag(x))
    return lax.square(x)


def _statistics(
    module: Any, x: Any, axes: Sequence[int], mask: Any, centered: bool = True, shared: bool = True
) -> tuple[Any, Any]:
    """Return the mean and variance along axes, and over a mapped axis if `shared`.

    If not `centered`, the mean is taken to be 0.
    """
    dtype = x.dtype if module.dtype is None else module.dtype
    if module.force_float32_reductions:
        dtype = dtypes.promote_types(dtype, np.float32)
    x = jnp.asarray(x, dtype)
    axis_name = module.axis_name if shared else None

    def means(*values: Any) -> tuple[Any, ...]:
        found = tuple(jnp.mean(value, tuple(axes), where=mask) for value in values)
        if axis_name is None:
            return found
        # One collective for all.
        together = lax.pmean(
            jnp.stack(found), axis_name, axis_index_groups=module.axis_index_groups
        )
        return tuple(together[i] for i in range(len(found)))

    if not centered:
        (variance,) = means(_squared(x))
        return jnp.zeros_like(variance), variance
    if module.use_fast_variance:
        mean, square = means(x, _squared(x))
        # The difference of two roundings may be negative.
        return mean, jnp.maximum(0.0, square - _squared(mean))
    (mean,) = means(x)
    (variance,) = means(_squared(x - jnp.expand_dims(mean, tuple(axes))))
    return mean, variance


def _normalized(
    module: Any,
    x: Any,
    mean: Any,
    variance: Any,
    reduced: Sequence[int],
    features: Sequence[int],
    biased: bool,
) -> Any:
    """Return (x - mean) / sqrt(variance + epsilon), times a scale, plus a bias."""
    kept = [1 if axis in reduced else size for axis, size in enumerate(x.shape)]
    mean, variance = jnp.reshape(mean, kept), jnp.reshape(variance, kept)
    shape = tuple(x.shape[axis] for axis in features)
    seen = [1] * x.ndim
    for axis in features:
        seen[axis] = x.shape[axis]
    factor = lax.rsqrt(variance + module.epsilon)
    operands = [x]
    if module.use_scale:
        scale = module.param("scale", module.scale_init, shape, module.param_dtype)
        scale = jnp.reshape(scale, seen)
        factor = factor * scale
        operands.append(scale)
    out = (x - mean) * factor
    if biased:
        bias = jnp.reshape(module.param("bias", module.bias_init, shape, module.param_dtype), seen)
        out = out + bias
        operands.append(bias)
    return jnp.asarray(out, canonicalize_dtype(*operands, dtype=module.dtype))


def _over_axes(module: Any, x: Any, mask: Any, centered: bool = True) -> Any:
    """Normalize over a module's axes; if not `centered`, there is no bias either."""
    x = jnp.asarray(x)
    reduced = canonical_axes(module, module.reduction_axes, x.ndim, "reduction_axes")
    features = canonical_axes(module, module.feature_axes, x.ndim, "feature_axes")
    mean, variance = _statistics(module, x, reduced, mask, centered)
    return _normalized(
        module, x, mean, variance, reduced, features, biased=centered and module.use_bias
    )


class BatchNorm(Module):
    """Normalize each feature over all other axes, and keep running averages for evaluation.

    The averages are `mean` and `var` in the collection `batch_stats`, which must be mutable during
    training. With `axis_name`, statistics are computed over the whole mapped axis.

    Source: Ioffe and Szegedy 2015.
    Example:
        >>> layer = linen.BatchNorm(use_running_average=False)
        >>> x = jnp.ones((4, 3))
        >>> variables = layer.init(random.key(0), x)
        >>> y, updates = layer.apply(variables, x, mutable=["batch_stats"])
        >>> sorted(updates["batch_stats"])
        ['mean', 'var']
        >>> y.shape
        (4, 3)
    """

    use_running_average: bool | None = None
    axis: Axes = -1
    momentum: float = 0.99
    epsilon: float = 1e-5
    dtype: Any = None
    param_dtype: Any = np.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = initializers.zeros
    scale_init: Any = initializers.ones
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, use_running_average: bool | None = None, *, mask: Any = None) -> Any:
        """Return the normalized input, with statistics over the elements that `mask` selects."""
        use_running_average = merge_param(
            "use_running_average", self.use_running_average, use_running_average
        )
        x = jnp.asarray(x)
        features = canonical_axes(self, self.axis, x.ndim)
        reduced = [axis for axis in range(x.ndim) if axis not in features]
        shape = tuple(x.shape[axis] for axis in features)
        dtype = np.float32 if self.force_float32_reductions else self.param_dtype
        known_mean = self.variable("batch_stats", "mean", lambda: jnp.zeros(shape, dtype))
        known_variance = self.variable("batch_stats", "var", lambda: jnp.ones(shape, dtype))
        if use_running_average:
            mean, variance = known_mean.value, known_variance.value
        else:
            starting = self.is_initializing()
            # While variables are created there may be no mapped axis yet.
            mean, variance = _statistics(self, x, reduced, mask, shared=not starting)
            if not starting:
                known_mean.value = self._moved(known_mean.value, mean)
                known_variance.value = self._moved(known_variance.value, variance)
        return _normalized(self, x, mean, variance, reduced, features, self.use_bias)

    @nowrap
    def _moved(self, average: Any, now: Any) -> Any:
        return self.momentum * average + (1 - self.momentum) * now


class LayerNorm(Module):
    """Normalize each example over `reduction_axes`, with a scale and bias over `feature_axes`.

    Source: Ba, Kiros, Hinton 2016.
    Example:
        >>> layer = linen.LayerNorm()
        >>> y, _ = layer.init_with_output(random.key(0), jnp.array([[1.0, 3.0]]))
        >>> y.round(2)
        Array([[-1.,  1.]], dtype=float32)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = np.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = initializers.zeros
    scale_init: Any = initializers.ones
    reduction_axes: Axes = -1
    feature_axes: Axes = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Return the normalized input, with statistics over the elements that `mask` selects."""
        return _over_axes(self, x, mask)


class RMSNorm(Module):
    """Divide each example by its root mean square over `reduction_axes`, without a bias.

    Source: Zhang and Sennrich 2019.
    Example:
        >>> layer = linen.RMSNorm()
        >>> layer.init_with_output(random.key(0), jnp.array([[3.0, 4.0]]))[0].round(4)
        Array([[0.8485, 1.1314]], dtype=float32)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = np.float32
    use_scale: bool = True
    scale_init: Any = initializers.ones
    reduction_axes: Axes = -1
    feature_axes: Axes = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Return the scaled input, with the mean square over the elements that `mask` selects."""
        return _over_axes(self, x, mask, centered=False)


class GroupNorm(Module):
    """Normalize each group of neighboring features, by default over all axes but the first.

    Source: Wu and He 2018.
    Example:
        >>> layer = linen.GroupNorm(num_groups=2)
        >>> layer.init_with_output(random.key(0), jnp.arange(8.0).reshape(1, 8))[0].round(2)
        Array([[-1.34, -0.45,  0.45,  1.34, -1.34, -0.45,  0.45,
                 1.34]], dtype=float32)
    """

    num_groups: int | None = 32
    group_size: int | None = None
    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = np.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = initializers.zeros
    scale_init: Any = initializers.ones
    reduction_axes: Axes | None = None
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Return the normalized input, with statistics over the elements that `mask` selects.

        Raises: ValueError if the groups do not divide the features.
        """
        x = jnp.asarray(x)
        last = x.ndim - 1
        axes = range(1, x.ndim) if self.reduction_axes is None else self.reduction_axes
        reduced = canonical_axes(self, axes, x.ndim, "reduction_axes")
        if last not in reduced:
            raise refused(
                self,
                f"reduction_axes={self.reduction_axes} of {x.ndim} axes",
                "The reduction axes must include the final dimension as this is assumed to be the "
                "feature axis.",
                "add -1 to reduction_axes",
            )
        channels = x.shape[-1]
        groups = self._groups(channels)
        size = channels // groups
        if mask is not None:
            by_group = (groups, size) if jnp.shape(mask)[-1] == channels else (1, 1)
            mask = jnp.reshape(mask, (*jnp.shape(mask)[:-1], *by_group))
        outer = [axis for axis in reduced if axis != last]
        mean, variance = _statistics(
            self, jnp.reshape(x, (*x.shape[:-1], groups, size)), [*outer, x.ndim], mask
        )
        mean, variance = (jnp.repeat(value, size, axis=-1) for value in (mean, variance))
        return _normalized(self, x, mean, variance, outer, (last,), self.use_bias)

    def _groups(self, channels: int) -> int:
        if (self.num_groups is None) == (self.group_size is None):
            raise refused(
                self,
                f"num_groups={self.num_groups}, group_size={self.group_size}",
                "Either `num_groups` or `group_size` should be specified. If `group_size` is to be "
                "specified, pass `num_groups=None` as argument to override the default "
                "`num_groups` value of 32.",
                "give one of them, and None for the other",
            )
        if self.num_groups is None:
            size = self.group_size or 0
            if size <= 0 or channels % size:
                raise refused(
                    self,
                    f"group_size={size}",
                    f"Number of channels ({channels}) is not multiple of the group size ({size}).",
                    "choose a divisor of the number of features",
                )
            return channels // size
        if self.num_groups <= 0 or channels % self.num_groups:
            raise refused(
                self,
                f"num_groups={self.num_groups}",
                f"Number of groups ({self.num_groups}) does not divide the number of channels "
                f"({channels}).",
                "choose a divisor of the number of features",
            )
        return self.num_groups


class InstanceNorm(Module):
    """Normalize each feature of each example over the spatial axes.

    Source: Ulyanov, Vedaldi, Lempitsky 2016.
    Example:
        >>> layer, x = linen.InstanceNorm(), jnp.arange(4.0).reshape(1, 4, 1)
        >>> layer.init_with_output(random.key(0), x)[0].ravel().round(2)
        Array([-1.34, -0.45,  0.45,  1.34], dtype=float32)
    """

    epsilon: float = 1e-6
    dtype: Any = None
    param_dtype: Any = np.float32
    use_bias: bool = True
    use_scale: bool = True
    bias_init: Any = initializers.zeros
    scale_init: Any = initializers.ones
    feature_axes: Axes = -1
    axis_name: str | None = None
    axis_index_groups: Any = None
    use_fast_variance: bool = True
    force_float32_reductions: bool = True

    @compact
    def __call__(self, x: Any, *, mask: Any = None) -> Any:
        """Return the normalized input, with statistics over the elements that `mask` selects."""
        x = jnp.asarray(x)
        features = canonical_axes(self, self.feature_axes, x.ndim, "feature_axes")
        if 0 in features:
            raise refused(
                self,
                f"feature_axes={self.feature_axes}",
                "The channel axes cannot include the leading dimension as this is assumed to be "
                "the batch axis.",
                "name the axes of features, such as -1",
            )
        reduced = [axis for axis in range(1, x.ndim) if axis not in features]
        mean, variance = _statistics(self, x, reduced, mask)
        return _normalized(self, x, mean, variance, reduced, features, self.use_bias)
