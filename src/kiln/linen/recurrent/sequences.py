"""Running recurrent cells over sequences: `RNN` in one direction, `Bidirectional` in both."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

from kiln import numpy as jnp
from kiln.linen.frozen_dict import FrozenDict
from kiln.linen.module import Module
from kiln.linen.recurrent.cells import RNNCellBase
from kiln.linen.transforms.axes import scan
from kiln.random import key, split
from kiln.tree import map as tree_map


class RNN(Module):
    """Apply a cell to a sequence, step by step, with the same parameters at each step.

    Inputs are (batch..., time, features...), or (time, batch..., features...) if `time_major`. With
    `reverse`, the steps are taken from last to first, and the outputs are in that order unless
    `keep_order` aligns them with their inputs. `return_carry` also returns the last carry. The
    other fields are passed to `linen.scan`.

    Example:
        >>> layer = linen.RNN(linen.LSTMCell(features=4))
        >>> layer.init_with_output(random.key(0), jnp.ones((2, 5, 3)))[0].shape
        (2, 5, 4)
    """

    cell: RNNCellBase
    time_major: bool = False
    return_carry: bool = False
    reverse: bool = False
    keep_order: bool = False
    unroll: int = 1
    variable_axes: Mapping[Any, Any] = FrozenDict()
    variable_broadcast: Any = "params"
    variable_carry: Any = False
    split_rngs: Mapping[Any, bool] = FrozenDict({"params": False})

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """Run all steps; arguments override the fields of the same name.

        The first carry is `initial_carry`, or the cell's own, made with `init_key`. Elements beyond
        a sequence's length are padding: it stays at the end when steps are reversed, its outputs
        are meaningless, and the returned carry is the one before it.

        Shapes: (batch..., time, features...) -> (batch..., time, outputs...);
            seq_lengths (batch...)
        """
        return_carry = self.return_carry if return_carry is None else return_carry
        time_major = self.time_major if time_major is None else time_major
        reverse = self.reverse if reverse is None else reverse
        keep_order = self.keep_order if keep_order is None else keep_order
        batch_dims = inputs.ndim - self.cell.num_feature_axes - 1
        axis = 0 if time_major else batch_dims

        def flipped(tree: Any) -> Any:
            return tree_map(lambda x: flip_sequences(x, seq_lengths, batch_dims, time_major), tree)

        if reverse:
            inputs = flipped(inputs)
        if initial_carry is None:
            shape = inputs.shape[:axis] + inputs.shape[axis + 1 :]
            initial_carry = self.cell.initialize_carry(
                key(0) if init_key is None else init_key, shape
            )
        # The sequences end at different steps: all carries are kept, and each picks its own.
        picks = return_carry and seq_lengths is not None

        def step(cell: Any, carry: Any, x: Any) -> Any:
            carry, y = cell(carry, x)
            return carry, ((carry, y) if picks else y)

        carry, outputs = scan(
            step,
            in_axes=axis,
            out_axes=(0, axis) if picks else axis,
            unroll=self.unroll,
            variable_axes=self.variable_axes,
            variable_broadcast=self.variable_broadcast,
            variable_carry=self.variable_carry,
            split_rngs=self.split_rngs,
        )(self.cell, initial_carry, inputs)
        if picks:
            carries, outputs = outputs
            carry = tree_map(lambda x: _at(x, seq_lengths - 1), carries)
        if reverse and keep_order:
            outputs = flipped(outputs)
        return (carry, outputs) if return_carry else outputs


def _at(history: Any, steps: Any) -> Any:
    """Pick a step per sequence: (time, batch..., rest...), (batch...) -> (batch..., rest...)."""
    places = jnp.expand_dims(steps, (0, *range(-1, steps.ndim - history.ndim, -1)))
    return jnp.squeeze(jnp.take_along_axis(history, places, axis=0), 0)


def flip_sequences(inputs: Any, seq_lengths: Any, num_batch_dims: int, time_major: bool) -> Any:
    """Reverse each sequence within its length; padding stays at the end.

    Shapes: (batch..., time, rest...) or (time, batch..., rest...), (batch...) -> those of inputs
    """
    axis = 0 if time_major else num_batch_dims
    if seq_lengths is None:
        return jnp.flip(inputs, axis)
    steps = inputs.shape[axis]
    places = jnp.arange(steps).reshape(
        tuple(steps if i == axis else 1 for i in range(num_batch_dims + 1))
    )
    places = (jnp.expand_dims(seq_lengths, axis) - 1 - places) % steps
    rest = inputs.ndim - num_batch_dims - 1
    return jnp.take_along_axis(inputs, places.reshape(places.shape + (1,) * rest), axis)


def _side_by_side(forward: Any, backward: Any) -> Any:
    return jnp.concatenate([forward, backward], axis=-1)


class Bidirectional(Module):
    """Apply one `RNN` forwards and one backwards, and merge their outputs step by step.

    Example:
        >>> layer = linen.Bidirectional(linen.RNN(linen.GRUCell(4)), linen.RNN(linen.GRUCell(4)))
        >>> layer.init_with_output(random.key(0), jnp.ones((2, 5, 3)))[0].shape
        (2, 5, 8)
    """

    forward_rnn: Any
    backward_rnn: Any
    merge_fn: Callable[[Any, Any], Any] = _side_by_side
    time_major: bool = False
    return_carry: bool = False

    def __call__(
        self,
        inputs: Any,
        *,
        initial_carry: Any = None,
        init_key: Any = None,
        seq_lengths: Any = None,
        return_carry: bool | None = None,
        time_major: bool | None = None,
        reverse: bool | None = None,
        keep_order: bool | None = None,
    ) -> Any:
        """Run all steps in both directions; carries are pairs. See `RNN` for the arguments.

        `reverse` and `keep_order` have no effect; they are accepted for compatibility with `RNN`.
        """
        time_major = self.time_major if time_major is None else time_major
        return_carry = self.return_carry if return_carry is None else return_carry
        if self.forward_rnn is self.backward_rnn:
            warnings.warn(
                "forward_rnn and backward_rnn are the same module and share their parameters",
                stacklevel=2,
            )
        keys = (None, None) if init_key is None else split(init_key)
        first = (None, None) if initial_carry is None else initial_carry
        options = {"seq_lengths": seq_lengths, "return_carry": True, "time_major": time_major}
        before, forward = self.forward_rnn(
            inputs, initial_carry=first[0], init_key=keys[0], reverse=False, **options
        )
        after, backward = self.backward_rnn(
            inputs,
            initial_carry=first[1],
            init_key=keys[1],
            reverse=True,
            keep_order=True,
            **options,
        )
        outputs = tree_map(self.merge_fn, forward, backward)
        return ((before, after), outputs) if return_carry else outputs
