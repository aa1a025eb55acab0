"""The types of arguments, and their names."""

from __future__ import annotations

import pytest

from kiln.jit.signatures.argument_types import argument_names, check_leaves, leaf_type


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
