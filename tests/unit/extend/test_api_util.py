"""Functions of pytrees as functions of leaves."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import api_util
from kiln.extend.linear_util import wrap_init


def test_functions_of_leaves() -> None:
    def f(x, y=0, *, k):
        return {"sum": x["a"] + y, "k": k}

    args = (({"a": 1}, 2), {"k": 3})
    flat, tree = api_util.flatten_fun(wrap_init(f), kiln.tree.structure(args))
    assert flat.call_wrapped(*kiln.tree.leaves(args)) == [3, 3]
    assert tree() == kiln.tree.structure({"sum": 0, "k": 0})
    flat, tree = api_util.flatten_fun_nokwargs(
        wrap_init(lambda x, y: (x["a"], y)), kiln.tree.structure(args[0])
    )
    assert flat.call_wrapped(1, 2) == [1, 2]
    assert tree() == kiln.tree.structure((0, 0))


def test_fixed_arguments() -> None:
    fun = wrap_init(lambda x, y, z: (x, y, z))
    varied, values = api_util.argnums_partial(fun, (0, -1), ("a", "b", "c"))
    assert values == ("a", "c")
    assert varied.call_wrapped(1, 2) == (1, "b", 2)
    assert api_util.argnums_partial(fun, 1, ("a", "b", "c"))[0].call_wrapped(7) == ("a", 7, "c")
    with pytest.raises(ValueError, match="Non-hashable static argument 0"):
        api_util.argnums_partial(fun, 1, ([], 1, 2))
    free = api_util.argnums_partial(fun, 1, ([], 1, 2), require_static_args_hashable=False)[0]
    assert free.call_wrapped(3) == ([], 3, 2)


def test_axes_of_leaves() -> None:
    tree = kiln.tree.structure((1, 2, (3, 4)))
    assert api_util.flatten_axes("in_axes", tree, (None, 0, 1)) == [None, 0, 1, 1]
    assert api_util.flatten_axes("in_axes", tree, None) == [None] * 4
    with pytest.raises(ValueError, match="in_axes specification must be a tree prefix") as caught:
        api_util.flatten_axes("in_axes", tree, (None, 0))
    assert len(str(caught.value).splitlines()) >= 3


def test_donation() -> None:
    tree = kiln.tree.structure(((1, (2, 3)), {"k": 4}))
    assert api_util.donation_vector((1,), ("k", "other"), tree) == (False, True, True, True)
    assert api_util.rebase_donate_argnums((0, 2), (1,)) == (0, 1)
    assert api_util.rebase_donate_argnums((2, 0, 2), (1,)) == (0, 1)
    with pytest.raises(ValueError, match="cannot intersect"):
        api_util.rebase_donate_argnums((1,), (1,))


def test_types_and_names() -> None:
    assert str(api_util.shaped_abstractify(np.ones(3))) == "float32[3]"
    assert str(api_util.shaped_abstractify(kiln.ShapeDtypeStruct((2,), "int32"))) == "int32[2]"
    assert api_util.shaped_abstractify(1.0).weak_type
    info = api_util.debug_info("jit", lambda x, y: x, (1, 2), {}, static_argnums=(1,))
    assert (info.traced_for, info.arg_names) == ("jit", ("x",))
    assert "test_api_util.py" in info.func_src_info
    assert api_util.debug_info("jit", max, (1, 2), {}, sourceinfo="here")[1:3] == (
        "here",
        ("args[0]", "args[1]"),
    )
    assert api_util.safe_map(max, [1, 5], [3, 2]) == [3, 5]
    with pytest.raises(ValueError, match="zip"):
        api_util.safe_map(max, [1], [1, 2])
