"""Which leaves of a batch have rows, and padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.data.rows import local_batch
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

MESH = kiln.make_mesh((4,), ("d",), devices=kiln.devices()[:4])
BY_ROWS, WHOLE = NamedSharding(MESH, P("d")), NamedSharding(MESH, P())


def batch(rows: int) -> dict[str, Any]:
    x = np.arange(2.0 * rows).reshape(rows, 2)
    return {"scale": np.float32(3), "table": np.ones(5), "x": x, "y": np.ones(rows, np.int8)}


PLACES = {"scale": WHOLE, "table": WHOLE, "x": BY_ROWS, "y": BY_ROWS}


def test_rows_are_those_of_divided_leaves() -> None:
    found = local_batch(batch(6), PLACES, "asked")
    assert (found.rows, found.parts, found.has_rows) == (6, 4, [False, False, True, True])
    assert found.text == "{scale: float32[], table: float64[5], x: float64[rows, 2], y: int8[rows]}"
    assert found.all_rows(8, "asked") == 8
    assert found.mask_sharding() == BY_ROWS


def test_padding() -> None:
    given = batch(6)
    padded, mask = local_batch(given, PLACES, "asked").resized(8)
    assert mask.tolist() == [True] * 6 + [False] * 2
    assert padded["x"].tolist() == [*given["x"].tolist(), [0, 0], [0, 0]]
    assert padded["y"].dtype == np.int8
    assert padded["table"].tolist() == [1] * 5
    none, mask = local_batch(given, PLACES, "asked").without_rows().resized(8)
    assert not none["x"].any()
    assert not mask.any()


def test_a_device() -> None:
    found = local_batch(batch(3) | {"table": np.ones(3)}, kiln.devices()[0], "asked")
    assert (found.rows, found.parts, found.has_rows) == (3, 1, [False, True, True, True])
    assert found.mask_sharding() == kiln.devices()[0]


def test_leaves_without_rows() -> None:
    found = local_batch(np.ones(3), WHOLE, "asked")
    assert (found.rows, found.all_rows(0, "asked")) == (None, 0)


def test_leaves_that_do_not_fit() -> None:
    with pytest.raises(ValueError, match=r"different numbers of rows: \[3, 4\]"):
        local_batch({"a": np.ones(3), "b": np.ones(4)}, BY_ROWS, "asked")
    with pytest.raises(TypeError, match="has the dtype <U1"):
        local_batch(np.array(["a"]), BY_ROWS, "asked")
