"""Recurrent cells: (carry, input of one step) -> (carry, output of that step).

A gate is a function of a projection of the input plus one of the state; the parameters are named by
their operand (`i` input, `h` state) and by the gate. Only one of the two needs a bias.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.linen.dtypes import promote_dtype
from kiln.linen.linear.convolution import Conv
from kiln.linen.linear.dense import Dense, default_kernel_init, parameters
from kiln.linen.module import Module
from kiln.linen.module.methods import compact, nowrap
from kiln.nn import initializers
from kiln.nn.activations import sigmoid, tanh
from kiln.random import split


class RNNCellBase(Module):
    """The interface that `RNN` needs: the first carry, and which input axes are features.

    Example:
        >>> class Sum(linen.RNNCellBase):
        ...     @linen.compact
        ...     def __call__(self, total, x):
        ...         return total + x, total + x
        ...
        ...     def initialize_carry(self, rng, input_shape):
        ...         return jnp.zeros(input_shape)
        ...
        ...     @property
        ...     def num_feature_axes(self):
        ...         return 1
        >>> linen.RNN(Sum()).apply({}, jnp.ones((1, 3, 1))).ravel()
        Array([1., 2., 3.], dtype=float32)
    """

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> Any:
        """Return the carry before the first step, for inputs of one step of this shape."""
        raise NotImplementedError(_missing(self, "initialize_carry(self, rng, input_shape)"))

    @property
    def num_feature_axes(self) -> int:
        """How many of the last axes of an input are not batch axes."""
        raise NotImplementedError(_missing(self, "num_feature_axes"))


def _missing(cell: Module, name: str) -> str:
    kind = type(cell).__name__
    return three_lines(
        f"{kind} as a recurrent cell at {current_source()}",
        f"{kind} does not say {name}",
        f"define it in {kind}",
    )


class _VectorCell(RNNCellBase):
    """A cell of vectors, whose carry is just the state unless overridden."""

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> Any:
        """Return the state before the first step: (batch..., features)."""
        return _beginning(self, rng, input_shape)

    @property
    def num_feature_axes(self) -> int:
        """One: the last."""
        return 1


class _GatedCell(_VectorCell):
    """The fields that an LSTM and a GRU have in common."""

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = initializers.orthogonal()
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable[..., Any] = initializers.zeros


class LSTMCell(_GatedCell):
    """Long short-term memory: a memory c, updated by gates i and f, and a state h that exposes it.

    i, f, o = σ(W x + U h + b), g = tanh(W x + U h + b); c' = f c + i g, h' = o tanh(c').

    Source: Hochreiter and Schmidhuber (1997), Long short-term memory
    Example:
        >>> cell, x = linen.LSTMCell(features=4), jnp.ones((2, 3))
        >>> carry = cell.initialize_carry(random.key(0), x.shape)
        >>> (memory, hidden), out = cell.init_with_output(random.key(1), carry, x)[0]
        >>> memory.shape, out.shape
        ((2, 4), (2, 4))
    """

    @compact
    def __call__(self, carry: tuple[Any, Any], inputs: Any) -> tuple[tuple[Any, Any], Any]:
        """Run one step.

        Shapes: ((batch..., features), (batch..., features)), (batch..., inputs)
            -> those of the carry, (batch..., features)
        """
        memory, state = carry
        of_input, of_state = _projections(self, state, use_bias=False)
        i, f, g, o = (
            of_input(name=f"i{x}")(inputs) + of_state(name=f"h{x}")(state) for x in "ifgo"
        )
        return _rewritten(memory, i, f, g, o, self.gate_fn, self.activation_fn)

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return memory and state before the first step: (batch..., features) twice."""
        return _beginning_pair(self, rng, input_shape)


class OptimizedLSTMCell(LSTMCell):
    """`LSTMCell` with the same parameters, and one product each for input and state.

    Example:
        >>> cell, x = linen.OptimizedLSTMCell(features=4), jnp.ones((2, 3))
        >>> carry = cell.initialize_carry(random.key(0), x.shape)
        >>> cell.init_with_output(random.key(1), carry, x)[0][1].shape
        (2, 4)
    """

    @compact
    def __call__(self, carry: tuple[Any, Any], inputs: Any) -> tuple[tuple[Any, Any], Any]:
        """Run one step.

        Shapes: ((batch..., features), (batch..., features)), (batch..., inputs)
            -> those of the carry, (batch..., features)
        """
        memory, state = carry
        of_input, of_state = _projections(self, state, use_bias=False, layer=_Weights)
        pairs = [(of_input(name=f"i{x}")(inputs), of_state(name=f"h{x}")(state)) for x in "ifgo"]
        sums = _multiplied(inputs, [x for x, _ in pairs], self.dtype)
        sums = sums + _multiplied(state, [h for _, h in pairs], self.dtype)
        i, f, g, o = jnp.split(sums, 4, axis=-1)
        return _rewritten(memory, i, f, g, o, self.gate_fn, self.activation_fn)


def _multiplied(x: Any, weights: list[tuple[Any, Any]], dtype: Any) -> Any:
    """Multiply by all kernels, concatenated, and add the biases."""
    kernels, biases = zip(*weights, strict=True)
    kernel = jnp.concatenate(kernels, axis=-1)
    bias = None if biases[0] is None else jnp.concatenate(biases, axis=-1)
    x, kernel, bias = promote_dtype(x, kernel, bias, dtype=dtype)
    return jnp.dot(x, kernel) if bias is None else jnp.dot(x, kernel) + bias


class _Weights(Dense):
    """A `Dense` that returns its parameters instead of applying them."""

    @compact
    def __call__(self, inputs: Any) -> Any:
        return parameters(self, (inputs.shape[-1], self.features), (self.features,))


class SimpleCell(_VectorCell):
    """h' = tanh(W x + b + U h), plus h inside the tanh if `residual`.

    Source: Elman (1990), Finding structure in time; residual: Yue, Fu and Liang (2018),
        arXiv:1801.06105
    Example:
        >>> cell, x = linen.SimpleCell(features=4), jnp.ones((2, 3))
        >>> carry = cell.initialize_carry(random.key(0), x.shape)
        >>> cell.init_with_output(random.key(1), carry, x)[0][1].shape
        (2, 4)
    """

    features: int
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = initializers.orthogonal()
    bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable[..., Any] = initializers.zeros
    residual: bool = False

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, Any]:
        """Run one step.

        Shapes: (batch..., features), (batch..., inputs) -> (batch..., features) twice
        """
        of_input, of_state = _projections(self, carry)
        state = of_input(name="i")(inputs) + of_state(name="h")(carry)
        if self.residual:
            state = state + carry
        state = self.activation_fn(state)
        return state, state


class GRUCell(_GatedCell):
    """Gated recurrent unit: a state, partly replaced (gate z) by a candidate n.

    r, z = σ(W x + b + U h), n = tanh(W x + b + r (U h + b)); h' = (1 - z) n + z h.

    Source: Cho et al. (2014), Learning phrase representations using RNN encoder-decoder
    Example:
        >>> cell, x = linen.GRUCell(features=4), jnp.ones((2, 3))
        >>> carry = cell.initialize_carry(random.key(0), x.shape)
        >>> cell.init_with_output(random.key(1), carry, x)[0][1].shape
        (2, 4)
    """

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, Any]:
        """Run one step.

        Shapes: (batch..., features), (batch..., inputs) -> (batch..., features) twice
        """
        of_input, of_state = _projections(self, carry)
        r, z = (
            self.gate_fn(of_input(name=f"i{x}")(inputs) + of_state(name=f"h{x}")(carry))
            for x in "rz"
        )
        # The state's bias is inside the product with r, so that of the input cannot replace it.
        state = of_state(name="hn", use_bias=True)(carry)
        proposal = self.activation_fn(of_input(name="in")(inputs) + r * state)
        state = (1.0 - z) * proposal + z * carry
        return state, state


class MGUCell(_VectorCell):
    """Minimal gated unit: a GRU with one gate f.

    f = σ(W x + b + U h), n = tanh(W x + b + f (U h + b)); h' = (1 - f) n + f h. Without
    `reset_gate`, n contains neither f nor the second bias.

    Source: Zhou et al. (2016), Minimal gated unit for recurrent neural networks, arXiv:1603.09420
    Example:
        >>> cell, x = linen.MGUCell(features=4), jnp.ones((2, 3))
        >>> carry = cell.initialize_carry(random.key(0), x.shape)
        >>> cell.init_with_output(random.key(1), carry, x)[0][1].shape
        (2, 4)
    """

    features: int
    gate_fn: Callable[..., Any] = sigmoid
    activation_fn: Callable[..., Any] = tanh
    kernel_init: Callable[..., Any] = default_kernel_init
    recurrent_kernel_init: Callable[..., Any] = initializers.orthogonal()
    forget_bias_init: Callable[..., Any] = initializers.ones
    activation_bias_init: Callable[..., Any] = initializers.zeros
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable[..., Any] = initializers.zeros
    reset_gate: bool = True

    @compact
    def __call__(self, carry: Any, inputs: Any) -> tuple[Any, Any]:
        """Run one step.

        Shapes: (batch..., features), (batch..., inputs) -> (batch..., features) twice
        """
        of_input, of_state = _projections(self, carry, self.activation_bias_init)
        forget = of_input(name="if", bias_init=self.forget_bias_init)(inputs)
        f = self.gate_fn(forget + of_state(name="hf")(carry))
        state = of_state(name="hn", use_bias=self.reset_gate)(carry)
        if self.reset_gate:
            state = state * f
        proposal = self.activation_fn(of_input(name="in")(inputs) + state)
        state = (1.0 - f) * proposal + f * carry
        return state, state


class ConvLSTMCell(RNNCellBase):
    """`LSTMCell` on images: convolutions (`ih`, `hh`) instead of products.

    One is added to the forget gate, so that the memory is initially retained.

    Source: Shi et al. (2015), Convolutional LSTM network, arXiv:1506.04214; the one: Jozefowicz et
        al. (2015), An empirical exploration of recurrent network architectures
    Example:
        >>> cell, image = linen.ConvLSTMCell(features=4, kernel_size=(3, 3)), jnp.ones((1, 8, 8, 2))
        >>> carry = cell.initialize_carry(random.key(0), image.shape)
        >>> cell.init_with_output(random.key(1), carry, image)[0][1].shape
        (1, 8, 8, 4)
    """

    features: int
    kernel_size: Sequence[int]
    strides: Sequence[int] | None = None
    padding: str | Sequence[tuple[int, int]] = "SAME"
    use_bias: bool = True
    dtype: Any = None
    param_dtype: Any = jnp.float32
    carry_init: Callable[..., Any] = initializers.zeros

    @compact
    def __call__(self, carry: tuple[Any, Any], inputs: Any) -> tuple[tuple[Any, Any], Any]:
        """Run one step.

        Shapes: ((batch..., space..., features) twice), (batch..., space..., inputs)
            -> those of the carry, (batch..., space..., features)
        """
        memory, state = carry
        convolve = functools.partial(
            Conv,
            features=4 * self.features,
            kernel_size=self.kernel_size,
            strides=self.strides,
            padding=self.padding,
            use_bias=self.use_bias,
            dtype=self.dtype,
            param_dtype=self.param_dtype,
        )
        sums = convolve(name="ih")(inputs) + convolve(name="hh")(state)
        i, g, f, o = jnp.split(sums, 4, axis=-1)
        return _rewritten(memory, i, f + 1, g, o, sigmoid, tanh)

    @nowrap
    def initialize_carry(self, rng: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
        """Return memory and state before the first step: (batch..., space..., features) twice."""
        return _beginning_pair(self, rng, input_shape)

    @property
    def num_feature_axes(self) -> int:
        """The spatial axes and the feature axis."""
        return len(self.kernel_size) + 1


def _projections(
    cell: Any,
    state: Any,
    bias_init: Any = None,
    use_bias: bool = True,
    layer: type[Dense] = Dense,
) -> Any:
    """Return constructors for the layers of input and state, of which one has a bias."""
    dense = functools.partial(
        layer,
        features=state.shape[-1],
        dtype=cell.dtype,
        param_dtype=cell.param_dtype,
        bias_init=bias_init or cell.bias_init,
    )
    of_input = functools.partial(dense, use_bias=use_bias, kernel_init=cell.kernel_init)
    of_state = functools.partial(
        dense, use_bias=not use_bias, kernel_init=cell.recurrent_kernel_init
    )
    return of_input, of_state


def _rewritten(
    memory: Any,
    i: Any,
    f: Any,
    g: Any,
    o: Any,
    gate: Callable[..., Any],
    squash: Callable[..., Any],
) -> tuple[tuple[Any, Any], Any]:
    """Return an LSTM's new memory and state, given the gates before their activations."""
    memory = gate(f) * memory + gate(i) * squash(g)
    state = gate(o) * squash(memory)
    return (memory, state), state


def _beginning(cell: Any, rng: Any, input_shape: tuple[int, ...]) -> Any:
    return cell.carry_init(rng, (*input_shape[:-1], cell.features), cell.param_dtype)


def _beginning_pair(cell: Any, rng: Any, input_shape: tuple[int, ...]) -> tuple[Any, Any]:
    memory, state = split(rng)
    return _beginning(cell, memory, input_shape), _beginning(cell, state, input_shape)
