"""Interceptors and settings of linen: contexts made before they are entered, and decorators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
from kiln import linen
from kiln.linen.scopes.context import context

X = np.ones((1, 2), np.float32)


def _noting(name: str, notes: list[str]) -> linen.intercept_methods:
    def interceptor(call: Callable[..., Any], args: Any, kwargs: Any, _: Any) -> Any:
        notes.append(name)
        return call(*args, **kwargs)

    return linen.intercept_methods(interceptor)


def test_interceptors_that_were_made_before_they_are_entered() -> None:
    notes: list[str] = []
    outer, inner = _noting("outer", notes), _noting("inner", notes)
    layer = linen.Dense(2)
    variables = layer.init(kiln.random.key(0), X)
    with outer, inner:
        layer.apply(variables, X)
    assert notes == ["outer", "inner"]
    notes.clear()
    with inner:
        layer.apply(variables, X)
    layer.apply(variables, X)
    assert notes == ["inner"]


def test_interceptors_and_settings_decorate_functions() -> None:
    notes: list[str] = []
    layer = linen.Dense(2)
    variables = layer.init(kiln.random.key(0), X)

    @_noting("noted", notes)
    @linen.override_named_call(False)
    def run() -> bool:
        layer.apply(variables, X)
        return context.named_calls

    assert [run(), run()] == [False, False]
    assert notes == ["noted", "noted"]
    assert context.named_calls
