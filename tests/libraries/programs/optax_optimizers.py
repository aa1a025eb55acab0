"""Optimizers of optax by name: twenty steps on a small regression."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from optax import contrib, losses

STEPS = 20
_random = np.random.RandomState(0)
INPUTS = _random.randn(32, 3).astype(np.float32)
TARGETS = np.sin(INPUTS @ np.asarray([[1.0], [-2.0], [0.5]], np.float32)).astype(np.float32)


def parameters():
    """A network of two layers."""
    first, second = jax.random.split(jax.random.key(7))
    return {
        "first": {"w": 0.5 * jax.random.normal(first, (3, 8)), "b": jnp.zeros(8)},
        "second": {"w": 0.5 * jax.random.normal(second, (8, 1)), "b": jnp.zeros(1)},
    }


def loss(params):
    hidden = jnp.tanh(INPUTS @ params["first"]["w"] + params["first"]["b"])
    found = hidden @ params["second"]["w"] + params["second"]["b"]
    return jnp.mean((found - TARGETS) ** 2)


def train(make):
    """Return the losses before each step, and the parameters after the last."""
    optimizer = optax.with_extra_args_support(make())

    @jax.jit
    def step(params, state):
        value, grads = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(
            grads, state, params, value=value, grad=grads, value_fn=loss
        )
        return optax.apply_updates(params, updates), state, value

    params = parameters()
    state = optimizer.init(params)
    found = []
    for _ in range(STEPS):
        params, state, value = step(params, state)
        found.append(value)
    leaves = jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(params)])
    return {"losses": jnp.stack(found), "parameters": leaves}


OPTIMIZERS = {
    "adabelief": lambda: optax.adabelief(1e-2),
    "adadelta": lambda: optax.adadelta(1.0),
    "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=2),
    "adagrad": lambda: optax.adagrad(1e-1),
    "adam": lambda: optax.adam(1e-2),
    "adamax": lambda: optax.adamax(1e-2),
    "adamaxw": lambda: optax.adamaxw(1e-2),
    "adamw": lambda: optax.adamw(optax.cosine_decay_schedule(1e-2, STEPS)),
    "adan": lambda: optax.adan(1e-2),
    "amsgrad": lambda: optax.amsgrad(1e-2),
    "fromage": lambda: optax.fromage(1e-2),
    "lamb": lambda: optax.lamb(1e-2),
    "lars": lambda: optax.lars(1e-1),
    "lbfgs": lambda: optax.lbfgs(),
    "lion": lambda: optax.lion(1e-2),
    "nadam": lambda: optax.nadam(1e-2),
    "nadamw": lambda: optax.nadamw(1e-2),
    "noisy_sgd": lambda: optax.noisy_sgd(1e-2, seed=3),
    "novograd": lambda: optax.novograd(1e-2),
    "optimistic_adam_v2": lambda: optax.optimistic_adam_v2(1e-2),
    "optimistic_gradient_descent": lambda: optax.optimistic_gradient_descent(1e-2),
    "polyak_sgd": lambda: optax.polyak_sgd(0.1),
    "radam": lambda: optax.radam(1e-2),
    "rmsprop": lambda: optax.rmsprop(1e-2, momentum=0.9),
    "rprop": lambda: optax.rprop(1e-2),
    "sgd": lambda: optax.sgd(1e-1, momentum=0.9, nesterov=True),
    "sign_sgd": lambda: optax.sign_sgd(1e-2),
    "sm3": lambda: optax.sm3(1e-1),
    "yogi": lambda: optax.yogi(1e-2),
    "acprop": lambda: contrib.acprop(1e-2),
    "ademamix": lambda: contrib.ademamix(1e-2),
    "cocob": lambda: contrib.cocob(),
    "dadapt_adamw": lambda: contrib.dadapt_adamw(),
    "dog": lambda: contrib.dog(),
    "momo": lambda: contrib.momo(),
    "muon": lambda: contrib.muon(1e-2),
    "prodigy": lambda: contrib.prodigy(),
    "schedule_free": lambda: contrib.schedule_free_adamw(1e-2),
    "clipped_in_steps_of_two": lambda: optax.MultiSteps(
        optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2), optax.ema(0.5)), 2
    ),
    "frozen_by_name": lambda: optax.multi_transform(
        {"train": optax.adam(1e-2), "freeze": optax.set_to_zero()},
        {"first": "train", "second": "freeze"},
    ),
}


def loss_functions():
    """Values and gradients of losses that take logits."""
    logits = jnp.asarray(INPUTS[:6] @ INPUTS[6:11].T)
    labels = jnp.arange(6) % 5
    found = {}
    for name in ("softmax_cross_entropy_with_integer_labels", "multiclass_hinge_loss"):
        function = getattr(losses, name)
        found[name] = jax.grad(lambda x, f=function: f(x, labels).sum())(logits)
    one_hot = jax.nn.one_hot(labels, 5)
    for name in ("softmax_cross_entropy", "sigmoid_binary_cross_entropy", "huber_loss", "log_cosh"):
        function = getattr(losses, name)
        found[name] = jax.grad(lambda x, f=function: f(x, one_hot).sum())(logits)
    blank = jnp.zeros((2, 3))
    logits = jnp.asarray(INPUTS[:12].reshape(2, 6, 3))
    found["ctc_loss"] = jax.grad(
        lambda x: losses.ctc_loss(x, jnp.zeros((2, 6)), jnp.ones((2, 3), int) * 2, blank).sum()
    )(logits)
    return found


PROGRAMS = {name: functools.partial(train, make) for name, make in OPTIMIZERS.items()}
PROGRAMS["loss_functions"] = loss_functions
