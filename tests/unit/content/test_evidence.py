"""Evidence holds exactly as long as reading again would find the same."""

from __future__ import annotations

import functools
import gc
import types
from collections.abc import Callable
from typing import Any

import pytest

from kiln import numpy as jnp
from kiln.content.evidence import Evidence, place_of
from kiln.content.fingerprint import content_of

SOURCE = """
import functools
def deepest(x, factor=2):
    return x * factor
def inner(x):
    return deepest(x) + offset + len(shown) + tools.table.scale
def enclosing(number):
    def other(x):
        return inner(x) * number
    return other
once = enclosing(3)
def make():
    other = once
    return lambda x, power=2: other(x) ** power
def make_plain():
    return lambda x: inner(x)
def make_partial():
    return functools.partial(inner)
def set_enclosed(f, value):
    f.__closure__[0].cell_contents.__closure__[0].cell_contents = value
"""
MAKERS = ["make", "make_plain", "make_partial"]


def program() -> dict[str, Any]:
    """Return the globals of a program of three functions, a module within a module, a builtin."""
    tools = types.ModuleType("tools")
    tools.table = types.ModuleType("table")
    tools.table.scale = 5
    space: dict[str, Any] = {"offset": 1, "shown": "abc", "tools": tools}
    exec(compile(SOURCE, "program", "exec"), space)
    return space


def evidence_of(f: Any) -> Evidence:
    """Return the evidence for a function."""
    content = content_of(f)
    assert content is not None
    assert content.evidence is not None
    return content.evidence


@pytest.mark.parametrize("maker", MAKERS)
def test_it_holds_for_another_function_of_the_same_content(maker: str) -> None:
    space = program()
    first, again = space[maker](), space[maker]()
    found = evidence_of(first)
    assert found.place == place_of(again)
    assert found.holds_for(again)
    assert content_of(again).value == content_of(first).value  # type: ignore[union-attr]


def _replace_code(space: dict[str, Any]) -> None:
    space["inner"].__code__ = (lambda x: x).__code__


def _shadow(space: dict[str, Any]) -> None:
    space["len"] = lambda x: 0


def _builtins(space: dict[str, Any]) -> None:
    space["__builtins__"]["len"] = lambda x: 0


CHANGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a number": lambda s: s.update(offset=2),
    "another type": lambda s: s.update(offset=True),
    "a string": lambda s: s.update(shown="abcd"),
    "a function": lambda s: s.update(deepest=lambda x: x),
    "a function, and the first lives": lambda s: s.update(first=s["deepest"], deepest=lambda x: x),
    "no longer defined": lambda s: s.pop("offset"),
    "a builtin is shadowed": _shadow,
    "a number of a module": lambda s: setattr(s["tools"].table, "scale", 6),
    "a module of a module": lambda s: setattr(s["tools"], "table", types.ModuleType("table")),
    "a module": lambda s: s.update(tools=types.ModuleType("tools")),
    "an attribute is deleted": lambda s: delattr(s["tools"].table, "scale"),
    "what was a module": lambda s: s.update(tools=3),
    "defaults": lambda s: setattr(s["deepest"], "__defaults__", (3,)),
    "no defaults": lambda s: setattr(s["deepest"], "__defaults__", None),
    "keyword defaults": lambda s: setattr(s["deepest"], "__kwdefaults__", {"factor": 3}),
    "an attribute of a function": lambda s: setattr(s["inner"], "mark", 1),
    "code": _replace_code,
    "a name": lambda s: setattr(s["inner"], "__name__", "outer"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("maker", MAKERS)
def test_it_does_not_hold_after_a_change(maker: str, change: str) -> None:
    space = program()
    first = space[maker]()
    found = evidence_of(first)
    CHANGES[change](space)
    assert not found.holds_for(space[maker]())
    assert not found.holds_for(first)


def test_a_replaced_builtin() -> None:
    space = program()
    space["__builtins__"] = dict(vars(__import__("builtins")))
    exec(compile(SOURCE, "program", "exec"), space)
    found = evidence_of(space["make_plain"]())
    assert found.holds_for(space["make_plain"]())
    _builtins(space)
    assert not found.holds_for(space["make_plain"]())


def test_enclosed_values_of_the_root_and_of_others() -> None:
    def make(number: Any) -> Callable[[Any], Any]:
        return lambda x: x * number

    small = evidence_of(make(3))
    assert small.holds_for(make(3))
    assert not small.holds_for(make(4))
    assert not small.holds_for(make(3.0))
    assert not small.holds_for(make(True))

    space = program()
    f = space["make"]()
    found = evidence_of(f)
    space["set_enclosed"](f, 4)
    assert not found.holds_for(f)


def test_defaults_and_attributes_of_the_root() -> None:
    space = program()
    found = evidence_of(space["make"]())
    other = space["make"]()
    other.__defaults__ = (3,)
    assert not found.holds_for(other)
    other.__defaults__ = (2, 2)
    assert not found.holds_for(other)
    other.__defaults__ = (2,)
    assert found.holds_for(other)
    space["once"] = space["enclosing"](3)
    assert not found.holds_for(space["make"]())
    plain = evidence_of(space["make_plain"]())
    other = space["make_plain"]()
    assert plain.holds_for(other)
    other.mark = 1
    assert not plain.holds_for(other)


def test_functions_are_not_kept_alive_and_their_addresses_are_not_trusted() -> None:
    space = program()
    found = evidence_of(space["make_plain"]())
    code, defaults = space["inner"].__code__, space["inner"].__defaults__
    del space["inner"]
    gc.collect()
    for _ in range(100):
        space["inner"] = types.FunctionType(code, space, "inner", defaults)
        assert not found.holds_for(space["make_plain"]())


@pytest.mark.parametrize("enclosed", [jnp.arange(3.0), (1, 2), [1], {}, object(), gc])
def test_what_is_not_compared_by_identity_leaves_no_evidence(enclosed: Any) -> None:
    content = content_of(lambda x: x * enclosed)
    assert content is None or content.evidence is None


def test_a_function_that_reaches_itself_leaves_no_evidence() -> None:
    space: dict[str, Any] = {}
    exec("def f(x):\n    return g(x)\ndef g(x):\n    return x if x is None else f(None)", space)
    content = content_of(space["f"])
    assert content is not None
    assert content.evidence is None


def test_functions_of_kiln_are_compared_with_their_attributes() -> None:
    def make() -> Callable[[Any], Any]:
        return lambda x: jnp.tanh(x)

    found = evidence_of(make())
    assert found.holds_for(make())
    jnp.tanh.mark = 1  # type: ignore[attr-defined]
    try:
        assert not found.holds_for(make())
    finally:
        del jnp.tanh.mark  # type: ignore[attr-defined]
    assert found.holds_for(make())


@pytest.mark.parametrize(
    "other", [functools.partial(len), functools.partial(lambda x, y: x, 1), print, object()]
)
def test_other_callables_have_no_place(other: Any) -> None:
    place = place_of(other)
    assert place is None


def test_partials_with_arguments_or_attributes_have_none() -> None:
    space = program()
    found = evidence_of(space["make_partial"]())
    assert found.holds_for(functools.partial(space["inner"]))
    assert place_of(functools.partial(space["inner"], 1)) is None
    assert place_of(functools.partial(space["inner"], factor=1)) is None
    marked = functools.partial(space["inner"])
    marked.mark = 1  # type: ignore[attr-defined]
    assert place_of(marked) is None
    # Of the same code, but another function.
    again = types.FunctionType(space["inner"].__code__, space, "inner")
    assert not found.holds_for(functools.partial(again))
