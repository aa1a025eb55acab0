"""Convolutions: with a shared kernel, with a kernel per position, and transposed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln import lax
from kiln import numpy as jnp
from kiln.api.make_jaxpr import eval_shape
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.linen.dtypes import promote_dtype
from kiln.linen.linear.dense import default_kernel_init, parameters
from kiln.linen.module import Module
from kiln.linen.module.methods import compact, nowrap
from kiln.linen.module.refusal import refused
from kiln.nn import initializers

Sizes = tuple[int, ...]

WRAPPED = {"CIRCULAR": "wrap", "REFLECT": "reflect"}
"""Paddings that `pad` supports, by linen's names."""
NAMED = frozenset(("SAME", "VALID", "SAME_LOWER"))
"""Paddings that the primitive supports."""


def canonical_padding(
    module: Module | None, padding: Any, rank: int
) -> str | list[tuple[int, int]]:
    """Return a name, or (low, high) for each spatial axis.

    Raises: ValueError for anything else.
    """
    if isinstance(padding, str):
        return padding
    if isinstance(padding, (int, np.integer)):
        return [(int(padding), int(padding))] * rank
    pairs = [
        (x, x) if isinstance(x, (int, np.integer)) else tuple(x or ())
        for x in (padding if isinstance(padding, Sequence) else ())
    ]
    if len(pairs) != rank or any(len(pair) != 2 for pair in pairs):
        raise refused(
            module,
            f"padding={padding!r}",
            f"Invalid padding format: {padding}, should be str, int, or a sequence of len {rank} "
            "where each element is an int or pair of ints.",
            "use 'SAME', 'VALID', 'CIRCULAR', 'REFLECT', or a (low, high) pair for each axis",
        )
    return pairs


def canonicalize_padding(padding: Any, rank: int) -> str | list[tuple[int, int]]:
    """Return a padding as its name, or as (low, high) for each of `rank` spatial axes.

    Raises: ValueError for anything else.
    """
    return canonical_padding(None, padding, rank)


def _unknown_padding(module: Module, padding: Any, known: Sequence[str]) -> Exception:
    return refused(
        module,
        f"padding={padding!r}",
        f"Unrecognized padding type: expected one of {', '.join(known)}, got {padding}.",
        "use one of these, a number, or a (low, high) pair for each axis",
        RuntimeError,
    )


def _for_each_axis(module: Module, value: Any, rank: int, what: str) -> Sizes:
    if value is None:
        return (1,) * rank
    if isinstance(value, (int, np.integer)):
        return (int(value),) * rank
    found = tuple(value)
    if len(found) != rank:
        raise refused(
            module,
            f"{what}={found} with a kernel of {rank} axes of space",
            f"{what} must have one number for each of {rank} axes, but has {len(found)}",
            f"give {rank} numbers, or one for all",
        )
    return found


def _kernel_size(module: Any) -> Sizes:
    size = module.kernel_size
    return (int(size),) if isinstance(size, (int, np.integer)) else tuple(size)


def _merged_batch(module: Module, inputs: Any, rank: int) -> tuple[Any, tuple[int, ...] | None]:
    """Return the input with one batch axis, and its batch axes if there were more or none."""
    inputs = jnp.asarray(inputs)
    batch = inputs.ndim - rank - 1
    if batch < 0:
        raise refused(
            module,
            f"an input of {inputs.shape} with a kernel of {rank} axes of space",
            f"the input has {inputs.ndim} axes, but needs {rank} of space and one of features",
            "add axes, or use a kernel_size of fewer numbers",
        )
    if batch == 1:
        return inputs, None
    leading = inputs.shape[:batch]
    return jnp.reshape(inputs, (math.prod(leading), *inputs.shape[batch:])), leading


def _split_batch(out: Any, leading: tuple[int, ...] | None) -> Any:
    return out if leading is None else jnp.reshape(out, leading + out.shape[1:])


def _masked(module: Any, kernel: Any) -> Any:
    """Return the kernel with the mask's zeros."""
    if module.mask is None:
        return kernel
    if jnp.shape(module.mask) != jnp.shape(kernel):
        raise refused(
            module,
            f"mask of {jnp.shape(module.mask)} for a kernel of {jnp.shape(kernel)}",
            "Mask needs to have the same shape as weights. "
            f"Shapes are: {jnp.shape(module.mask)}, {jnp.shape(kernel)}",
            "give the mask the kernel's shape: (*kernel_size, inputs, features)",
        )
    return kernel * module.mask


def _weighted(
    module: Any, inputs: Any, kernel_shape: Sizes, bias_shape: Sizes
) -> tuple[Any, Any, Any]:
    """Return the input, the masked kernel and the bias, all in the dtype to compute in."""
    kernel, bias = parameters(module, kernel_shape, bias_shape)
    promoted = module.promote_dtype(inputs, _masked(module, kernel), bias, dtype=module.dtype)
    return tuple(promoted)


class _Conv(Module):
    """The common base of convolutions with a shared kernel and without."""

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] | None = 1
    padding: Any = "SAME"
    input_dilation: int | Sequence[int] | None = 1
    kernel_dilation: int | Sequence[int] | None = 1
    feature_group_count: int = 1
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = np.float32
    precision: Any = None
    kernel_init: Any = default_kernel_init
    bias_init: Any = initializers.zeros
    promote_dtype: Any = promote_dtype
    conv_general_dilated: Any = None
    conv_general_dilated_cls: Any = None

    @property
    def shared_weights(self) -> bool:
        """Whether every position has the same kernel."""
        raise NotImplementedError

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Return the convolution plus a bias.

        Shapes: (*batch, *space, inputs) -> (*batch, *space, features).
        """
        size = _kernel_size(self)
        rank = len(size)
        inputs, leading = _merged_batch(self, inputs, rank)
        strides = _for_each_axis(self, self.strides, rank, "strides")
        input_dilation = _for_each_axis(self, self.input_dilation, rank, "input_dilation")
        kernel_dilation = _for_each_axis(self, self.kernel_dilation, rank, "kernel_dilation")
        inputs, padding = self._padded(inputs, size, kernel_dilation)
        numbers = lax.ConvDimensionNumbers(
            (0, rank + 1, *range(1, rank + 1)),
            (rank + 1, rank, *range(rank)),
            (0, rank + 1, *range(1, rank + 1)),
        )
        windows: dict[str, Any] = {
            "lhs_dilation": input_dilation,
            "rhs_dilation": kernel_dilation,
            "dimension_numbers": numbers,
        }
        channels = inputs.shape[-1]
        self._check_groups(channels)
        if self.shared_weights:
            kernel_shape: Sizes = (*size, channels // self.feature_group_count, self.features)
            bias_shape: Sizes = (self.features,)
        else:
            space = self._places(inputs, size, strides, padding, windows)
            kernel_shape = (*space, math.prod(size) * channels, self.features)
            bias_shape = (*space, self.features)
        inputs, kernel, bias = _weighted(self, inputs, kernel_shape, bias_shape)
        if self.shared_weights:
            out = self._convolution()(
                inputs,
                kernel,
                strides,
                padding,
                **windows,
                feature_group_count=self.feature_group_count,
                precision=self.precision,
            )
        else:
            out = lax.conv_general_dilated_local(
                inputs, kernel, strides, padding, size, **windows, precision=self.precision
            )
        return _split_batch(out if bias is None else out + bias, leading)

    @nowrap
    def _padded(self, inputs: Any, size: Sizes, dilation: Sizes) -> tuple[Any, Any]:
        """Apply the padding that the primitive does not support; return the input and the rest."""
        padding = canonical_padding(self, self.padding, len(size))
        spans = [(k - 1) * d for k, d in zip(size, dilation, strict=True)]
        if not isinstance(padding, str) or padding in NAMED:
            return inputs, padding
        if padding in WRAPPED:
            pads = [(0, 0), *((span // 2, span - span // 2) for span in spans), (0, 0)]
            return jnp.pad(inputs, pads, mode=WRAPPED[padding]), "VALID"
        if padding != "CAUSAL":
            raise _unknown_padding(self, padding, [*sorted(NAMED), *WRAPPED, "CAUSAL"])
        if len(size) != 1:
            raise refused(
                self,
                f"padding='CAUSAL' with kernel_size={size}",
                "Causal padding is only implemented for 1D convolutions.",
                "give (low, high) for each axis: low is dilation * (size - 1) along time",
                ValueError,
            )
        return jnp.pad(inputs, [(0, 0), (spans[0], 0), (0, 0)]), "VALID"

    @nowrap
    def _check_groups(self, channels: int) -> None:
        groups = self.feature_group_count
        if groups != 1 and not self.shared_weights:
            raise refused(
                self,
                f"feature_group_count={groups}",
                "`lax.conv_general_dilated_local` does not support `feature_group_count != 1`, "
                f"got `{groups}`.",
                "use Conv, or a ConvLocal for each group",
                NotImplementedError,
            )
        if groups < 1 or channels % groups or self.features % groups:
            raise refused(
                self,
                f"feature_group_count={groups} for {channels} inputs, {self.features} features",
                f"feature_group_count {groups} must divide the inputs and the features",
                "choose a common divisor of both",
            )

    @nowrap
    def _places(
        self, inputs: Any, size: Sizes, strides: Sizes, padding: Any, windows: dict[str, Any]
    ) -> Sizes:
        """Return the sizes of the result's spatial axes."""
        kernel = ShapeDtypeStruct((*size, inputs.shape[-1], self.features), inputs.dtype)
        struct = ShapeDtypeStruct(inputs.shape, inputs.dtype)
        out = eval_shape(
            lambda x, w: lax.conv_general_dilated(x, w, strides, padding, **windows),
            struct,
            kernel,
        )
        return tuple(out.shape[1:-1])

    @nowrap
    def _convolution(self) -> Any:
        if self.conv_general_dilated_cls is not None:
            return self.conv_general_dilated_cls()
        if self.conv_general_dilated is not None:
            return self.conv_general_dilated
        return lax.conv_general_dilated


class Conv(_Conv):
    """Convolve the spatial axes with a kernel of shape (*kernel_size, inputs / groups, features).

    Paddings: 'SAME', 'VALID', 'SAME_LOWER', 'CIRCULAR', 'REFLECT', 'CAUSAL' (one axis only; nothing
    depends on later elements), a number, or a number or (low, high) per axis.

    Shapes: (..., *spatial, inputs) -> (..., *spatial, features).
    Example:
        >>> layer = linen.Conv(features=8, kernel_size=(3, 3))
        >>> y, variables = layer.init_with_output(random.key(0), jnp.ones((1, 6, 6, 3)))
        >>> y.shape, variables["params"]["kernel"].shape
        ((1, 6, 6, 8), (3, 3, 3, 8))
    """

    @property
    def shared_weights(self) -> bool:
        """Whether every position has the same kernel: yes."""
        return True


class ConvLocal(_Conv):
    """Multiply each patch by its own kernel, of shape (inputs * prod(kernel_size), features).

    Example:
        >>> layer = linen.ConvLocal(features=4, kernel_size=(3,))
        >>> variables = layer.init(random.key(0), jnp.ones((1, 8, 2)))
        >>> variables["params"]["kernel"].shape
        (8, 6, 4)
    """

    @property
    def shared_weights(self) -> bool:
        """Whether every position has the same kernel: no."""
        return False


class ConvTranspose(Module):
    """Convolve with fractional strides, as the gradient of a convolution does.

    With `transpose_kernel` the kernel has shape (*kernel_size, features, inputs), as in the
    convolution whose gradient this is.

    Example:
        >>> layer = linen.ConvTranspose(features=4, kernel_size=(2, 2), strides=(2, 2))
        >>> layer.init_with_output(random.key(0), jnp.ones((1, 8, 8, 3)))[0].shape
        (1, 16, 16, 4)
    """

    features: int
    kernel_size: int | Sequence[int]
    strides: int | Sequence[int] | None = None
    padding: Any = "SAME"
    kernel_dilation: int | Sequence[int] | None = None
    use_bias: bool = True
    mask: Any = None
    dtype: Any = None
    param_dtype: Any = np.float32
    precision: Any = None
    kernel_init: Any = default_kernel_init
    bias_init: Any = initializers.zeros
    transpose_kernel: bool = False
    promote_dtype: Any = promote_dtype
    preferred_element_type: Any = None

    @compact
    def __call__(self, inputs: Any) -> Any:
        """Return the transposed convolution plus a bias.

        Shapes: (*batch, *space, inputs) -> (*batch, *space * strides, features) if padded so.
        """
        size = _kernel_size(self)
        rank = len(size)
        inputs, leading = _merged_batch(self, inputs, rank)
        strides = _for_each_axis(self, self.strides, rank, "strides")
        dilation = _for_each_axis(self, self.kernel_dilation, rank, "kernel_dilation")
        padding = canonical_padding(self, self.padding, rank)
        circular = padding == "CIRCULAR"
        if isinstance(padding, str) and padding not in ("SAME", "VALID", "CIRCULAR"):
            raise _unknown_padding(self, padding, ["SAME", "VALID", "CIRCULAR"])
        ends = (inputs.shape[-1], self.features)
        kernel_shape = (*size, *(ends[::-1] if self.transpose_kernel else ends))
        inputs, kernel, bias = _weighted(self, inputs, kernel_shape, (self.features,))
        out = lax.conv_transpose(
            inputs,
            kernel,
            strides,
            "VALID" if circular else padding,
            rhs_dilation=dilation,
            transpose_kernel=self.transpose_kernel,
            precision=self.precision,
            preferred_element_type=self.preferred_element_type,
        )
        if circular:
            periods = [n * s for n, s in zip(inputs.shape[1:-1], strides, strict=True)]
            out = _wound(out, periods, self.transpose_kernel)
        return _split_batch(out if bias is None else out + bias, leading)


def _wound(x: Any, periods: Sequence[int], transposed: bool) -> Any:
    """Wrap each spatial axis around a circle and sum the elements that coincide.

    The middle of the axis stays in place; for kernels of even size the transposed ones are shifted
    to the other side.
    """
    for axis, period in enumerate(periods, 1):
        # The middle stays in place if the number of wraps around the axis is odd.
        missing = (period - x.shape[axis]) % (2 * period)
        low = missing // 2 if transposed else missing - missing // 2
        pads = [(0, 0)] * x.ndim
        pads[axis] = (low, missing - low)
        turns = jnp.pad(x, pads)
        turns = jnp.reshape(turns, (*x.shape[:axis], -1, period, *x.shape[axis + 1 :]))
        x = jnp.sum(turns, axis=axis)
    return x
