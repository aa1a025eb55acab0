"""Embed looks up rows, and multiplies by them."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import linen
from tests.unit.linen.refusals import inside, refusal

KEY = kiln.random.key(0)


def test_floats_are_no_indices() -> None:
    said = refusal(inside(lambda: linen.Embed(5, 3)), np.ones(2, np.float32))
    assert "Embed at /Embed_0" in said
    assert "Input type must be an integer or unsigned integer." in said


@pytest.mark.parametrize("rows", [1, 5])
def test_rows(rows: int) -> None:
    module = linen.Embed(rows, 3)
    variables = module.init(KEY, np.zeros(2, np.int32))
    table = np.asarray(variables["params"]["embedding"])
    found = np.asarray(module.apply(variables, np.array([[0, rows - 1], [rows, 0]])))
    np.testing.assert_array_equal(found[0], table[[0, rows - 1]])
    assert np.isnan(found[1, 0]).all()


def test_attend_multiplies_by_the_table() -> None:
    module = linen.Embed(5, 3)
    query = np.arange(6, dtype=np.float32).reshape(2, 3)
    variables = module.init(KEY, np.zeros(2, np.int32))
    found = module.apply(variables, query, method="attend")
    table = np.asarray(variables["params"]["embedding"])
    np.testing.assert_allclose(found, query @ table.T, rtol=1e-6)
    with_attend = module.init(KEY, query, method=module.attend)
    np.testing.assert_array_equal(with_attend["params"]["embedding"], table)
