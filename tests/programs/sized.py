"""Small data programs over a table `x` of n rows and 3 columns, in kiln and in NumPy.

Each row of `PROGRAMS`: the function under kiln (`jnp`), the same with NumPy, and whether a table
without rows is an error in NumPy too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import lax


class Sized(NamedTuple):
    """A program in kiln and what it means in NumPy; `least` is the smallest number of rows."""

    kiln: Callable[[Any], Any]
    numpy: Callable[[Any], Any]
    least: int = 0


W = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
V = np.linspace(0.5, -0.5, 4, dtype=np.float32)


def both(fun: Callable[[Any, Any], Any], least: int = 0) -> Sized:
    """Return a program written once for both libraries."""
    return Sized(lambda x: fun(jnp, x), lambda x: fun(np, x), least)


def _softmax(x: Any, axis: int) -> Any:
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def _logsumexp(x: Any) -> Any:
    return np.log(np.sum(np.exp(x), 0))


def _loss(p: Any, x: Any) -> Any:
    h = jnp.tanh(x @ p["w"])
    return jnp.mean((h @ p["v"] - x[:, 0]) ** 2)


def _loss_and_gradient(x: Any) -> Any:
    h = np.tanh(x @ W)
    error = h @ V - x[:, 0]
    back = 2 * error / len(x)
    hidden = back[:, None] * V * (1 - h**2)
    return [np.mean(error**2), h.T @ back, x.T @ hidden]


def _kiln_loss_and_gradient(x: Any) -> Any:
    value, g = kiln.value_and_grad(_loss)({"w": W, "v": V}, x)
    return [value, g["v"], g["w"]]


def _rnn(x: Any) -> Any:
    def cell(h: Any, row: Any) -> Any:
        h = jnp.tanh(0.5 * h + row @ W)
        return h, h.sum()

    return list(lax.scan(cell, jnp.zeros(4), x))


def _numpy_rnn(x: Any) -> Any:
    h, sums = np.zeros(4, np.float32), []
    for row in x:
        h = np.tanh(0.5 * h + row @ W)
        sums.append(h.sum())
    return [h, np.array(sums, np.float32)]


def _batched_rnn(x: Any) -> Any:
    def cell(h: Any, a: Any) -> Any:
        return jnp.tanh(h + a), None

    return lax.scan(cell, jnp.zeros(x.shape[0]), x.T)[0]


def _numpy_batched_rnn(x: Any) -> Any:
    h = np.zeros(len(x), np.float32)
    for a in x.T:
        h = np.tanh(h + a)
    return h


def _fori(x: Any) -> Any:
    return lax.fori_loop(0, x.shape[0], lambda i, s: s + i * x[i, 0], 0.0)


def _while(x: Any) -> Any:
    def go_on(state: Any) -> Any:
        return state[0] < x.shape[0]

    return lax.while_loop(go_on, lambda s: (s[0] + 1, s[1] + x[s[0]]), (0, jnp.zeros(3)))[1]


def _standardized(np: Any, x: Any) -> Any:
    return (x - x.mean(0)) / (x.std(0) + 1e-3)


PROGRAMS: dict[str, Sized] = {
    # Reductions.
    "sum": both(lambda np, x: [np.sum(x), np.sum(x, 0), np.sum(x, 1), np.sum(x, 0, keepdims=True)]),
    "mean": both(lambda np, x: [np.mean(x), np.mean(x, 0), np.mean(x, axis=1)], 1),
    "var": both(lambda np, x: [np.var(x), np.var(x, 0), np.var(x, 1)], 1),
    "var_ddof": both(lambda np, x: np.var(x, 0, ddof=1), 2),
    "std": both(lambda np, x: [np.std(x), np.std(x, 0)], 1),
    "max": both(lambda np, x: [np.max(x), np.max(x, 0), np.max(x, 1), np.min(x, 0)], 1),
    "max_by_row": both(lambda np, x: [np.max(x, 1), np.min(x, -1)]),
    "argmax": both(lambda np, x: [np.argmax(x), np.argmax(x, 0), np.argmin(x, 0)], 1),
    "argmax_by_row": both(lambda np, x: [np.argmax(x, 1), np.argmin(x, -1)]),
    "prod": both(lambda np, x: [np.prod(x, 0), np.all(x > 0, 0), np.any(x > 0)]),
    "count_nonzero": both(lambda np, x: np.count_nonzero(x > 0, axis=0)),
    "norm": both(lambda np, x: [np.linalg.norm(x), np.linalg.norm(x, axis=1)]),
    "average": both(lambda np, x: np.average(x, 0, weights=np.arange(x.shape[0]) + 1), 1),
    "median": both(lambda np, x: np.median(x, 1)),
    "ptp": both(lambda np, x: np.ptp(x, 0), 1),
    "nansum": both(lambda np, x: [np.nansum(x, 0), np.nanmean(np.where(x > 1, np.nan, x), 0)]),
    "logsumexp": Sized(lambda x: kiln.nn.logsumexp(x, 0), _logsumexp, 1),
    "softmax": Sized(
        lambda x: [kiln.nn.softmax(x), kiln.nn.log_softmax(x, axis=0)],
        lambda x: [_softmax(x, 1), np.log(_softmax(x, 0))],
        1,
    ),
    "softmax_by_row": Sized(kiln.nn.softmax, lambda x: _softmax(x, 1)),
    # Products.
    "dot": both(lambda np, x: [np.dot(x, W), np.dot(W.T, x.T), x @ W, np.vdot(x, x)]),
    "gram": both(lambda np, x: [x.T @ x, x @ x.T, np.inner(x, x)]),
    "einsum": both(
        lambda np, x: [
            np.einsum("ni,ij->nj", x, W),
            np.einsum("ni,nj->ij", x, x),
            np.einsum("ni,mi->nm", x, x),
            np.einsum("ni,ni->n", x, x),
        ]
    ),
    "outer": both(lambda np, x: [np.outer(x[:, 0], x[:, 1]), np.tensordot(x, x, ([0], [0]))]),
    "cov": both(lambda np, x: np.cov(x.T), 2),
    # Joining and shapes.
    "concatenate": both(
        lambda np, x: [
            np.concatenate([x, x]),
            np.concatenate([x, np.ones((2, 3), "f4")]),
            np.concatenate([x, x], axis=1),
        ]
    ),
    "stack": both(lambda np, x: [np.stack([x, x]), np.stack([x, x], -1), np.vstack([x, x])]),
    "hstack": both(lambda np, x: [np.hstack([x, x]), np.column_stack([x[:, 0], x[:, 1]])]),
    "reshape": both(
        lambda np, x: [
            x.reshape(-1),
            x.reshape(x.shape[0] * 3),
            x.reshape(-1, 1),
            x.reshape(-1, 3),
            x.reshape(x.shape[0], 3, 1),
            x.reshape(3, x.shape[0]),
            np.ravel(x),
            x.flatten(),
        ]
    ),
    "reshape_doubled": both(lambda np, x: np.concatenate([x, x]).reshape(2, -1, 3)[1], 1),
    "transpose": both(
        lambda np, x: [x.T, np.transpose(x), np.swapaxes(x, 0, 1), np.moveaxis(x[None], 0, -1)]
    ),
    "expand": both(
        lambda np, x: [x[:, None], x[None], np.expand_dims(x, 1), np.squeeze(x[None], 0)]
    ),
    "broadcast": both(
        lambda np, x: [
            np.broadcast_to(x[:, :1], x.shape),
            x + x[:, 0][:, None],
            x + np.ones((1, 3), "f4"),
            x[:, None, :] - x[None, :, :],
            np.broadcast_to(np.ones(3, "f4"), x.shape),
        ]
    ),
    "tile": both(lambda np, x: [np.tile(x, (2, 1)), np.repeat(x, 2, axis=0), np.repeat(x, 2, 1)]),
    "split": both(lambda np, x: list(np.split(x, 3, axis=1))),
    "pad": both(lambda np, x: [np.pad(x, 1), np.pad(x, ((0, 2), (1, 0)), constant_values=2)]),
    "roll": both(lambda np, x: [np.roll(x, 1, axis=1), np.flip(x, 0), np.flip(x), x[::-1]]),
    "roll_rows": both(lambda np, x: np.roll(x, 1, axis=0)),
    # Making.
    "like": both(lambda np, x: [np.zeros_like(x), np.ones_like(x), np.full_like(x, 2)]),
    "zeros": both(
        lambda np, x: [
            np.zeros((x.shape[0], 3), "f4"),
            np.ones(x.shape, "f4"),
            np.full((2, x.shape[0]), 1.5, "f4"),
            np.empty((0, x.shape[0]), "f4"),
        ]
    ),
    "arange": both(
        lambda np, x: [
            np.arange(x.shape[0], dtype="i4"),
            np.arange(1, x.shape[0] + 1, dtype="i4"),
            np.arange(2 * x.shape[0], dtype="i4") + x.shape[0],
        ]
    ),
    "linspace": both(lambda np, x: np.linspace(0, 1, x.shape[0], dtype="f4"), 0),
    "eye": both(lambda np, x: [np.eye(x.shape[0], dtype="f4"), np.identity(x.shape[0], "f4")]),
    "meshgrid": both(lambda np, x: list(np.meshgrid(x[:, 0], np.arange(2, dtype="i4")))),
    "tri": both(lambda np, x: [np.tril(x @ x.T), np.triu(x), np.diag(x[:, 0])]),
    "diagonal": both(lambda np, x: [np.diagonal(x @ x.T), np.trace(x @ x.T)]),
    # Choosing.
    "where": both(lambda np, x: [np.where(x > 0, x, 0 * x), np.where(x[:, :1] > 0, x, 1 * x)]),
    "clip": both(lambda np, x: [np.clip(x, -1, 1), np.maximum(x, 0), np.minimum(x, x[:, ::-1])]),
    "select": both(lambda np, x: np.select([x > 1, x > 0], [x, -x], 0 * x)),
    "sort": both(lambda np, x: [np.sort(x, 0), np.sort(x, 1), np.argsort(x, axis=0)]),
    "sort_all": both(lambda np, x: np.sort(x, axis=None)),
    "cumsum": both(lambda np, x: [np.cumsum(x, 0), np.cumsum(x), np.cumprod(x, 1)]),
    "cummax": Sized(lambda x: lax.cummax(x), lambda x: np.maximum.accumulate(x, 0)),
    "take": both(lambda np, x: [np.take(x, np.array([0, 2]), axis=1), x[:, np.array([0, -1])]]),
    "take_rows": both(
        lambda np, x: [np.take(x, np.array([0, 0]), axis=0), x[np.array([0, -1])]], 1
    ),
    "take_along": both(lambda np, x: np.take_along_axis(x, np.argsort(x, 0), 0), 1),
    "by_arange": both(lambda np, x: x[np.arange(x.shape[0]), np.argmax(x, 1)]),
    "first_row": both(lambda np, x: [x[0], x[-1], x[0, 1], x[-1, -1]], 1),
    "columns": both(lambda np, x: [x[:, 0], x[:, 1:], x[..., -1], x[:, ::2], x[:, :-1]]),
    "neighbors": both(lambda np, x: [x[1:] - x[:-1], np.diff(x, axis=0)], 1),
    "slices": both(
        lambda np, x: [x[1:], x[:-1], x[::2], x[: x.shape[0] // 2], x[-1:], x[:1], x[1:3]]
    ),
    "halves": both(lambda np, x: [x[: x.shape[0] // 2], x[x.shape[0] // 2 :]]),
    "mask": both(lambda np, x: np.where(np.arange(x.shape[0])[:, None] < 2, x, 0 * x)),
    "searchsorted": both(lambda np, x: np.searchsorted(np.array([-1.0, 0, 1], "f4"), x)),
    "searched": both(lambda np, x: np.searchsorted(np.sort(x[:, 0]), np.zeros(2, "f4"))),
    "digitize": both(lambda np, x: np.digitize(x, np.array([-1.0, 0.0, 1.0], "f4"))),
    "interp": both(lambda np, x: np.interp(x, np.array([-1.0, 1]), np.array([0.0, 2]))),
    "isin": both(lambda np, x: np.isin(np.sign(x), np.array([1.0]))),
    "bincount": Sized(
        lambda x: jnp.bincount((x[:, 0] > 0).astype("i4"), length=2),
        lambda x: np.bincount(x[:, 0] > 0, minlength=2),
    ),
    "one_hot": Sized(
        lambda x: kiln.nn.one_hot(jnp.argmax(x, 1), 3), lambda x: np.eye(3)[np.argmax(x, 1)]
    ),
    "at_set": Sized(
        lambda x: x.at[:, 0].set(1.0).at[jnp.arange(x.shape[0]), 1].add(2.0),
        lambda x: np.stack([np.ones(len(x)), x[:, 1] + 2, x[:, 2]], 1),
    ),
    "at_last": Sized(
        lambda x: x.at[-1].set(0.0),
        lambda x: np.concatenate([x[:-1], np.zeros((1, 3))]),
        1,
    ),
    "segment_sum": Sized(
        lambda x: jnp.zeros((2, 3)).at[(x[:, 0] > 0).astype("i4")].add(x),
        lambda x: np.stack([x[x[:, 0] <= 0].sum(0), x[x[:, 0] > 0].sum(0)]),
    ),
    # Element by element, and arithmetic on sizes.
    "elementwise": both(
        lambda np, x: [np.exp(x), np.tanh(x) * 2 + 1, -x, x**2, abs(x), np.sqrt(abs(x)), x / 3]
    ),
    "sizes": both(
        lambda np, x: [
            x / (x.shape[0] + 1),
            x * x.shape[0],
            x.shape[0] * x,
            x - x.shape[0] / 2,
            np.sum(x) / (x.size + 1),
            x * (1 / (x.shape[0] + 1)),
            x + x.shape[0] // 2,
            x + x.shape[0] % 3,
            x * (x.shape[0] * 0.5),
            x * np.float32(2) + x.shape[0] * np.float32(0.5),
            x.shape[0] ** 2 + x,
        ]
    ),
    "root_of_size": Sized(
        lambda x: x / jnp.sqrt(x.shape[0] + 1), lambda x: x / np.sqrt(len(x) + 1, dtype="f4")
    ),
    "standardized": both(_standardized, 1),
    "fft": both(lambda np, x: [np.fft.fft(x, axis=1).real, np.fft.rfft(x, axis=-1).imag]),
    "convolve": both(lambda np, x: np.convolve(x[:, 0], np.ones(2, "f4"), mode="full"), 2),
    # Whole ones.
    "network": Sized(_kiln_loss_and_gradient, _loss_and_gradient, 1),
    "rnn": Sized(_rnn, _numpy_rnn),
    "batched_rnn": Sized(_batched_rnn, _numpy_batched_rnn),
    "fori_loop": Sized(_fori, lambda x: np.sum(np.arange(len(x)) * x[:, 0]), 1),
    "while_loop": Sized(_while, lambda x: x.sum(0), 1),
    "map": Sized(lambda x: lax.map(lambda r: r.sum(), x), lambda x: x.sum(1)),
    "vmap": Sized(
        lambda x: kiln.vmap(lambda r: r @ W + r.sum())(x), lambda x: x @ W + x.sum(1)[:, None]
    ),
    "grad": Sized(
        kiln.grad(lambda x: jnp.sum(jnp.tanh(x) ** 2) / (x.shape[0] + 1)),
        lambda x: 2 * np.tanh(x) * (1 - np.tanh(x) ** 2) / (len(x) + 1),
    ),
    "per_example": Sized(
        lambda x: kiln.vmap(kiln.grad(lambda r: jnp.sum(r**3)))(x), lambda x: 3 * x**2
    ),
    "nested": Sized(
        lambda x: kiln.jit(lambda y: kiln.jit(jnp.cumsum)(y[:, 0]) / y.shape[0])(x),
        lambda x: np.cumsum(x[:, 0]) / max(len(x), 1),
    ),
    "cond": Sized(
        lambda x: lax.cond(jnp.sum(x) > 0, lambda x: x * 2, lambda x: -x, x),
        lambda x: x * 2 if x.sum() > 0 else -x,
    ),
    "checkpoint": Sized(
        kiln.grad(lambda x: kiln.checkpoint(lambda y: jnp.sum(jnp.sin(y) ** 2))(x)),
        lambda x: np.sin(2 * x),
    ),
    "associative_scan": Sized(
        lambda x: lax.associative_scan(jnp.add, x, axis=1), lambda x: np.cumsum(x, 1)
    ),
}
