"""What editors make of programs: read by mypy and pyright (`make lint`), never run."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, assert_type

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import Array, lax, linen, nn, random, stages
from kiln.typing import ArrayLike, DTypeLike, ShapeLike

x = jnp.arange(6.0).reshape(2, 3)
y = np.ones((2, 3), np.float32)

# Functions of arrays.
assert_type(x, Array)
assert_type(jnp.array([1, 2, 3]), Array)
assert_type(jnp.zeros((2, 3), jnp.float32), Array)
assert_type(jnp.full(3, 1.5, "float16"), Array)
assert_type(jnp.linspace(0, 1, 5), Array)
assert_type(jnp.linspace(0, 1, 5, retstep=True), tuple[Array, Array])
assert_type(jnp.exp(x), Array)
assert_type(jnp.add(x, y), Array)
assert_type(jnp.maximum(x, 0.0), Array)
assert_type(jnp.sum(x, axis=(0, 1), keepdims=True), Array)
assert_type(jnp.mean(y, 0), Array)
assert_type(jnp.argmax(x, axis=-1), Array)
assert_type(jnp.where(x > 0, x, 0.0), Array)
assert_type(jnp.where(x > 0), tuple[Array, ...])
assert_type(jnp.concatenate([x, y]), Array)
assert_type(jnp.stack((x, x)), Array)
assert_type(jnp.split(x, 3, axis=1), list[Array])
assert_type(jnp.einsum("ij,kj->ik", x, y), Array)
assert_type(jnp.matmul(x, jnp.transpose(y)), Array)
assert_type(jnp.divmod(x, 2), tuple[Array, Array])
assert_type(jnp.unique(x), Array)
assert_type(jnp.atleast_2d(x), Array)
assert_type(jnp.nonzero(x), tuple[Array, ...])
assert_type(jnp.linalg.norm(x), Array)
assert_type(jnp.linalg.svd(x).S, Array)
assert_type(jnp.fft.rfft(x), Array)

# Arrays themselves.
assert_type(x + 1, Array)
assert_type(1 - x, Array)
assert_type(x @ x.T, Array)
assert_type(x == y, Array)
assert_type(-x, Array)
assert_type(x[0, 1:], Array)
assert_type(x[:, None] * y, Array)
assert_type(x.at[0].set(1.0), Array)
assert_type(x.at[:, 1].add(y[:, 1]), Array)
assert_type(x.sum(axis=0), Array)
assert_type(x.astype(jnp.int32), Array)
assert_type(x.reshape(3, 2), Array)
assert_type(x.shape, tuple[int, ...])
assert_type(float(x.max()), float)
assert_type(list(x), list[Array])
assert_type(np.asarray(x), np.ndarray)

# Random numbers.
key = random.key(0)
first, second = random.split(key)
assert_type(first, Array)
assert_type(random.normal(key, (2, 3)), Array)
assert_type(random.uniform(key, (3,), minval=-1), Array)
assert_type(random.permutation(key, 5), Array)
assert_type(random.categorical(key, x), Array)

# Layers.
assert_type(nn.relu(x), Array)
assert_type(nn.softmax(x, axis=-1), Array)
assert_type(nn.one_hot(jnp.arange(3), 4), Array)
assert_type(nn.logsumexp(x), Array)
assert_type(nn.initializers.he_normal()(key, (3, 4)), Array)

# Primitives and loops.
assert_type(lax.add(x, 1.0), Array)
assert_type(lax.dynamic_slice(x, (0, 1), (1, 2)), Array)
assert_type(lax.stop_gradient(x), Array)
assert_type(lax.top_k(x, 2), tuple[Array, Array])


def step(total: Array, row: Array) -> tuple[Array, Array]:
    """Add a row to a running sum."""
    total = total + row.sum()
    return total, total


def halve(value: Array) -> Array:
    """Divide by two."""
    return value / 2


def count(i: int, value: Array) -> Array:
    """Add a number."""
    return value + i


assert_type(lax.scan(step, 0.0, x), tuple[Array, Array])
assert_type(lax.while_loop(lambda v: v.max() > 1, halve, x), Array)
assert_type(lax.fori_loop(0, 3, count, x), Array)
assert_type(lax.cond(x[0, 0] > 0, halve, halve, x), Array)
assert_type(lax.switch(0, [halve, halve], x), Array)
assert_type(lax.map(halve, x), Array)


# Transformations keep the parameters of a function.
def loss(weights: dict[str, Array], inputs: Array, *, scale: float = 1.0) -> Array:
    """Return a number to minimize."""
    return jnp.sum(jnp.tanh(inputs @ weights["w"]) ** 2) * scale


@kiln.jit
def predict(weights: dict[str, Array], inputs: Array) -> Array:
    """Return what a layer gives."""
    return nn.relu(inputs @ weights["w"])


w = {"w": jnp.ones((3, 2))}
assert_type(predict(w, inputs=x), Array)
assert_type(kiln.jit(loss)(w, x, scale=2.0), Array)
assert_type(kiln.jit(loss, threads=2)(w, x, scale=2.0), Array)
assert_type(kiln.vmap(halve)(x), Array)
assert_type(kiln.vmap(predict, in_axes=(None, 0))(weights=w, inputs=x), Array)
assert_type(kiln.checkpoint(loss)(w, x, scale=2.0), Array)


# A derivative has the type of the argument: an array for numbers, a tree for a tree.
def cubic(position: float, scale: ArrayLike) -> Array:
    """Return a number."""
    return jnp.multiply(position**3, scale)


def with_mean(weights: dict[str, Array], inputs: Array) -> tuple[Array, float]:
    """Return a number to minimize, and another one."""
    return loss(weights, inputs), float(inputs.mean())


def unannotated(weights: Any, inputs: Any) -> Any:
    """Say nothing of types."""
    return jnp.sum(inputs @ weights["w"])


Gradients = dict[str, Array]
assert_type(kiln.grad(loss)(w, x, scale=0.5), Gradients)
assert_type(kiln.grad(loss, 0)(w, inputs=x), Gradients)
assert_type(kiln.grad(loss, argnums=1)(w, inputs=x), Any)
assert_type(kiln.grad(loss, argnums=(0, 1))(w, x), Any)
assert_type(kiln.grad(with_mean, has_aux=True)(w, x), tuple[Gradients, float])
assert_type(kiln.grad(cubic)(2.0, y), Array)
assert_type(kiln.grad(halve)(x), Array)
assert_type(kiln.grad(jnp.sum)(y), Array)
assert_type(kiln.grad(unannotated)(w, x), Any)
assert_type(kiln.grad(lambda point: point["x"] ** 2)({"x": 2.0}), Any)
kiln.grad(kiln.grad(halve))(x)
assert_type(kiln.grad(kiln.jit(loss))(w, x), Gradients)
assert_type(kiln.jit(kiln.grad(loss))(w, x, scale=2.0), Gradients)
assert_type(kiln.vmap(kiln.grad(cubic), in_axes=(0, None))(2.0, 1.0), Array)
assert_type(kiln.value_and_grad(loss)(w, inputs=x), tuple[Array, Gradients])
assert_type(kiln.value_and_grad(cubic)(2.0, 1.0), tuple[Array, Array])
assert_type(kiln.value_and_grad(loss, (0, 1))(w, x), tuple[Array, Any])
assert_type(
    kiln.value_and_grad(with_mean, has_aux=True)(w, x), tuple[tuple[Array, float], Gradients]
)
assert_type(kiln.jacfwd(halve)(x), Array)
assert_type(kiln.jacrev(cubic)(2.0, scale=1.0), Array)
assert_type(kiln.hessian(halve)(x), Array)
assert_type(kiln.hessian(loss)(w, x), Any)
assert_type(kiln.jacfwd(lambda point: point**2)(x), Any)

# Jitted functions have stages; jitted methods are methods.
assert_type(kiln.jit(loss).lower(w, x, scale=2.0), stages.Lowered)
assert_type(predict.lower(w, kiln.ShapeDtypeStruct((2, 3), jnp.float32)).compile(), stages.Compiled)
assert_type(predict.trace(w, x), stages.Traced)
assert_type(predict.__name__, str)
assert_type(predict.cache_info().traces, int)
predict.eval_shape(w, x)
predict.clear_cache()


class Model:
    """A class with jitted methods."""

    @kiln.jit
    def run(self, inputs: Array) -> Array:
        """Return what goes in."""
        return inputs

    @functools.partial(kiln.jit, static_argnames="self")
    def run_for_each(self, inputs: Array) -> Array:
        """Return what goes in."""
        return inputs

    @kiln.jit(static_argnums=0)
    def run_decorated(self, inputs: Array) -> Array:
        """Return what goes in."""
        return inputs


assert_type(Model().run(inputs=x), Array)
Model().run_for_each(x)
assert_type(Model().run_decorated(x), Array)


# Rules are methods of what has the signature of the function.
@kiln.custom_jvp
def softsign(value: Array, sharpness: float) -> Array:
    """Squash a value."""
    return value / (1 + abs(value * sharpness))


@kiln.custom_vjp
def clipped(value: Array) -> Array:
    """Return the value."""
    return value


softsign.defjvp(lambda primals, tangents: (softsign(*primals), tangents[0]))
clipped.defvjp(lambda value: (value, None), lambda _, ct: (jnp.clip(ct, -1, 1),))
assert_type(softsign(x, sharpness=2.0), Array)
assert_type(clipped(x), Array)
assert_type(kiln.grad(clipped)(x), Array)
assert_type(kiln.pmap(halve)(value=x), Array)
assert_type(linen.jit(linen.Dense)(features=2), linen.Dense)
assert_type(kiln.block_until_ready(x), Array)
assert_type(kiln.device_put(w), dict[str, Array])

# What is wrong is noticed, by both: an ignored error that is none is an error itself.
kiln.grad(loss)(w, x, scales=0.5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kiln.grad(loss)(x, x)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
kiln.grad(halve)(value=x)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
predict.lowered(w)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
softsign(x)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
kiln.vmap(predict)(w)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
jnp.sin("0.5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
jnp.sum(x, axes=0)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
x.reshaped(6)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]

activation: Callable[[Array], Array] = nn.gelu

# Descriptions of arrays, and lists, where they are taken.
assert_type(jnp.zeros_like(kiln.ShapeDtypeStruct((2, 3), jnp.float32)), Array)
assert_type(jnp.array_equal(x, [1.0, 2.0]), Array)
assert_type(jnp.take(x, jnp.array([0, 2])), Array)
assert_type(jnp.clip(x, 0, 1), Array)
assert_type(jnp.pad(x, ((1, 1), (0, 0))), Array)
assert_type(lax.sort(x), Array)
assert_type(lax.sort((x, y)), tuple[Array, ...])
assert_type(jnp.average(x, weights=y), Array)
assert_type(nn.dot_product_attention(x, x, x), Array)


def noise(seed: int, shape: ShapeLike, dtype: DTypeLike = jnp.float32) -> Array:
    """Draw variates; the types of a user's own signature fit."""
    return random.normal(random.key(seed), shape, dtype)


def centered(values: ArrayLike) -> Array:
    """Subtract the mean."""
    return jnp.subtract(values, jnp.mean(values))


assert_type(centered(noise(0, (3,))), Array)
assert_type(kiln.jit(centered)(values=y), Array)
