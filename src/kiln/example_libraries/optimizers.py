"""Optimizers as triples (init, update, get_params) of functions over pytrees of parameters.

`init(params)` returns a state, `update(step, gradients, state)` the next one, `get_params(state)`
the parameters. A step size is a number, or a function of the step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from kiln import numpy as jnp
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.source import current_source
from kiln.base.tree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from kiln.base.tree.nodes import register_pytree_node

Array = Any
Params = Any
State = Any
Updates = Any
Step = int
Schedule = Callable[[Any], Any]


class OptimizerState(NamedTuple):
    """The states of all parameters, flat, with both levels of their structure."""

    packed_state: Any
    tree_def: Any
    subtree_defs: Any


register_pytree_node(
    OptimizerState,
    lambda state: ((state.packed_state,), (state.tree_def, state.subtree_defs)),
    lambda data, children: OptimizerState(children[0], *data),
)

InitFn = Callable[[Params], OptimizerState]
UpdateFn = Callable[[Step, Updates, OptimizerState], OptimizerState]
ParamsFn = Callable[[OptimizerState], Params]


class Optimizer(NamedTuple):
    """The three functions of an optimizer."""

    init_fn: InitFn
    update_fn: UpdateFn
    params_fn: ParamsFn


def optimizer(opt_maker: Callable[..., Any]) -> Callable[..., Optimizer]:
    """Make an optimizer of pytrees from one of single arrays.

    Raises: TypeError by `update` for gradients, or new states, of another structure.
    """

    @functools.wraps(opt_maker)
    def of_trees(*args: Any, **kwargs: Any) -> Optimizer:
        init, update, get_params = opt_maker(*args, **kwargs)

        def tree_init(params: Any) -> OptimizerState:
            leaves, tree = tree_flatten(params)
            return _packed([init(x) for x in leaves], tree)

        def tree_update(i: Any, gradients: Any, state: OptimizerState) -> OptimizerState:
            flat, tree = tree_flatten(gradients)
            _check("gradient", tree, "parameter", state.tree_def)
            states = _states(state)
            found = _packed([update(i, g, s) for g, s in zip(flat, states, strict=True)], tree)
            _check("new state", found.subtree_defs, "state", state.subtree_defs)
            return found

        def tree_params(state: OptimizerState) -> Any:
            return tree_unflatten(state.tree_def, [get_params(s) for s in _states(state)])

        return Optimizer(tree_init, tree_update, tree_params)

    return of_trees


def _packed(states: list[Any], tree: Any) -> OptimizerState:
    parts = [tree_flatten(s) for s in states]
    return OptimizerState(tuple(p[0] for p in parts), tree, tuple(p[1] for p in parts))


def _states(state: OptimizerState) -> list[Any]:
    parts = zip(state.subtree_defs, state.packed_state, strict=True)
    return [tree_unflatten(tree, flat) for tree, flat in parts]


def _check(what: str, found: Any, other: str, wanted: Any) -> None:
    if found != wanted:
        raise TypeError(
            three_lines(
                f"update of an optimizer at {current_source()}",
                f"the {what} tree did not match the {other} tree: {found} and {wanted}",
                "pass trees of the structure that init was given",
            )
        )


@optimizer
def sgd(step_size: Any) -> Any:
    """Return stochastic gradient descent.

    `step_size` is a number, or a function of the step.
    """
    step = make_schedule(step_size)
    return lambda x: x, lambda i, g, x: x - step(i) * g, lambda x: x


def _first(state: Any) -> Any:
    return state[0]


@optimizer
def momentum(step_size: Any, mass: float) -> Any:
    """Return gradient descent with momentum.

    `step_size` is a number, or a function of the step. `mass` is the share of its velocity that a
    step keeps.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step(i) * velocity, velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def nesterov(step_size: Any, mass: float) -> Any:
    """Return gradient descent with Nesterov's momentum.

    `step_size` is a number, or a function of the step. `mass` is the share of its velocity that a
    step keeps.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, velocity = state
        velocity = mass * velocity + g
        return x - step(i) * (mass * velocity + g), velocity

    return lambda x: (x, jnp.zeros_like(x)), update, _first


def _inverse_root(x: Any) -> Any:
    return jnp.where(x > 0, 1.0 / jnp.sqrt(x), 0.0)


@optimizer
def adagrad(step_size: Any, momentum: float = 0.9) -> Any:
    """Return AdaGrad with momentum (Duchi, Hazan, Singer 2011).

    `step_size` is a number, or a function of the step. `momentum` is the share of the average that
    a step keeps.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        return x - step(i) * m, squares, m

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop(step_size: Any, gamma: float = 0.9, eps: float = 1e-8) -> Any:
    """Return RMSProp.

    `step_size` is a number, or a function of the step. `gamma` is the decay rate of the average of
    squared gradients; `eps` keeps the quotient finite.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        return x - step(i) * g / jnp.sqrt(squares + eps), squares

    return lambda x: (x, jnp.zeros_like(x)), update, _first


@optimizer
def rmsprop_momentum(
    step_size: Any, gamma: float = 0.9, eps: float = 1e-8, momentum: float = 0.9
) -> Any:
    """Return RMSProp with momentum.

    `step_size` is a number, or a function of the step. `gamma` is the decay rate of the average of
    squared gradients, `momentum` that of the steps; `eps` keeps the quotient finite.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, squares, m = state
        squares = squares * gamma + jnp.square(g) * (1.0 - gamma)
        m = momentum * m + step(i) * g / jnp.sqrt(squares + eps)
        return x - m, squares, m

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def adam(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return Adam (Kingma, Ba 2015).

    `step_size` is a number, or a function of the step. `b1` and `b2` are the decay rates of the
    averages of gradients and of their squares; `eps` keeps the quotient finite.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, v = state
        m = (1 - b1) * g + b1 * m
        v = (1 - b2) * jnp.square(g) + b2 * v
        mhat = m / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        vhat = v / (1 - jnp.asarray(b2, m.dtype) ** (i + 1))
        return x - step(i) * mhat / (jnp.sqrt(vhat) + eps), m, v

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def adamax(step_size: Any, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Any:
    """Return AdaMax, Adam with the largest instead of the mean square gradient.

    `step_size` is a number, or a function of the step. `b1` and `b2` are the decay rates of the
    average of gradients and of the largest magnitude; `eps` keeps the quotient finite.
    """
    step = make_schedule(step_size)

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, u = state
        m = (1 - b1) * g + b1 * m
        u = jnp.maximum(b2 * u, jnp.abs(g))
        rate = step(i) / (1 - jnp.asarray(b1, m.dtype) ** (i + 1))
        return x - rate * m / (u + eps), m, u

    return lambda x: (x, jnp.zeros_like(x), jnp.zeros_like(x)), update, _first


@optimizer
def sm3(step_size: Any, momentum: float = 0.9) -> Any:
    """Return SM3, which stores one accumulator per row of each axis (arXiv 1901.11150).

    `step_size` is a number, or a function of the step. `momentum` is the share of the average that
    a step keeps.
    """
    step = make_schedule(step_size)

    def init(x: Any) -> Any:
        shape = x.shape
        x = jnp.atleast_1d(x)
        return x, jnp.zeros_like(x), [jnp.zeros(n, x.dtype) for n in x.shape], shape

    def update(i: Any, g: Any, state: Any) -> Any:
        x, m, rows, shape = state
        spread = [
            row[tuple(slice(None) if k == axis else None for k in range(x.ndim))]
            for axis, row in enumerate(rows)
        ]
        squares = functools.reduce(jnp.minimum, spread) + jnp.square(g)
        m = (1.0 - momentum) * (g * _inverse_root(squares)) + momentum * m
        axes = range(x.ndim)
        rows = [squares.max(tuple(k for k in axes if k != axis)) for axis in axes]
        return x - step(i) * m, m, rows, shape

    return init, update, lambda state: state[0].reshape(state[3])


def constant(step_size: Any) -> Schedule:
    """Return the schedule that is always `step_size`."""
    return lambda i: step_size


def exponential_decay(step_size: Any, decay_steps: Any, decay_rate: Any) -> Schedule:
    """Return the schedule step_size * decay_rate ** (i / decay_steps)."""
    return lambda i: step_size * decay_rate ** (i / decay_steps)


def inverse_time_decay(
    step_size: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False
) -> Schedule:
    """Return the schedule step_size / (1 + decay_rate * i / decay_steps).

    With `staircase` the quotient is rounded down, so that the size changes once in `decay_steps`.
    """
    if staircase:
        return lambda i: step_size / (1 + decay_rate * jnp.floor(i / decay_steps))
    return lambda i: step_size / (1 + decay_rate * i / decay_steps)


def polynomial_decay(
    step_size: Any, decay_steps: Any, final_step_size: Any, power: float = 1.0
) -> Schedule:
    """Return the schedule that falls to `final_step_size` within `decay_steps`, by a power.

    It starts at `step_size`, and stays at `final_step_size` after `decay_steps`; `power` is the
    exponent.
    """

    def schedule(i: Any) -> Any:
        left = (1 - jnp.minimum(i, decay_steps) / decay_steps) ** power
        return left * (step_size - final_step_size) + final_step_size

    return schedule


def piecewise_constant(boundaries: Any, values: Any) -> Schedule:
    """Return the schedule that takes the next of `values` after each of `boundaries`.

    Raises: ValueError unless there is one more value than there are boundaries.
    """
    ends, found = jnp.array(boundaries), jnp.array(values)
    if not (ends.ndim == found.ndim == 1 and ends.shape[0] == found.shape[0] - 1):
        raise ValueError(
            three_lines(
                f"piecewise_constant({boundaries}, {values}) at {current_source()}",
                "boundaries and values must be sequences; boundaries length must be one shorter "
                "than values length",
                "write piecewise_constant([100], [0.1, 0.01])",
            )
        )
    return lambda i: found[jnp.sum(i > ends)]


def make_schedule(scalar_or_schedule: Any) -> Schedule:
    """Return a schedule as it is, and a number as a constant one.

    Raises: TypeError for anything else.
    """
    if callable(scalar_or_schedule):
        return scalar_or_schedule  # type: ignore[no-any-return]
    if jnp.ndim(scalar_or_schedule) == 0:
        return constant(scalar_or_schedule)
    raise TypeError(
        three_lines(
            f"make_schedule({scalar_or_schedule!r:.60}) at {current_source()}",
            f"a step size is a number or a function, got {type(scalar_or_schedule)}",
            "write constant(0.1)",
        )
    )


def l2_norm(tree: Any) -> Any:
    """Return the Euclidean norm of all leaves together."""
    return jnp.sqrt(sum(jnp.vdot(x, x) for x in tree_leaves(tree)))


def clip_grads(grad_tree: Any, max_norm: Any) -> Any:
    """Return gradients scaled down to a norm of at most `max_norm`.

    The norm is that of all leaves of `grad_tree` together.
    """
    norm = l2_norm(grad_tree)
    return tree_map(lambda g: jnp.where(norm < max_norm, g, g * (max_norm / norm)), grad_tree)


class JoinPoint:
    """The state of one parameter, a leaf of what `unpack_optimizer_state` returns."""

    def __init__(self, subtree: Any) -> None:
        self.subtree = subtree

    def __iter__(self) -> Iterator[Any]:
        yield self.subtree


def unpack_optimizer_state(opt_state: OptimizerState) -> Any:
    """Return a state as a pytree of the parameters' structure, of JoinPoints; for saving.

    `opt_state` is a state that an optimizer of this module returned.
    """
    return tree_unflatten(opt_state.tree_def, [JoinPoint(s) for s in _states(opt_state)])


def pack_optimizer_state(marked_pytree: Any) -> OptimizerState:
    """Return the state that `unpack_optimizer_state` unpacked.

    `marked_pytree` has a JoinPoint for each parameter.
    """
    points, tree = tree_flatten(marked_pytree)
    assert all(isinstance(point, JoinPoint) for point in points)
    return _packed([point.subtree for point in points], tree)
