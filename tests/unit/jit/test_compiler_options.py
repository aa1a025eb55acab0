"""`compiler_options`: checked, comparable, merged."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln.jit.compiler_options import merged, settings_of

X = np.ones(3, np.float32)


def test_settings_are_sorted_pairs() -> None:
    assert settings_of(None, "jit(f)") == settings_of({}, "jit(f)") == ()
    assert settings_of({"b": True, "a": "x"}, "jit(f)") == (("a", "x"), ("b", True))
    pairs = settings_of({"a": np.int64(2)}, "jit(f)")
    assert type(pairs[0][1]) is int


@pytest.mark.parametrize(
    ("options", "named"), [([("a", 1)], "dict"), ({1: 2}, "str, got 1"), ({"a": [1]}, "'a'")]
)
def test_what_is_no_dict_of_settings(options, named) -> None:
    with pytest.raises(TypeError, match=named):
        settings_of(options, "jit(f)")


def test_later_options_hold() -> None:
    assert merged((("a", 1), ("b", 2)), (("b", 3),)) == (("a", 1), ("b", 3))


def test_options_of_jit_reach_the_compiler_through_the_stages() -> None:
    f = kiln.jit(lambda x: x + 1, compiler_options={"no_such_option": 1})
    with pytest.raises(kiln.errors.JaxRuntimeError, match="no_such_option"):
        f.lower(X).compile(compiler_options={"xla_backend_optimization_level": 0})


def test_different_options_never_mix() -> None:
    def f(x):
        return x + 1

    kiln.jit(f)(X)
    with pytest.raises(kiln.errors.JaxRuntimeError, match="no_such_option"):
        kiln.jit(f, compiler_options={"no_such_option": 1})(X)


def test_the_reference_engine_has_no_options() -> None:
    f = kiln.jit(lambda x: x + 1, compiler_options={"no_such_option": 1})
    kiln.config.update("engine", "reference")
    try:
        with pytest.raises(ValueError, match="no_such_option"):
            f(X)
    finally:
        kiln.config.update("engine", None)
