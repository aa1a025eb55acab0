"""The miss path: names of arguments, checks of leaves and results."""

from __future__ import annotations

import pytest

from kiln.jit.tracing import argument_names, check_leaves, flat_result, leaf_type


def user(x, d, *rest, k=0):
    return x


def test_names_of_leaves() -> None:
    names = argument_names(user, (1, {"b": [2, 3], "a": 4}, 5), {"k": (6,)}, [0, 1, 2])
    assert names == ["x", "d['a']", "d['b'][0]", "d['b'][1]", "rest[0]", "k[0]"]


def test_names_skip_static_positions() -> None:
    assert argument_names(user, (7,), {}, [2]) == ["rest[0]"]


def test_leaf_types() -> None:
    assert leaf_type(1).weak_type
    assert leaf_type("x") is None
    with pytest.raises(OverflowError):
        leaf_type(2**40)


def test_bad_leaves_are_named() -> None:
    with pytest.raises(TypeError, match=r"(?s)d\['a'\].*str.*static_argnames='d'"):
        check_leaves(user, ["text"], lambda: ["d['a']"], "jit")


def test_bad_results_are_named() -> None:
    with pytest.raises(TypeError, match=r"\[1\]"):
        flat_result(user, (1, "text"), False)
    leaves, _, extra = flat_result(user, ((1, 2), "aux"), True)
    assert (leaves, extra) == ([1, 2], "aux")
