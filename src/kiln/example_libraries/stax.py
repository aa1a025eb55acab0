"""Neural networks as pairs (init, apply) of functions, and how to compose them.

`init(key, input_shape)` returns the output's shape and the parameters; `apply(params, inputs,
**kwargs)` the output. Constructors of layers are named in CamelCase.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from kiln import lax, nn, random
from kiln import numpy as jnp
from kiln.api.make_jaxpr import eval_shape
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.nn.initializers import glorot_normal, normal, ones, zeros

Layer = tuple[Callable[..., Any], Callable[..., Any]]

randn = normal
glorot = glorot_normal
logsoftmax = nn.log_softmax


_glorot = glorot_normal()
_small = normal()
_tiny = normal(1e-6)


def _shape_after(fun: Callable[..., Any], *shapes: Any) -> Any:
    structs = [ShapeDtypeStruct(shape, "float32") for shape in shapes]
    return eval_shape(fun, *structs).shape


def Dense(out_dim: int, W_init: Any = _glorot, b_init: Any = _small) -> Layer:
    """Return a layer that multiplies by a matrix and adds a bias.

    `W_init` and `b_init` are the initializers of both.
    Shapes: (..., features) -> (..., out_dim).
    """

    def init(rng: Any, input_shape: Any) -> Any:
        first, second = random.split(rng)
        weights = W_init(first, (input_shape[-1], out_dim))
        return (*input_shape[:-1], out_dim), (weights, b_init(second, (out_dim,)))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        weights, bias = params
        return jnp.dot(inputs, weights) + bias

    return init, apply


def _convolution(
    convolve: Callable[..., Any],
    numbers: Any,
    out_chan: int,
    filter_shape: Any,
    W_init: Any,
    b_init: Any,
) -> Layer:
    lhs, rhs, out = numbers
    weigh = W_init or glorot_normal(rhs.index("I"), rhs.index("O"))

    def init(rng: Any, input_shape: Any) -> Any:
        sizes = iter(filter_shape)
        channels = {"O": out_chan, "I": input_shape[lhs.index("C")]}
        kernel = tuple(channels[c] if c in channels else next(sizes) for c in rhs)
        bias = tuple(out_chan if c == "C" else 1 for c in out)
        first, second = random.split(rng)
        shape = _shape_after(convolve, input_shape, kernel)
        return shape, (weigh(first, kernel), b_init(second, bias))

    def apply(params: Any, inputs: Any, **kwargs: Any) -> Any:
        weights, bias = params
        return convolve(inputs, weights) + bias

    return init, apply


def GeneralConv(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _tiny,
) -> Layer:
    """Return a convolution; `dimension_numbers` are three strings such as ("NHWC", "HWIO", ...).

    `out_chan` is the number of output features, `filter_shape` the sizes of the kernel in space,
    `strides` (by default ones) and `padding` what `lax.conv_general_dilated` takes; `W_init` and
    `b_init` are the initializers of kernel and bias.
    """
    steps = strides or (1,) * len(filter_shape)

    def convolve(x: Any, weights: Any) -> Any:
        return lax.conv_general_dilated(
            x, weights, steps, padding, dimension_numbers=dimension_numbers
        )

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


Conv = functools.partial(GeneralConv, ("NHWC", "HWIO", "NHWC"))


def GeneralConvTranspose(
    dimension_numbers: Any,
    out_chan: int,
    filter_shape: Any,
    strides: Any = None,
    padding: Any = "VALID",
    W_init: Any = None,
    b_init: Any = _tiny,
) -> Layer:
    """Return a transposed convolution.

    `dimension_numbers` are three strings such as ("NHWC", "HWIO", "NHWC"); the other arguments are
    those of `GeneralConv`, and `padding` is what `lax.conv_transpose` takes.
    """
    steps = strides or (1,) * len(filter_shape)

    def convolve(x: Any, weights: Any) -> Any:
        return lax.conv_transpose(x, weights, steps, padding, dimension_numbers=dimension_numbers)

    return _convolution(convolve, dimension_numbers, out_chan, filter_shape, W_init, b_init)


Conv1DTranspose = functools.partial(GeneralConvTranspose, ("NHC", "HIO", "NHC"))
ConvTranspose = functools.partial(GeneralConvTranspose, ("NHWC", "HWIO", "NHWC"))


def BatchNorm(
    axis: Any = (0, 1, 2),
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
    beta_init: Any = zeros,
    gamma_init: Any = ones,
) -> Layer:
    """Return a layer that standardizes over `axis`, then shifts and scales.

    `epsilon` is added to the variance. The shift is there if `center`, the scale if `scale`;
    `beta_init` and `gamma_init` are their initializers.
    Shapes: parameters have the axes of the input that are not in `axis`.
    """
    axes = (axis,) if isinstance(axis, int) else tuple(axis)

    def init(rng: Any, input_shape: Any) -> Any:
        shape = tuple(d for i, d in enumerate(input_shape) if i not in axes)
        first, second = random.split(rng)
        beta = beta_init(first, shape) if center else ()
        return input_shape, (beta, gamma_init(second, shape) if scale else ())

    def apply(params: Any, x: Any, **kwargs: Any) -> Any:
        beta, gamma = params
        at = tuple(None if i in axes else slice(None) for i in range(x.ndim))
        z = nn.standardize(x, axes, epsilon=epsilon)
        z = gamma[at] * z if scale else z
        return z + beta[at] if center else z

    return init, apply


def elementwise(fun: Callable[..., Any], **fun_kwargs: Any) -> Layer:
    """Return a layer without parameters that applies a function to its input.

    `fun_kwargs` are passed on to the function.
    Shapes: those of the input.
    """
    return (
        lambda rng, input_shape: (input_shape, ()),
        lambda params, inputs, **kwargs: fun(inputs, **fun_kwargs),
    )


Tanh = elementwise(jnp.tanh)
Relu = elementwise(nn.relu)
Exp = elementwise(jnp.exp)
LogSoftmax = elementwise(nn.log_softmax, axis=-1)
Softmax = elementwise(nn.softmax, axis=-1)
Softplus = elementwise(nn.softplus)
Sigmoid = elementwise(nn.sigmoid)
Elu = elementwise(nn.elu)
LeakyRelu = elementwise(nn.leaky_relu)
Selu = elementwise(nn.selu)
Gelu = elementwise(nn.gelu)
Identity = elementwise(lambda x: x)


def _pooling(reducer: Any, start: float, mean: bool = False) -> Callable[..., Layer]:
    def pool(
        window_shape: Any, strides: Any = None, padding: Any = "VALID", spec: str | None = None
    ) -> Layer:
        """Return a layer that reduces windows; `spec` is such as "NHWC"."""
        window, steps = tuple(window_shape), tuple(strides or (1,) * len(window_shape))
        fixed = (0, len(window) + 1) if spec is None else (spec.index("N"), spec.index("C"))
        for i in sorted(fixed):
            window, steps = (*window[:i], 1, *window[i:]), (*steps[:i], 1, *steps[i:])

        def reduced(x: Any) -> Any:
            out = lax.reduce_window(x, start, reducer, window, steps, padding)
            if not mean:
                return out
            sizes = tuple(1 if i in fixed else n for i, n in enumerate(x.shape))
            counted = jnp.ones(sizes, x.dtype)
            return out / lax.reduce_window(counted, 0.0, lax.add, window, steps, padding)

        return (
            lambda rng, input_shape: (_shape_after(reduced, input_shape), ()),
            lambda params, inputs, **kwargs: reduced(inputs),
        )

    return pool


MaxPool = _pooling(lax.max, -math.inf)
SumPool = _pooling(lax.add, 0.0)
AvgPool = _pooling(lax.add, 0.0, mean=True)

Flatten: Layer = (
    lambda rng, input_shape: ((input_shape[0], math.prod(input_shape[1:])), ()),
    lambda params, inputs, **kwargs: jnp.reshape(inputs, (inputs.shape[0], -1)),
)


def FanOut(num: int) -> Layer:
    """Return a layer that repeats its input.

    Shapes: any -> a list of `num` inputs.
    """
    return (
        lambda rng, input_shape: ([input_shape] * num, ()),
        lambda params, inputs, **kwargs: [inputs] * num,
    )


FanInSum: Layer = (
    lambda rng, input_shape: (input_shape[0], ()),
    lambda params, inputs, **kwargs: sum(inputs),
)


def FanInConcat(axis: int = -1) -> Layer:
    """Return a layer that joins its inputs along an axis."""

    def init(rng: Any, input_shape: Any) -> Any:
        at = axis % len(input_shape[0])
        size = sum(shape[at] for shape in input_shape)
        return (*input_shape[0][:at], size, *input_shape[0][at + 1 :]), ()

    return init, lambda params, inputs, **kwargs: jnp.concatenate(inputs, axis)


def Dropout(rate: Any, mode: str = "train") -> Layer:
    """Return a layer that keeps each input with probability `rate`, and scales what it keeps.

    Raises: ValueError by `apply` without `rng`.
    """

    def apply(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        if rng is None:
            raise ValueError(
                three_lines(
                    f"apply of Dropout at {current_source()}",
                    "Dropout layer requires apply_fun to be called with a PRNG key argument",
                    "write apply(params, inputs, rng=key)",
                )
            )
        if mode != "train":
            return inputs
        return jnp.where(random.bernoulli(rng, rate, inputs.shape), inputs / rate, 0)

    return lambda rng, input_shape: (input_shape, ()), apply


def _keys(rng: Any, count: int) -> Any:
    return (None,) * count if rng is None else random.split(rng, count)


def serial(*layers: Layer) -> Layer:
    """Return the composition of layers, each applied to the result of the one before."""

    def init(rng: Any, input_shape: Any) -> Any:
        params = []
        for start, _ in layers:
            rng, own = random.split(rng)
            input_shape, found = start(own, input_shape)
            params.append(found)
        return input_shape, params

    def apply(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        for (_, fun), own, key in zip(layers, params, _keys(rng, len(layers)), strict=True):
            inputs = fun(own, inputs, rng=key, **kwargs)
        return inputs

    return init, apply


def parallel(*layers: Layer) -> Layer:
    """Return a layer that applies each layer to its own input; see `FanOut`.

    Inputs, outputs and parameters are sequences with one entry for each of `layers`.
    Raises: ValueError for another number of inputs.
    """

    def init(rng: Any, input_shape: Any) -> Any:
        keys = random.split(rng, len(layers))
        parts = zip(layers, keys, input_shape, strict=True)
        return zip(*[start(key, shape) for (start, _), key, shape in parts], strict=True)

    def apply(params: Any, inputs: Any, rng: Any = None, **kwargs: Any) -> Any:
        parts = zip(layers, params, inputs, _keys(rng, len(layers)), strict=True)
        return [fun(own, x, rng=key, **kwargs) for (_, fun), own, x, key in parts]

    return init, apply


def shape_dependent(make_layer: Callable[[Any], Layer]) -> Layer:
    """Return a layer that is made once the shape of its input is known.

    `make_layer(shape)` returns the layer; it is called for each `init` and `apply`.
    """
    return (
        lambda rng, input_shape: make_layer(input_shape)[0](rng, input_shape),
        lambda params, inputs, **kwargs: make_layer(inputs.shape)[1](params, inputs, **kwargs),
    )
