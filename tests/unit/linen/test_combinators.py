"""Sequential passes on what layers return; BatchApply merges leading axes."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import linen
from tests.unit.linen.refusals import Outer, inside, refusal

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
KEY = kiln.random.key(0)


def test_names_count_functions_too() -> None:
    module = linen.Sequential([linen.Dense(3), linen.relu, linen.Dense(2)])
    assert sorted(module.init(KEY, X)["params"]) == ["layers_0", "layers_2"]


def test_tuples_and_dicts_become_arguments() -> None:
    module = linen.Sequential(
        [lambda x: (x, 1), lambda x, y: {"a": x, "b": y}, lambda *, a, b: a + b]
    )
    np.testing.assert_array_equal(module.apply({}, X), X + 1)
    two = linen.Sequential([lambda x, *, scale: x * scale])
    np.testing.assert_array_equal(two.apply({}, X, scale=2), X * 2)


def test_what_is_no_sequence_of_layers() -> None:
    assert "Empty Sequential module" in refusal(inside(lambda: linen.Sequential([])), X)
    with pytest.raises(ValueError, match="'layers' must be a sequence, got 'Dense'"):
        linen.Sequential(linen.Dense(3))  # type: ignore[arg-type]


def test_leading_axes() -> None:
    shapes = []

    def fun(x: object, y: object, scale: float = 1.0) -> object:
        shapes.append((np.shape(x), np.shape(y)))
        return {"out": x * scale}

    found = linen.BatchApply(fun)(X, X[0, 0], scale=3.0)
    assert shapes == [((6, 4), (4,))]
    np.testing.assert_array_equal(found["out"], X * 3)
    three = linen.BatchApply(lambda x: x[:, None], num_dims=3)(X)
    assert three.shape == (2, 3, 4, 1)
    with pytest.raises(ValueError, match="at least one input with ndim >= 4"):
        linen.BatchApply(fun, 4)(X, X)


def test_a_bound_module_over_leading_axes() -> None:
    module = Outer(lambda: linen.BatchApply(linen.Dense(5)))
    found, variables = module.init_with_output(KEY, X)
    assert found.shape == (2, 3, 5)
    assert sorted(variables["params"]) == ["Dense_0"]
