"""Which programs hold functions of the user's."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.ir.user_code import holds_user_code


def _on_host(x: Any) -> Any:
    return x


def _program(f: Any) -> Any:
    return kiln.make_jaxpr(f)(jnp.float32(1)).jaxpr


def test_plain_programs_hold_none() -> None:
    for f in (lambda x: x + 1, kiln.nn.relu, lambda x: kiln.lax.fori_loop(0, 3, _twice, x)):
        assert not holds_user_code(_program(f))


def _twice(i: Any, x: Any) -> Any:
    return x * 2


def test_callbacks_and_rules() -> None:
    like = np.zeros((), np.float32)
    local = lambda x: x
    for callback in (_on_host, local):
        for f in (
            lambda x: kiln.pure_callback(callback, like, x),  # noqa: B023
            lambda x: kiln.lax.cond(x > 0, lambda y: kiln.pure_callback(callback, like, y), abs, x),  # noqa: B023
        ):
            assert holds_user_code(_program(f))

    @kiln.custom_jvp
    def ruled(x: Any) -> Any:
        return x

    ruled.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    assert holds_user_code(_program(lambda x: ruled(x)))
