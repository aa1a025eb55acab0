"""Options about memory and devices, as numbers of inputs and outputs."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln.ir.shardings.mesh import Mesh, PartitionSpec
from kiln.ir.shardings.sharding import NamedSharding
from kiln.jit.placement_options import PlacementOptions, constrained, request_for, shardings_of
from kiln.jit.signatures.parameters import Chosen
from kiln.jit.signatures.signature import Arguments

MESH = Mesh(np.array(kiln.devices()), "x")
ROWS = NamedSharding(MESH, PartitionSpec("x"))
WHOLE = NamedSharding(MESH, PartitionSpec())
ONES = np.ones(8, np.float32)


def double(x, y=1.0, *, z=0.0):
    return {"a": x * 2 + z, "b": y}


def request(placement, *args, fun=double, static=None, **kwargs):
    call = Arguments(fun, static, args, kwargs)
    return request_for(placement, call, kiln.jit(fun).entry_for(args, kwargs).recording)


def test_donated_leaves_are_numbered() -> None:
    chosen = Chosen((0,), ("z",))
    assert request(PlacementOptions(chosen), ONES, ONES, z=1.0).donated == (0, 2)
    tree = {"u": ONES, "v": (ONES, ONES)}
    fun = lambda t, s: t["u"] + s
    assert request(PlacementOptions(Chosen((0,))), tree, 1.0, fun=fun).donated == (0, 1, 2)

    def gap(x, n, y):
        return x * n + y

    call = Arguments(gap, Chosen((1,)), (ONES, 2, ONES), {})
    recording = kiln.jit(gap, static_argnums=1).entry_for((ONES, 2, ONES), {}).recording
    assert request_for(PlacementOptions(Chosen((2,))), call, recording).donated == (1,)


def test_closed_over_arrays_come_first() -> None:
    w = kiln.numpy.ones(8)
    found = request(PlacementOptions(Chosen((0,)), None, ROWS), ONES, fun=lambda x: x + w)
    assert found.donated == (1,) and found.in_shardings == (None, ROWS)


def test_prefixes_are_spread() -> None:
    found = request(
        PlacementOptions(in_shardings=(ROWS, None), out_shardings={"a": WHOLE, "b": None}),
        ONES,
        1.0,
    )
    assert found.in_shardings == (ROWS, None) and found.out_shardings == (WHOLE, None)
    assert request(PlacementOptions(out_shardings=ROWS), ONES, ONES).out_shardings == (ROWS, ROWS)
    assert request(PlacementOptions(in_shardings=[ROWS, WHOLE]), ONES, ONES).in_shardings == (
        ROWS,
        WHOLE,
    )


@pytest.mark.parametrize(
    ("placement", "text"),
    [
        (PlacementOptions(in_shardings=(ROWS, ROWS)), "wrong length: 2 for 1"),
        (PlacementOptions(in_shardings=({"k": ROWS},)), "in_shardings must be a tree prefix"),
        (PlacementOptions(out_shardings=(ROWS,)), "out_shardings must be a tree prefix"),
    ],
)
def test_wrong_structures(placement, text) -> None:
    with pytest.raises(ValueError, match=text):
        request(placement, ONES)


def test_leaves_must_be_shardings() -> None:
    given = {"a": ROWS, "b": [None, PartitionSpec("x")]}
    assert shardings_of(given, "in_shardings", double) == given
    with pytest.raises(TypeError, match="got 3 of type int"):
        shardings_of({"a": 3}, "in_shardings", double)


def test_under_a_trace_they_are_constraints() -> None:
    inner = kiln.jit(lambda x: x + 1, in_shardings=ROWS, out_shardings=WHOLE)
    text = str(kiln.make_jaxpr(lambda x: inner(x))(ONES))
    assert text.count("sharding_constraint") == 2
    assert constrained([1, 2], ()) == [1, 2]
    out = kiln.jit(lambda x: inner(x) * 2)(ONES)
    np.testing.assert_array_equal(out, 4 * ONES)


def test_no_options_are_falsy() -> None:
    assert (
        not PlacementOptions()
        and PlacementOptions(device=0)
        and PlacementOptions(out_shardings=ROWS)
    )
