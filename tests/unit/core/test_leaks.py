"""Tracers that outlive their trace: who holds them, and the line that made them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, linen
from kiln.errors import UnexpectedTracerError

HERE = re.escape(__file__)
KEPT: list[Any] = []


def line_of(mark: str) -> int:
    """Return the number of the line of this file that ends with a mark."""
    lines = Path(__file__).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if text.endswith(mark))


class Holder:
    """Something that a function stores values in."""

    value: Any


HOLDER = Holder()


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    KEPT.clear()
    HOLDER.__dict__.clear()
    globals().pop("GLOBAL", None)


def in_list(x: Any) -> Any:
    KEPT.append(x * 2)  # in_list
    return x


def in_nested(x: Any) -> Any:
    HOLDER.value = {"a": (x * 2,)}  # in_nested
    return x


def in_attribute(x: Any) -> Any:
    HOLDER.value = x * 2  # in_attribute
    return x


def in_global(x: Any) -> Any:
    global GLOBAL
    GLOBAL = x * 2  # in_global
    return x


def _with_closure() -> Callable[[Any], Any]:
    held: Any = None

    def in_closure(x: Any) -> Any:
        nonlocal held
        held = x * 2  # in_closure
        return x if held is None else x + 1

    return in_closure


in_closure = _with_closure()

HOLDERS = {
    in_list: r"the item 0 of a list held by the global KEPT of the module ",
    in_nested: r"the item 0 of a tuple held by the key 'a' of a dict held by the attribute value of"
    " an object of type Holder",
    in_attribute: r"the attribute value of an object of type Holder",
    in_global: r"the global GLOBAL of the module ",
    in_closure: r"the closure variable held of _with_closure.<locals>.in_closure",
}

TRANSFORMATIONS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "jit": kiln.jit,
    "grad": kiln.grad,
    "jvp": lambda f: lambda x: kiln.jvp(f, (x,), (x,)),
    "vmap": lambda f: lambda x: kiln.vmap(f)(jnp.stack([x, x])),
    "jit vmap": lambda f: kiln.jit(lambda x: kiln.vmap(f)(jnp.stack([x, x]))),
    "jit grad": lambda f: kiln.jit(kiln.grad(f)),
    "scan": lambda f: lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2),
    "cond": lambda f: lambda x: lax.cond(x > 0, f, jnp.sin, x),
    "checkpoint": lambda f: kiln.checkpoint(f),
}
FIXED_SLICE = ("jit", "jvp")
"""Looking for a leak goes through all objects of the process: a second beside all other tests."""
SOME_TRANSFORMATIONS = [
    pytest.param(name, marks=() if name in FIXED_SLICE else pytest.mark.full)
    for name in TRANSFORMATIONS
]


@pytest.mark.parametrize("holder", HOLDERS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("how", ["jit", pytest.param("vmap", marks=pytest.mark.full)])
def test_the_holder_is_named(how: str, holder: Any) -> None:
    fun = TRANSFORMATIONS[how](holder)
    with kiln.checking_leaks(), pytest.raises(UnexpectedTracerError, match="Leaked") as caught:
        fun(jnp.float32(1))
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    assert HOLDERS[holder] in text
    assert f"{__file__}:{line_of('# ' + holder.__name__)}" in text


@pytest.mark.parametrize("how", SOME_TRANSFORMATIONS)
def test_the_line_is_named_at_the_end_and_at_a_use(how: str) -> None:
    line = line_of("# in_list")
    fun = TRANSFORMATIONS[how](in_list)
    with kiln.checking_leaks(), pytest.raises(UnexpectedTracerError, match=rf"{HERE}:{line}"):
        fun(jnp.float32(1))
    KEPT.clear()
    kiln.clear_caches()
    fun(jnp.float32(1))
    told = r"made at a line that kiln\.checking_leaks\(\) tells"
    where = told if how in ("jvp", "vmap") else rf"made by `mul` at {HERE}:{line} in in_list"
    with pytest.raises(UnexpectedTracerError, match=rf"leak[\s\S]*{where}[\s\S]*used at {HERE}:"):
        KEPT[0] + 1


def test_an_argument_is_named() -> None:
    kiln.jit(lambda weight: KEPT.append(weight) or weight)(1.0)
    with pytest.raises(UnexpectedTracerError, match="the argument weight"):
        KEPT[0] + 1


def test_what_is_returned_or_dropped_is_no_leak() -> None:
    def f(x: Any) -> Any:
        circle: list[Any] = [x * 2]
        circle.append(circle)
        return circle[0] + 1

    with kiln.checking_leaks():
        for wrap in TRANSFORMATIONS.values():
            wrap(f)(jnp.float32(1))


def test_jitted_methods_and_their_late_operands_are_no_leak() -> None:
    class Model(linen.Module):
        @linen.jit
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return linen.Dropout(0.5, deterministic=False)(linen.Dense(2)(x))

    with kiln.checking_leaks():
        rngs = {"params": kiln.random.key(0), "dropout": kiln.random.key(1)}
        Model().init_with_output(rngs, jnp.ones((1, 2)))


def test_a_leak_from_a_jitted_method_names_the_method() -> None:
    class Model(linen.Module):
        @linen.jit
        @linen.compact
        def __call__(self, x: Any) -> Any:
            return in_list(x)

    with kiln.checking_leaks(), pytest.raises(UnexpectedTracerError) as caught:
        Model().apply({}, 1.0)
    assert f"__call__ at {__file__}" in str(caught.value)


def test_the_option_has_jaxs_name_and_traces_again() -> None:
    f = kiln.jit(in_list)
    f(1.0)
    KEPT.clear()
    kiln.config.update("jax_check_tracer_leaks", True)
    try:
        with pytest.raises(UnexpectedTracerError):
            f(1.0)
    finally:
        kiln.config.update("jax_check_tracer_leaks", False)


def test_nothing_is_kept_of_tracers_without_the_option() -> None:
    kiln.vmap(in_list)(jnp.ones(2))
    assert KEPT[0].owner.made is None
