"""Random programs of nested loops and branches, in wrapping integers: results agree to the bit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln import lax

SHAPES = ((), (3,), (2, 3), (17,))
Values = list[Any]


@dataclasses.dataclass
class RandomLoops:
    """Draws functions from lists of arrays to lists of arrays of the same shapes.

    A draw happens while a function is traced: the same seed gives the same program.
    """

    rng: np.random.Generator
    depth: int = 3

    def pick(self, items: Any) -> Any:
        """Return one of some items."""
        return items[int(self.rng.integers(len(items)))]

    def like(self, values: Values, shape: tuple[int, ...]) -> Any:
        """Return one of the values of a shape, or a constant."""
        found = [x for x in values if x.shape == shape]
        if not found or self.rng.random() < 0.1:
            return jnp.full(shape, int(self.rng.integers(-4, 5)), jnp.int32)
        return self.pick(found)

    def computed(self, values: Values, shape: tuple[int, ...]) -> Any:
        """Return a value of a shape, computed from others."""
        x, y = self.like(values, shape), self.like(values, shape)
        n = self.like(values, ())
        choice = int(self.rng.integers(13))
        match choice:
            case 0:
                return x + y
            case 1:
                return x - 3 * y
            case 2:
                return jnp.maximum(x, y) ^ n
            case 3:
                return jnp.where(x > y, x, n)
            case 4:
                return x[::-1] + y if shape else x * 5 + 1
            case 5:
                return x.T.reshape(shape) if shape else -x
            case 6:
                return jnp.broadcast_to(jnp.sum(self.like(values, self.pick(SHAPES))), shape) + x
            case 7:
                return jnp.concatenate([x[1:], y[:1]]) if shape else x ^ y
            case 8:
                return jnp.sum(jnp.stack([x, y, x * y]), axis=0)
            case 9 if shape:
                return x.at[n].set(x[n - 1] + y[0])
            case 10 if shape:
                part = lax.dynamic_slice_in_dim(x, n, 2) + lax.dynamic_slice_in_dim(x, n + 1, 2)
                return lax.dynamic_update_slice_in_dim(x, part, n, 0)
            case 11 if shape:
                return x.at[0].add(y[-1])
            case _:
                return x * y + n

    def region(self, values: Values, depth: int) -> Values:
        """Return the values of a loop or a branch."""
        count = int(self.rng.integers(1, len(values) + 1))
        chosen = [self.pick(values) for _ in range(count)]
        kind = self.pick(["scan", "scan", "while", "cond", "switch"])
        if kind in ("cond", "switch"):
            which = self.like(values, ())
            branches = [
                self.body(values, [x.shape for x in chosen], depth)
                for _ in range(2 if kind == "cond" else 3)
            ]
            if kind == "cond":
                return list(lax.cond(which > 0, *branches, chosen))
            return list(lax.switch(which & 3, branches, chosen))
        step = self.body(values, [x.shape for x in chosen], depth)
        length = int(self.rng.integers(0, 5))
        if kind == "while":
            stop = (self.like(values, ()) & 3) + length - 2

            def goes_on(state: Any) -> Any:
                return state[0] < stop

            def turn(state: Any) -> Any:
                return state[0] + 1, step(state[1])

            return [*lax.while_loop(goes_on, turn, (jnp.int32(0), chosen))[1]]
        rows = self.like(values, (17,))
        xs = jnp.stack([rows + i for i in range(length)]) if length else jnp.zeros((0, 17), int)
        shape = self.pick(SHAPES)
        old = bool(self.rng.random() < 0.5)

        def each(state: Any, x: Any) -> Any:
            after = step([*state[:-1], state[-1] + x[0].astype(state[-1].dtype)])
            return after, self.like(state if old else after, shape)

        carry, ys = lax.scan(each, chosen, xs, reverse=bool(self.rng.random() < 0.5))
        return [*carry, jnp.sum(ys, axis=0).astype(jnp.int32)]

    def body(
        self, around: Values, shapes: list[tuple[int, ...]], depth: int
    ) -> Callable[[Values], Values]:
        """Return a function of values of some shapes, which also uses those around it."""

        def run(values: Values) -> Values:
            known = [*values, *values, self.pick(around)]
            for _ in range(int(self.rng.integers(1, 4))):
                if depth and self.rng.random() < 0.4:
                    known += self.region(known, depth - 1)
                else:
                    known.append(self.computed(known, self.pick(SHAPES)))
            if self.rng.random() < 0.3:
                return [self.like(values, shape) for shape in shapes]
            return [self.like(known, shape) for shape in shapes]

        return run


def program(seed: int) -> Callable[..., Values]:
    """Return the function of a seed, of one array of each shape."""

    def fun(*args: Any) -> Values:
        made = RandomLoops(np.random.default_rng(seed))
        values: Values = list(args)
        for _ in range(2):
            values += made.region(values, made.depth)
        return made.body(values, list(SHAPES), 0)(values) + values[len(args) :][:6]

    return fun


def operands(seed: int) -> list[np.ndarray]:
    """Return operands for the program of a seed."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-5, 6, shape).astype(np.int32) for shape in SHAPES]
