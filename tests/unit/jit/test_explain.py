"""Why a signature is new."""

from __future__ import annotations

import numpy as np

from kiln.base.tree import tree_structure
from kiln.ir.types import ShapedArray
from kiln.jit.explain import differences
from kiln.jit.signature import static_key

F = np.dtype("float32")
LEAF = tree_structure(0)


def key(*avals, statics=(), options=(), axes=(), tree=LEAF):
    return (tree, avals, statics, options, axes)


def test_the_nearest_earlier_signature_explains() -> None:
    seen = [
        key(ShapedArray((3,), F), ShapedArray((), F)),
        key(ShapedArray((9,), F), ShapedArray((), F, True)),
    ]
    new = key(ShapedArray((4,), F), ShapedArray((), F))
    assert differences(seen, new, ["x", "y"]) == ["argument x: float32[3] before, float32[4] now"]


def test_each_part_is_named() -> None:
    old = key(ShapedArray((), F), statics=(2, (("n", static_key(1)),)))
    new = key(ShapedArray((), F), statics=(2, (("n", static_key(2)),)), options=(1,), axes=(2,))
    text = "\n".join(differences([old], new, ["x"]))
    assert "static arguments: n=1 before, n=2 now" in text
    assert "options" in text
    assert "mapped axes" in text
    assert "structure" in differences([old], key(tree=tree_structure((0,))), [])[0]
    assert differences([], old, []) == ["never seen function"]
