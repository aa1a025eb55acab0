"""Keys of a path: the names from the root down and a count, hashed on the host, folded into a key.

A module therefore draws the same numbers wherever in the program it is created, and keys need not
be split. The hash is Flax's: the first four bytes of SHA-1 over the names and the count's bytes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from kiln.core.arrays.array import Array
from kiln.core.trace import aval_of, is_typed
from kiln.ir.analysis import key_uses
from kiln.linen.errors import InvalidRngError
from kiln.ops.random.random_bits import UINT32
from kiln.random.keys import fold_in, key_dtype

Path = tuple[str, ...]


def path_hash(path: Path, count: int) -> int:
    """Return the 32-bit hash for the `count`-th draw of the module at `path`."""
    digest = hashlib.sha1("".join(path).encode())
    digest.update(count.to_bytes((count.bit_length() + 7) // 8, "big"))
    return int.from_bytes(digest.digest()[:4], "big")


class Keys(Protocol):
    """The source of the keys of one application's modules: a root for each stream."""

    @property
    def roots(self) -> Mapping[str, Any]:
        """The root keys of the streams, by name."""

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return the uint32 that is folded into the root of a stream for a draw."""

    def __contains__(self, name: object) -> bool:
        """Tell whether there is a stream of that name."""

    def draw(self, name: str, path: Path, count: int) -> Any:
        """Return the key of the `count`-th draw, counted from 1, of the module at `path`."""


class FoldedKeys:
    """Keys made of one root key per stream."""

    __slots__ = ("roots",)

    def __init__(self, roots: Mapping[str, Any]) -> None:
        self.roots = dict(roots)

    def __contains__(self, name: object) -> bool:
        return name in self.roots

    def number(self, name: str, path: Path, count: int) -> Any:
        """Return the hash of the path and the count."""
        return np.uint32(path_hash(path, count))

    def draw(self, name: str, path: Path, count: int) -> Any:
        """Fold the hash of the path and the count into the stream's root key."""
        return fold_in(self.roots[name], np.uint32(path_hash(path, count)))


class DrawCounts:
    """How often a module and the modules below it have drawn from each stream.

    Counts persist across calls of a compact method: a second call draws new numbers.
    """

    __slots__ = ("below", "drawn")

    def __init__(self) -> None:
        self.drawn: dict[str, int] = {}
        self.below: dict[str, DrawCounts] = {}

    def next(self, name: str) -> int:
        """Count one more draw and return which it is."""
        count = self.drawn.get(name, 0) + 1
        self.drawn[name] = count
        return count

    def of(self, name: str) -> DrawCounts:
        """Return the counts of a submodule."""
        counts = self.below.get(name)
        if counts is None:
            counts = self.below[name] = DrawCounts()
        return counts

    def items(self) -> list[tuple[Path, str, int]]:
        """Return path, stream and count of all that was drawn."""
        found: list[tuple[Path, str, int]] = [((), n, c) for n, c in self.drawn.items()]
        for name, counts in self.below.items():
            found.extend(((name, *path), stream, c) for path, stream, c in counts.items())
        return found

    def at(self, path: Path) -> DrawCounts:
        """Return the counts of the module at a path."""
        counts = self
        for step in path:
            counts = counts.of(step)
        return counts

    def add(self, path: Path, name: str, count: int) -> None:
        """Count `count` draws of the module at a path."""
        counts = self.at(path)
        counts.drawn[name] = counts.drawn.get(name, 0) + count


def is_key(value: Any) -> bool:
    """Tell whether a value is one random key, typed or raw."""
    if not isinstance(value, (Array, np.ndarray)):
        return False
    aval = aval_of(value)
    if key_uses.is_key(aval):
        return bool(aval.shape == ())
    return bool(aval.dtype == UINT32 and aval.shape == (key_dtype().words,))


def streams(rngs: Any, asked: str) -> dict[str, Any]:
    """Return keys by stream: a single key is that of `params`, and None means no keys.

    Raises: InvalidRngError for anything but keys and dictionaries of keys.
    """
    if rngs is None:
        return {}
    if isinstance(rngs, Mapping):
        for name, key in rngs.items():
            if not isinstance(name, str) or not is_key(key):
                raise InvalidRngError(
                    f"{asked} with rngs[{name!r}] = {_shown(key)}",
                    "rngs should be a dictionary mapping strings to `jax.PRNGKey`. "
                    f"{_place(asked)} should be a ``jax.PRNGKey`` or such a dictionary",
                    "write rngs={'dropout': kiln.random.key(0)}",
                )
        return dict(rngs)
    if is_key(rngs):
        return {"params": rngs}
    raise InvalidRngError(
        f"{asked} with rngs {_shown(rngs)}",
        f"RNGs should be of shape (2,) or PRNGKey in Module {asked.split()[-1]}, but rngs are: "
        f"{' '.join(str(rngs).split()):.60}; they may be a dictionary of keys, too",
        "write kiln.random.key(0), or {'params': key, 'dropout': key}",
    )


def _place(asked: str) -> str:
    if asked.startswith("apply"):
        return "The ``rngs`` argument passed to an apply function"
    return "First argument passed to an init function"


def _shown(value: Any) -> str:
    return str(value.aval) if is_typed(value) else f"{value!r:.60}"
