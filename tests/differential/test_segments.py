"""Reductions over segments give jax's values, types and kinds of errors."""

from __future__ import annotations

import pytest

import kiln
import kiln.ops
from tests.differential.expressions import cases, lines
from tests.differential.oracle import Topic

IDS = "arr([0, 2, 2, 5, 1, 0, 7, 2])"
EACH = """
    jax.ops.NAME(f(8), IDS)
    jax.ops.NAME(f(8, 3), IDS)
    jax.ops.NAME(i(8), IDS)
    jax.ops.NAME(i8(8), IDS)
    jax.ops.NAME(u8(8), IDS)
    jax.ops.NAME(f16(8), IDS)
    jax.ops.NAME(b(8), IDS)
    jax.ops.NAME(f(8), IDS, 3)
    jax.ops.NAME(f(8), IDS, num_segments=12)
    jax.ops.NAME(f(8), IDS, num_segments=0)
    jax.ops.NAME(f(8), IDS, num_segments=-1)
    jax.ops.NAME(f(8), arr([0, -1, -8, 5, 1, 0, 7, 2]), 8)
    jax.ops.NAME(f(8), arr([0, -1, -8, 5, 1, 0, 9, 2]), 8, mode='clip')
    jax.ops.NAME(f(8), arr([0, -1, -8, 5, 1, 0, 9, 2]), 8, mode='drop')
    jax.ops.NAME(f(8), arr([0, 1, 2, 5, 3, 4, 7, 6]), 8, mode='promise_in_bounds')
    jax.ops.NAME(f(8), arr([0, 0, 1, 1, 1, 3, 4, 4]), indices_are_sorted=True)
    jax.ops.NAME(f(8), arr([7, 6, 5, 4, 3, 2, 1, 0]), unique_indices=True)
    jax.ops.NAME(f(8), IDS, bucket_size=3)
    jax.ops.NAME(f(8, 2), IDS, 8, bucket_size=2)
    jax.ops.NAME(i8(8), IDS, 8, bucket_size=4)
    jax.ops.NAME(f(8), arr([0, -1, -8, 5, 1, 0, 9, 2]), 8, bucket_size=3)
    jax.ops.NAME(2.0, 3)
    jax.ops.NAME(f(8), [0] * 8)
    jax.ops.NAME(f(8), np.zeros(8, np.int64))
    jax.ops.NAME(f(8), f(8))
    jax.ops.NAME(f(8), arr([0, 1]))
    jax.ops.NAME(f(2, 4), arr([[0, 2, 2, 1], [1, 1, 0, 0]]))
    jax.ops.NAME(f(0), arr([], 'i4'), 3)
    jax.ops.NAME(f(0), arr([], 'i4'))
    jax.jit(lambda x, n: jax.ops.NAME(x, n, 8))(f(8), IDS)
    jax.jit(jax.ops.NAME)(f(8), IDS)
    jax.jit(jax.ops.NAME, static_argnums=2)(f(8), IDS, 8)
    jax.grad(lambda x: jnp.sum(jax.ops.NAME(x, IDS, 8)[:3] ** 2))(f(8))
    jax.vmap(lambda x: jax.ops.NAME(x, IDS, 8))(f(2, 8))
    jax.vmap(lambda n: jax.ops.NAME(f(3), n, 4))(arr([[0, 1, 1], [2, 2, 3]]))
"""
NAMES = ("segment_sum", "segment_prod", "segment_max", "segment_min")
TOPIC = Topic(
    "segments",
    cases(
        {
            name: "\n".join(line.replace("NAME", name).replace("IDS", IDS) for line in lines(EACH))
            for name in NAMES
        }
    ),
)


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)


def test_nothing_else_is_shown() -> None:
    assert sorted(dir(kiln.ops)) == sorted(NAMES)
    with pytest.raises(AttributeError, match=r"module 'kiln.ops' has no attribute 'segment_mean'"):
        _ = kiln.ops.segment_mean
