"""What JAX's tests ask of the private module of key reuse: the findings of kiln's, as signatures.

A signature says of a program which keys it uses, makes and passes on. Here it is what kiln finds
when it goes through the program with fresh keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import total_ordering
from typing import Any, NamedTuple

import numpy as np

import kiln
import kiln.lax
from kiln.base.tree import tree_leaves
from kiln.core.primitive import Primitive
from kiln.ir.analysis import key_uses
from kiln.ir.analysis.key_uses import Keys
from kiln.ir.jaxpr import Eqn, Jaxpr
from kiln.ops.random import random_bits


@total_ordering
class _Marked:
    """The keys of an operand or result for which a mask is True."""

    idx: int
    mask: Any

    def __init__(self, idx: int, mask: Any = True) -> None:
        mask = np.array(mask, bool)
        if not mask.any() or mask.all():
            mask = bool(mask.any())
        else:
            mask.flags.writeable = False
        vars(self).update(idx=idx, mask=mask)

    def __setattr__(self, name: str, value: Any) -> None:
        raise ValueError(f"{type(self).__name__} is immutable")

    def _parts(self) -> tuple[Any, ...]:
        return (
            type(self).__name__,
            self.idx,
            np.shape(self.mask),
            np.asarray(self.mask).tobytes(),
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Marked) and self._parts() == other._parts()

    def __lt__(self, other: Any) -> bool:
        return isinstance(other, Forward) or self._parts() < other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        mask = "" if self.mask is True else f", {self.mask}"
        return f"{type(self).__name__}({self.idx}{mask})"


class Sink(_Marked):
    """Keys that are used."""


class Source(_Marked):
    """Keys that are made."""


class Forward(NamedTuple):
    """Keys that are passed on."""

    in_idx: int
    out_idx: int

    def __repr__(self) -> str:
        return f"Forward({self.in_idx}, {self.out_idx})"


class Signature:
    """What a program does to keys."""

    def __init__(self, *parts: Any) -> None:
        self.parts = frozenset(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Signature) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        marked = sorted(part for part in self.parts if isinstance(part, _Marked))
        passed = sorted(part for part in self.parts if isinstance(part, Forward))
        return f"KeyReuseSignature({', '.join(map(repr, [*marked, *passed]))})"


class _OnKeys(Primitive):
    """An operation of these tests on one array, which it returns."""

    region = True  # Such operations are always asked about keys.

    def infer(self, x: Any, **_: Any) -> Any:
        return x

    def numpy(self, x: Any, **_: Any) -> Any:
        return x

    def batch(self, size: Any, xs: Sequence[Any], axes: Sequence[Any], /, **params: Any) -> Any:
        return self.bind(*xs, **params), axes[0]


class _Consume(_OnKeys):
    name = "consume"

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        key_uses.use(eqn, operands)
        return [*operands]


class _Assert(_OnKeys):
    name = "assert_consumed_value"

    def use_keys(self, eqn: Eqn, operands: Sequence[Keys], values: Sequence[Any]) -> list[Keys]:
        wanted, (keys,) = np.array(eqn.params["value"]), operands
        if keys is None:
            raise AssertionError("nobody can tell which keys these are")
        used = _used(keys)
        if not (used == wanted).all():
            raise AssertionError(f"expected {wanted}, got {used}")
        return [*operands]


consume_p = _Consume()
_assert_p = _Assert()


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _assert_consumed(key: Any, value: Any = True) -> None:
    _assert_p.bind(key, value=_hashable(np.array(value).tolist()))


def _used(keys: np.ndarray) -> np.ndarray:
    return np.vectorize(lambda key: bool(key.used_at), otypes=[bool])(keys)


def _signature_of(jaxpr: Jaxpr) -> Signature:
    given = [key_uses.fresh(v.aval) for v in jaxpr.invars]
    found = key_uses.run(jaxpr, given)
    parts: list[Any] = []
    for i, keys in enumerate(given):
        if keys is not None and _used(keys).any():
            parts.append(Sink(i, _used(keys)))
    owner = {id(key): i for i, keys in enumerate(given) for key in key_uses.distinct([keys])}
    for i, keys in enumerate(found):
        own = key_uses.distinct([keys])
        if own and all(id(key) in owner for key in own):
            parts += [Forward(j, i) for j in {owner[id(key)] for key in own}]
        elif own and not any(key.used_at for key in own):
            parts.append(Source(i))
    return Signature(*parts)


def _function_signature(fun: Callable[..., Any], *args: Any) -> Signature:
    return _signature_of(kiln.make_jaxpr(lambda *xs: tree_leaves(fun(*xs)))(*args).jaxpr)


def _check(fun: Callable[..., Any], *args: Any) -> None:
    _function_signature(fun, *args)


class _Gamma(Primitive):
    """The name of an operation, which kiln expresses by others."""

    name = "random_gamma"


_gamma_p = _Gamma()

_EXPECTED = {
    consume_p: Signature(Sink(0), Forward(0, 0)),
    random_bits.random_clone_p: Signature(Source(0)),
    random_bits.random_bits_p: Signature(Sink(0)),
    random_bits.random_seed_p: Signature(Source(0)),
    random_bits.random_split_p: Signature(Sink(0), Source(0)),
    random_bits.random_wrap_p: Signature(Source(0)),
    _gamma_p: Signature(Sink(0)),
    kiln.lax.broadcast_in_dim_p: Signature(Forward(0, 0)),
    kiln.lax.copy_p: Signature(Forward(0, 0)),
    kiln.lax.convert_element_type_p: Signature(Forward(0, 0)),
    kiln.lax.reshape_p: Signature(Forward(0, 0)),
    kiln.lax.squeeze_p: Signature(Forward(0, 0)),
    kiln.lax.dynamic_slice_p: Signature(Forward(0, 0)),
    kiln.lax.dynamic_update_slice_p: Signature(Sink(1), Forward(0, 0)),
}
"""What operations do to keys in JAX. kiln has it as a rule of each operation, `use_keys`."""


def key_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {
        "jax.random": {"random_gamma_p": _gamma_p},
        "jax.experimental.key_reuse": {},
        "jax.experimental.key_reuse._core": {
            "assert_consumed": _assert_consumed,
            "assert_unconsumed": lambda key: _assert_consumed(key, False),
            "check_key_reuse": _check,
            "consume": consume_p.bind,
            "consume_p": consume_p,
            "function_type_signature": _function_signature,
            "jaxpr_type_signature": _signature_of,
            "key_reuse_signatures": _EXPECTED,
            "Forward": Forward,
            "KeyReuseSignature": Signature,
            "Sink": Sink,
            "Source": Source,
        },
    }
