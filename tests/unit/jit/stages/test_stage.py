"""The types of arguments and results, as every stage has them."""

from __future__ import annotations

import numpy as np

import kiln
from kiln.base.tree import tree_structure
from kiln.jit.stages.stage import ArgInfo

X = np.ones((2, 3), np.float32)


def test_types_are_arranged_as_in_the_call() -> None:
    f = kiln.jit(lambda k, x, y: {"sum": x + y, "k": k}, static_argnums=0, donate_argnums=1)
    traced = f.trace(3, X, y=X)
    for stage in (traced, traced.lower(), traced.lower().compile()):
        assert stage.fun_name == "<lambda>"
        assert stage.in_tree == tree_structure(((X,), {"y": X}))
        (first,), by_name = stage.args_info
        assert isinstance(first, ArgInfo)
        assert (first.shape, first.dtype, first.weak_type, first.donated) == (
            (2, 3),
            np.float32,
            False,
            True,
        )
        assert not by_name["y"].donated
        assert stage.donate_argnums == (0,)
        assert str(stage.in_avals[0][0]) == "float32[2,3]"
        assert stage.out_tree == tree_structure({"sum": X, "k": 3})
        assert stage.out_avals["sum"].shape == stage.out_info["sum"].shape == (2, 3)
        assert repr(stage).endswith(" <lambda>(float32[2,3], float32[2,3])>")
