"""What code objects refer to."""

from __future__ import annotations

import math
import sys
from typing import Any

import pytest

from kiln.content.bytecode import clear, references

G = 1


def test_globals_with_the_attributes_read_from_them() -> None:
    f = lambda x: math.sin(x) + math.pi.real + G + len(x)
    assert dict(references(f.__code__).names) == {
        "math": (("pi", "real"), ("sin",)),
        "G": ((),),
        "len": ((),),
    }


def test_a_value_that_is_chosen_before_its_attribute_is_read_is_used_itself() -> None:
    f = lambda x: (math if x else G).pi
    names = dict(references(f.__code__).names)
    # Python 3.12 and later read the attribute in both branches.
    assert names["math"] == (((),) if sys.version_info < (3, 12) else (("pi",),))


def test_functions_inside_count() -> None:
    def outer(v: Any, w: Any) -> Any:
        def f(x: Any) -> Any:
            return [lambda y: y + v.a.b + G for _ in range(3)], w

        return f

    found = references(outer(1, 2).__code__)
    assert found.free == ((("a", "b"),), ((),))
    assert dict(found.names)["G"] == ((),)


def test_equal_code_is_equal_only_at_the_same_place() -> None:
    make = "lambda x: x + 1"
    a, b = (eval(compile(make, "a", "eval")).__code__ for _ in range(2))
    other = eval(compile(make, "b", "eval")).__code__
    lower = eval(compile("\n" + make, "a", "eval")).__code__
    assert a is not b
    assert references(a).key == references(b).key
    assert len({references(c).key for c in (a, b, other, lower)}) == 3


@pytest.mark.parametrize("pair", [("0.0", "-0.0"), ("1", "1.0"), ("1", "True"), ("(1,)", "(1.0,)")])
def test_constants_differ_by_type_and_bits(pair: tuple[str, str]) -> None:
    a, b = (eval(compile(f"lambda x: x + {c}", "a", "eval")).__code__ for c in pair)
    assert references(a).key != references(b).key


def _assigns_a_global() -> None:
    global G
    G = 2


def _imports() -> None:
    import math as m  # noqa: PLC0415

    m.sin(1)


def _defines_a_class() -> None:
    class Local:
        pass

    Local()


def _sets_an_attribute(x: Any) -> None:
    x.y = 1


def _reads_what_is_behind(x: Any) -> Any:
    return x.__globals__


def _compares_identities(x: Any, y: Any) -> Any:
    return x is y


def _assigns_outside() -> Any:
    count = 0

    def f() -> None:
        nonlocal count
        count += 1

    return f


@pytest.mark.parametrize(
    "f",
    [
        *(_assigns_a_global, _imports, _defines_a_class, _sets_an_attribute),
        *(_reads_what_is_behind, _compares_identities, _assigns_outside()),
        lambda x: x.sharding,
        lambda x: [y.tb_frame for y in x],
    ],
)
def test_objections(f: Any) -> None:
    assert references(f.__code__).objection is not None


def _harmless(x: Any) -> Any:
    total = 0

    def add(y: Any) -> None:
        nonlocal total
        total += y

    found = {}
    for i, y in enumerate(x):
        add(y)
        found[i] = [z for z in range(3) if y is not None]
    try:
        return total, found
    except ValueError as error:
        raise TypeError(f"{error}") from None
    finally:
        found.clear()


def test_no_objection() -> None:
    assert references(_harmless.__code__).objection is None


def test_clear() -> None:
    before = references(_harmless.__code__)
    assert references(_harmless.__code__) is before
    clear()
    assert references(_harmless.__code__) is not before
