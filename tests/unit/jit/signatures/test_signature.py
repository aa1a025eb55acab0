"""From arguments to signatures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln import lax
from kiln.jit.signatures.parameters import Chosen
from kiln.jit.signatures.signature import Arguments, Signature, Statics, static_keys
from kiln.jit.signatures.static_values import static_key
from kiln.jit.signatures.struct import ShapeDtypeStruct


def plain(x, n, *, k=1):
    return x, n, k


ONES = np.ones(3, np.float32)
STATIC = Chosen((1,), ("k",))


def signature(*args, static=None, **kwargs) -> Signature:
    return Arguments(plain, static, args, kwargs).signature((), ())


def test_a_call_without_static_arguments() -> None:
    found = signature(ONES, {"a": 1.0})
    assert [a.str_short() for a in found.avals] == ["f32[3]", "f32[]"]
    assert found.statics == () and found == signature(np.zeros(3, np.float32), {"a": 2.0})
    assert found != signature(ONES, {"b": 1.0}) and found != signature(ONES, {"a": ONES})


def test_static_arguments_are_collected_once_for_all() -> None:
    call = Arguments(plain, STATIC, (ONES, 7), {"k": "mode"})
    assert call.statics == [(1, 7), ("k", "mode")]
    assert call.key == Statics(2, ((1, static_key(7)), ("k", static_key("mode"))))
    assert (call.positional, list(call.places), call.names()) == (2, [0], ["x"])
    assert call.by_place() == [(0, ONES)]
    assert call.signature((), ()) != signature(ONES, 8, static=STATIC, k="mode")
    assert call.apply(plain, ["traced"]) == ("traced", 7, "mode")


def test_keywords_are_applied_as_such() -> None:
    call = Arguments(plain, Chosen((0,), ()), (1,), {"n": 2.0, "k": 3.0})
    assert call.names() == ["k", "n"]
    assert call.apply(plain, ["k", "n"]) == (1, "n", "k")
    assert call.by_place() == [("k", 3.0), ("n", 2.0)]


def test_static_keys_of_functions_without_hashable_arguments() -> None:
    with pytest.raises(ValueError, match="'n'"):
        Arguments(plain, STATIC, (ONES, []), {})


def test_types_in_place_of_values() -> None:
    call = Arguments(plain, None, (ShapeDtypeStruct((3,), np.float32), 2.0), {})
    found = call.signature_of_types((), ())
    assert found == signature(ONES, 1.0)


def test_wrong_leaves_are_named() -> None:
    with pytest.raises(TypeError, match="argument n = 'text'"):
        signature(ONES, "text")


def test_what_is_kept_cannot_change() -> None:
    class Node:
        """A node whose auxiliary data, a list, can change."""

    data = ["a"]
    kiln.tree_util.register_pytree_node(Node, lambda n: ((), data), lambda data, _: Node())
    found = signature(ONES, 1.0)
    assert found.settled() is found
    changing = signature(ONES, Node())
    assert not changing.tree.is_hashable
    kept = changing.settled()
    assert kept == changing
    data.append("b")
    assert kept != signature(ONES, Node())


def test_static_keys_name_the_argument() -> None:
    assert static_keys(plain, [(1, 2)]) == ((1, (int, 2)),)
    with pytest.raises(ValueError, match="'n'"):
        static_keys(plain, [(1, [])])


def _counted() -> Any:
    """Return a new function, of the same content as others, of the size of the axis in scope."""
    return kiln.jit(lambda x: x * lax.axis_size("i"))


def test_programs_are_of_the_mapped_axes_in_scope() -> None:
    kept = _counted()
    for f in (lambda: kept, _counted):
        for n in (2, 3, 2):
            found = kiln.vmap(lambda x, f=f: f()(x), axis_name="i")(np.ones(n, np.float32))
            np.testing.assert_array_equal(found, [n] * n)


def test_programs_for_types_are_of_the_mapped_axes_in_scope() -> None:
    kept, number = _counted(), ShapeDtypeStruct((), np.float32)

    def traced(x: Any) -> Any:
        found.append(str(kept.trace(number).jaxpr))
        return x

    found: list[str] = []
    for n in (2, 3, 2):
        kiln.vmap(traced, axis_name="i")(np.ones(n, np.float32))
    assert found[0] == found[2] != found[1]
