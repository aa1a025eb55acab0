"""Options about memory and devices, as numbers of inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln.ir.mesh import Mesh, PartitionSpec
from kiln.ir.sharding import NamedSharding
from kiln.jit.placing import Placing, check_leaves_of, constrained, wishes_of
from kiln.jit.signature import Chosen

MESH = Mesh(np.array(kiln.devices()), "x")
ROWS = NamedSharding(MESH, PartitionSpec("x"))
WHOLE = NamedSharding(MESH, PartitionSpec())
ONES = np.ones(8, np.float32)


def double(x, y=1.0, *, z=0.0):
    return {"a": x * 2 + z, "b": y}


def wishes(placing, *args, fun=double, places=None, **kwargs):
    entry = kiln.jit(fun).entry_for(args, kwargs)
    return wishes_of(placing, fun, entry, args, kwargs, places or range(len(args)))


def test_donated_leaves_are_numbered() -> None:
    chosen = Chosen((0,), ("z",))
    assert wishes(Placing(chosen), ONES, ONES, z=1.0).donated == (0, 2)
    tree = {"u": ONES, "v": (ONES, ONES)}
    fun = lambda t, s: t["u"] + s
    assert wishes(Placing(Chosen((0,))), tree, 1.0, fun=fun).donated == (0, 1, 2)
    assert wishes(Placing(Chosen((2,))), ONES, ONES, places=[0, 2]).donated == (1,)


def test_closed_over_arrays_come_first() -> None:
    w = kiln.numpy.ones(8)
    found = wishes(Placing(Chosen((0,)), None, ROWS), ONES, fun=lambda x: x + w)
    assert found.donated == (1,) and found.in_shardings == (None, ROWS)


def test_prefixes_are_spread() -> None:
    found = wishes(
        Placing(in_shardings=(ROWS, None), out_shardings={"a": WHOLE, "b": None}), ONES, 1.0
    )
    assert found.in_shardings == (ROWS, None) and found.out_shardings == (WHOLE, None)
    assert wishes(Placing(out_shardings=ROWS), ONES, ONES).out_shardings == (ROWS, ROWS)
    assert wishes(Placing(in_shardings=[ROWS, WHOLE]), ONES, ONES).in_shardings == (ROWS, WHOLE)


@pytest.mark.parametrize(
    ("placing", "text"),
    [
        (Placing(in_shardings=(ROWS, ROWS)), "wrong length: 2 for 1"),
        (Placing(in_shardings=({"k": ROWS},)), "in_shardings must be a tree prefix"),
        (Placing(out_shardings=(ROWS,)), "out_shardings must be a tree prefix"),
    ],
)
def test_wrong_structures(placing, text) -> None:
    with pytest.raises(ValueError, match=text):
        wishes(placing, ONES)


def test_leaves_must_be_shardings() -> None:
    check_leaves_of({"a": ROWS, "b": [None, PartitionSpec("x")]}, "in_shardings", double)
    with pytest.raises(TypeError, match="got 3 of type int"):
        check_leaves_of({"a": 3}, "in_shardings", double)


def test_under_a_trace_they_are_constraints() -> None:
    inner = kiln.jit(lambda x: x + 1, in_shardings=ROWS, out_shardings=WHOLE)
    text = str(kiln.make_jaxpr(lambda x: inner(x))(ONES))
    assert text.count("sharding_constraint") == 2
    assert constrained([1, 2], ()) == [1, 2]
    out = kiln.jit(lambda x: inner(x) * 2)(ONES)
    np.testing.assert_array_equal(out, 4 * ONES)


def test_no_options_are_falsy() -> None:
    assert not Placing() and Placing(device=0) and Placing(out_shardings=ROWS)
