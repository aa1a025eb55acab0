"""Random numbers from a generator with state, which counts its draws.

The names are those of `jax.experimental.random`.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

import kiln.numpy as jnp
import kiln.random as numbers
from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.base.tree.nodes import register_dataclass
from kiln.control.references.refs import new_ref
from kiln.core.array_type import Array
from kiln.core.ref import Ref
from kiln.core.trace import state
from kiln.ir.analysis.key_uses import is_key

__all__ = ["StatefulPRNG", "stateful_rng"]

Size = int | Sequence[int] | None


def _shape(size: Size, *others: Any) -> tuple[int, ...]:
    """Return the shape given by `size`; for None, the broadcast shape of the others."""
    if size is None:
        return np.broadcast_shapes(*map(np.shape, others))
    if isinstance(size, (int, np.number)):
        return (operator.index(size),)
    return tuple(map(operator.index, size))


@register_dataclass
@dataclasses.dataclass(frozen=True, slots=True)
class StatefulPRNG:
    """A generator of random numbers: a key, and a reference that counts the draws.

    Create one with `stateful_rng`. It is a pytree, which can be passed to functions or closed over;
    loops and `vmap` treat it like references. Each call of a method draws new numbers.

    Example:
        >>> from kiln.experimental import random
        >>> rng = random.stateful_rng(0)
        >>> bool(rng.uniform() == rng.uniform())
        False
    """

    _base_key: Any
    _counter: Any

    def __post_init__(self) -> None:
        # Structures are unflattened around placeholder objects.
        if type(self._base_key) is object:
            return
        if not is_key(getattr(self._base_key, "aval", None)):
            raise _refused(
                f"Expected base_key to be a typed PRNG key; got {self._base_key!r:.60}",
                "pass kiln.random.key(seed)",
            )
        if not isinstance(self._counter, Ref):
            raise _refused(
                f"Expected counter to be a scalar integer ref; got {self._counter!r:.60}",
                "pass kiln.new_ref(0)",
            )

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """Return a new key, or an array of keys of a shape.

        Raises: ValueError for a generator that `split` returned, outside `vmap`.
        """
        if self._base_key.shape:
            raise _refused(
                "cannot operate on split stateful generator: it has one state for each example",
                "pass it through vmap; or use rng.spawn(n), a list of generators",
            )
        made = numbers.fold_in(self._base_key, self._counter[...])
        self._counter.addupdate(1, ...)
        wanted = _shape(shape)
        return numbers.split(made, wanted) if wanted else made

    def random(self, size: Size = None, dtype: Any = float) -> Array:
        """Draw floats from [0, 1)."""
        return numbers.uniform(self.key(), _shape(size), dtype)

    def uniform(
        self, low: Any = 0, high: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Draw floats from [low, high)."""
        return numbers.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(
        self, loc: Any = 0, scale: Any = 1, size: Size = None, *, dtype: Any = float
    ) -> Array:
        """Draw from normal distributions with means `loc` and standard deviations `scale`."""
        drawn = numbers.normal(self.key(), _shape(size, loc, scale), dtype)
        return (jnp.asarray(loc) + jnp.asarray(scale) * drawn).astype(dtype)

    def integers(self, low: Any, high: Any = None, size: Size = None, *, dtype: Any = int) -> Array:
        """Draw integers from [low, high); from [0, low) if only one is given."""
        if high is None:
            low, high = 0, low
        return numbers.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Return independent generators as one batch of shape `num`, for `vmap`."""
        return StatefulPRNG(self.key(num), new_ref(jnp.zeros(_shape(num), int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """Return independent generators."""
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: Any = None, *, impl: Any = None) -> StatefulPRNG:
    """Return a generator from a seed; without one, from the system's entropy.

    Raises: TypeError without a seed inside a transformed function.
    """
    if seed is None:
        if state.trace is not state.root:
            raise TypeError(
                three_lines(
                    f"stateful_rng() at {current_source()}",
                    "When used within transformed code, stateful_rng() requires an explicit seed "
                    "to be set: a program would draw the same numbers at each call",
                    "write stateful_rng(seed); or create the generator outside, and pass it",
                )
            )
        seed = np.random.SeedSequence().generate_state(1, np.uint64)[0] >> np.uint64(1)
        seed = np.int64(seed)
    return StatefulPRNG(numbers.key(seed, impl=impl), new_ref(0))


def _refused(wrong: str, instead: str) -> ValueError:
    return ValueError(three_lines(f"StatefulPRNG at {current_source()}", wrong, instead))
