"""Functions with transformations of their arguments and results."""

from __future__ import annotations

from typing import Any

import pytest

from kiln.extend import linear_util as lu


@lu.transformation2
def scaled(f: Any, k: int, *args: Any) -> Any:
    """Scale the result."""
    return f(*args) * k


@lu.transformation_with_aux2
def counted(f: Any, store: Any, *args: Any) -> Any:
    """Store the number of arguments."""
    store.store(len(args))
    return f(*args)


@lu.transformation
def doubled(k: int, *args: Any) -> Any:
    """Multiply arguments by k and negate the result; a generator."""
    out = yield [x * k for x in args], {}
    yield -out


@lu.transformation_with_aux
def noted(*args: Any) -> Any:
    """Return the arguments beside the result; a generator."""
    out = yield args, {}
    yield out, args


def plus(x: int, y: int = 0) -> int:
    return x + y


def test_the_last_transformation_is_the_outermost() -> None:
    fun = lu.wrap_init(plus)
    assert fun.call_wrapped(1, 2) == 3
    assert scaled(fun, 10).call_wrapped(1, 2) == 30
    assert doubled(fun, 10).call_wrapped(1, 2) == -30
    assert scaled(doubled(fun, 10), 2).call_wrapped(1) == -20
    assert lu.wrap_init(plus, {"y": 5}).call_wrapped(1) == 6


def test_values_beside_the_result() -> None:
    for transformation, aux in ((counted, 2), (noted, (1, 2))):
        fun, thunk = transformation(lu.wrap_init(plus))
        with pytest.raises(lu.StoreException, match="Store empty"):
            thunk()
        assert fun.call_wrapped(1, 2) == 3
        assert thunk() == aux
        with pytest.raises(lu.StoreException, match="Store occupied"):
            fun.call_wrapped(1, 2)


def test_the_one_value_that_is_there() -> None:
    (first, one), (_, other) = counted(lu.wrap_init(plus)), counted(lu.wrap_init(plus))
    with pytest.raises(lu.StoreException, match="neither"):
        lu.merge_linear_aux(one, other)
    first.call_wrapped(1)
    assert lu.merge_linear_aux(one, other) == (True, 1)
    assert lu.merge_linear_aux(other, one) == (False, 1)
    with pytest.raises(lu.StoreException, match="both"):
        lu.merge_linear_aux(one, one)


def test_equal_functions() -> None:
    a, b = scaled(lu.wrap_init(plus), 2), scaled(lu.wrap_init(plus), 2)
    assert a == b
    assert hash(a) == hash(b)
    assert a != scaled(lu.wrap_init(plus), 3)
    assert a.__name__ == "plus"
    assert "plus at" in repr(a)
    assert a.replace_debug_info("info").debug_info == "info"


def test_results_are_kept_for_equal_functions() -> None:
    calls: list[Any] = []

    @lu.cache
    def run(fun: Any, *args: Any) -> Any:
        calls.append(args)
        return fun.call_wrapped(*args)

    for _ in range(2):
        fun, thunk = counted(lu.wrap_init(plus))
        assert run(fun, 1, 2) == 3
        assert thunk() == 2
    assert calls == [(1, 2)]
    run.cache_clear()
    assert run(counted(lu.wrap_init(plus))[0], 1, 2) == 3
    assert len(calls) == 2
