"""Cases of random bits. Operands are the words of keys: `apply` wraps and unwraps them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.options.config import override
from kiln.ops.random import random_bits as ops
from kiln.ops.random.threefry import threefry2x32, threefry2x32_p
from tests.cases.case import Case, Operand

MANY = 4294967295
FIXED_COUNT = "how many words are hashed together decides every one of them"
KEY = Operand((2,), "uint32", 0, MANY)
KEYS = Operand((3, 2), "uint32", 0, MANY)


EACH = ((0, 0),)
"""The axis of the keys may be a named one."""


def word(*shape: int) -> Operand:
    """Return an operand of random words."""
    return Operand(shape, "uint32", 0, MANY)


def on_keys(fun: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """Return a function of keys as a function of their words."""
    return lambda data, *rest: fun(ops.random_wrap(data), *rest, *args)


def partitionable(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function as it is with the other layout of the counters."""

    def run(*xs: Any) -> Any:
        with override(threefry_partitionable=True):
            return fun(*xs)

    return run


def _bits(bit_width: int, shape: tuple[int, ...], keys: Operand) -> list[Case]:
    apply = on_keys(ops.random_bits, bit_width, shape)
    title = f"{bit_width} {shape} "
    named: Any = EACH if len(keys.shape) > 1 else FIXED_COUNT
    return [
        Case(ops.random_bits_p, apply, (keys,), title, named=named),
        Case(
            ops.random_bits_p,
            partitionable(apply),
            (keys,),
            f"{title}partitionable ",
            named=named,
        ),
    ]


def _split(shape: tuple[int, ...], keys: Operand) -> list[Case]:
    def apply(data: Any) -> Any:
        return ops.random_unwrap(ops.random_split(ops.random_wrap(data), shape))

    named: Any = EACH if len(keys.shape) > 1 else FIXED_COUNT
    return [
        Case(ops.random_split_p, apply, (keys,), f"{shape} ", named=named),
        Case(
            ops.random_split_p,
            partitionable(apply),
            (keys,),
            f"{shape} partitionable ",
            named=named,
        ),
    ]


CASES = [
    Case(threefry2x32_p, threefry2x32, (word(5), word(5), word(5), word(5))),
    Case(
        threefry2x32_p,
        threefry2x32,
        (word(), word(), word(3, 4), word(3, 4)),
        named=((2, 0), (3, 0)),
    ),
    Case(threefry2x32_p, threefry2x32, (word(), word(), word(), word())),
    *[
        Case(
            ops.random_seed_p,
            lambda seeds: ops.random_unwrap(ops.random_seed(seeds)),
            (Operand(shape, dtype, -100, 100),),
            named=EACH if shape else (),
        )
        for shape, dtype in [((), "int32"), ((3,), "int8"), ((2, 2), "int32")]
    ],
    Case(ops.random_wrap_p, ops.random_wrap, (KEYS,), named=EACH),
    Case(ops.random_wrap_p, ops.random_wrap, (KEY,)),
    Case(ops.random_unwrap_p, on_keys(ops.random_unwrap), (KEYS,), named=EACH),
    Case(ops.random_clone_p, on_keys(ops.random_clone), (KEYS,), named=EACH),
    Case(ops.random_fold_in_p, on_keys(ops.random_fold_in), (KEY, word())),
    Case(
        ops.random_fold_in_p, on_keys(ops.random_fold_in), (KEYS, word(3)), named=((0, 0), (1, 0))
    ),
    Case(ops.random_fold_in_p, on_keys(ops.random_fold_in), (KEYS, word())),
    Case(ops.random_fold_in_p, on_keys(ops.random_fold_in), (KEY, word(4))),
    *_split((2,), KEY),
    *_split((3, 2), KEYS),
    *_split((), KEY),
    *_bits(32, (5,), KEY),
    *_bits(32, (2, 3), KEYS),
    *_bits(32, (), KEYS),
    *_bits(32, (0, 2), KEY),
    *_bits(8, (7,), KEY),
    *_bits(8, (2, 3), KEYS),
    *_bits(16, (5,), KEYS),
]
