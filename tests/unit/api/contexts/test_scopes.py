"""Contexts of the thread change what they find where they are entered, not where they are made."""

from __future__ import annotations

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.api.contexts.scopes import make_user_context
from kiln.extend import source_info_util

X = np.ones(3, np.float32)


def _scopes(program: kiln.ClosedJaxpr) -> list[str]:
    return [str(e.source_info.name_stack) for e in program.eqns]


def test_scopes_that_were_made_before_they_are_entered() -> None:
    outer, inner = kiln.named_scope("outer"), kiln.named_scope("inner")
    under = source_info_util.extend_name_stack("under")

    def fun(x: kiln.Array) -> kiln.Array:
        with outer, inner:
            x = jnp.sin(x)
            with under as stack:
                assert str(stack) == "outer/inner/under"
                x = jnp.cos(x)
        with outer:
            return jnp.tan(x)

    assert _scopes(kiln.make_jaxpr(fun)(X)) == ["outer/inner", "outer/inner/under", "outer"]


def test_a_decorated_function_is_in_the_scopes_of_its_call() -> None:
    @kiln.named_scope("part")
    def part(x: kiln.Array, depth: int) -> kiln.Array:
        return part(x, depth - 1) if depth else jnp.sin(x)

    def fun(x: kiln.Array) -> kiln.Array:
        with kiln.named_scope("whole"):
            return part(x, 1)

    assert _scopes(kiln.make_jaxpr(fun)(X)) == ["whole/part/part"]


def test_settings_of_users_that_were_made_before_they_are_entered() -> None:
    one, two = make_user_context(0), make_user_context(0)
    first, second, again = one(1), two(2), one(3)
    with first, second:
        assert (one.value, two.value) == (1, 2)
        with again:
            assert (one.value, two.value) == (3, 2)
        assert again(lambda: (one.value, two.value))() == (3, 2)
        assert (one.value, two.value) == (1, 2)
    assert (one.value, two.value) == (0, 0)
