"""What a user function returns while it is traced."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.ir.types import ShapedArray
from kiln.jit.tracing import flat_result, trace
from kiln.ops.elements.elementwise import mul

AVAL = ShapedArray((3,), np.dtype(np.float32))


def user(x, d, *rest, k=0):
    return x


def test_what_is_recorded() -> None:
    made = trace(user, lambda leaves: {"a": mul(leaves[0], 2.0)}, [AVAL], ["x"])
    assert [eqn.primitive.name for eqn in made.jaxpr.eqns] == ["mul"]
    assert (made.consts, made.name, made.static) == ([], "user", None)
    assert made.out_tree.num_leaves == 1 and made.jaxpr.arg_names == ("x",)


def test_bad_results_are_named() -> None:
    with pytest.raises(TypeError, match=r"\[1\]"):
        flat_result(user, (1, "text"), False)
    leaves, _, extra = flat_result(user, ((1, 2), "aux"), True)
    assert (leaves, extra) == ([1, 2], "aux")
