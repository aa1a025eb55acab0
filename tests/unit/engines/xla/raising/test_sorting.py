"""Sorts: which functions are recognized as comparisons of keys, and what is not."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

EDGES = np.float32([1, np.nan, -0.0, 0.0, -np.inf, 2, -np.nan, -1, 0.0, -0.0, np.inf, 2])


def sort(body: str, kinds: str, outside: str = ""):
    """Return a sort of arrays of 12 elements of some kinds by a function of %a0, %b0, %a1, ...."""
    names = kinds.split()
    operands = ", ".join(f"%x{i}: tensor<12x{kind}>" for i, kind in enumerate(names))
    types = ", ".join(f"tensor<12x{kind}>" for kind in names)
    arguments = ", ".join(
        f"%{side}{i}: tensor<{kind}>" for i, kind in enumerate(names) for side in "ab"
    )
    given = ", ".join(f"%x{i}" for i in range(len(names)))
    outs = ", ".join(f"%y#{i}" for i in range(len(names))) if len(names) > 1 else "%y"
    text = (
        f'{outside} %y{f":{len(names)}" if len(names) > 1 else ""} = "stablehlo.sort"({given}) <{{'
        f"dimension = 0 : i64, is_stable = true}}> ({{ ^bb0({arguments}): {body} "
        f"stablehlo.return %r : tensor<i1> }}) : ({types}) -> ({types}) return {outs} : {types}"
    )
    return stored(operands, types, text)


def compared(direction: str, x: str, y: str, kind: str, how: str, name: str = "%r") -> str:
    """Return a comparison."""
    types = f"(tensor<{kind}>, tensor<{kind}>) -> tensor<i1>"
    return f"{name} = stablehlo.compare {direction}, {x}, {y}, {how} : {types}"


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("sides", [("%a0", "%b0"), ("%b0", "%a0")])
@pytest.mark.parametrize(
    ("kind", "how", "values"),
    [
        ("i32", "SIGNED", np.int32([3, -1, 2, 2, 0, -7, 5, 5, 1, 9, -1, 4])),
        ("ui8", "UNSIGNED", np.uint8([3, 255, 2, 2, 0, 128, 5, 5, 1, 9, 200, 4])),
        ("f32", "TOTALORDER", EDGES),
        ("i1", "UNSIGNED", EDGES > 0),
    ],
)
def test_operands_in_either_direction(direction, sides, kind, how, values):
    program = sort(compared(direction, *sides, kind, how), f"{kind} i32")
    found, order = check(program, values, np.arange(12, dtype=np.int32))
    assert found.tobytes() == values[order].tobytes()


def test_numbers_that_are_not_total():
    values = np.float32([3, -0.0, 0.0, 2, -5, 2, 0.0, 1, 8, -0.0, 7, 6])
    program = sort(compared("GT", "%a0", "%b0", "f32", "FLOAT"), "f32 i32")
    check(program, values, np.arange(12, dtype=np.int32))


SETTLED = """
%z{i} = stablehlo.compare EQ, {x}, %zero, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
%s{i} = stablehlo.select %z{i}, %zero, {x} : tensor<i1>, tensor<f32>
%n{i} = stablehlo.compare NE, {tested}, {tested}, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
%k{i} = stablehlo.select %n{i}, %nan, %s{i} : tensor<i1>, tensor<f32>
"""
CONSTANTS = """
%zero = stablehlo.constant dense<0.0> : tensor<f32>
%nan = stablehlo.constant dense<0x{bits}> : tensor<f32>
"""


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("tested", ["%a0", "%s0"])
def test_settled_numbers_are_kilns_own_order(direction, tested):
    keys = [
        SETTLED.format(i=i, x=x, tested=tested.replace("a0", f"{x[1:]}").replace("s0", f"s{i}"))
        for i, x in enumerate(("%a0", "%b0"))
    ]
    body = "".join(keys) + compared(direction, "%k0", "%k1", "f32", "TOTALORDER")
    program = sort(body, "f32 i32", CONSTANTS.format(bits="7FC00000"))
    check(program, EDGES, np.arange(12, dtype=np.int32))
    if direction == "LT":
        assert names_of(jaxpr_of(program)) == ["sort"]


def test_nan_of_the_other_sign_is_no_key():
    keys = [SETTLED.format(i=i, x=x, tested=x) for i, x in enumerate(("%a0", "%b0"))]
    body = "".join(keys) + compared("LT", "%k0", "%k1", "f32", "TOTALORDER")
    program = sort(body, "f32", CONSTANTS.format(bits="FFC00000"))
    with pytest.raises(NotImplementedError, match=r"stablehlo\.sort by a function"):
        jaxpr_of(program)


FIRST = compared("LT", "%a0", "%b0", "i32", "SIGNED", "%p")
SAME = compared("EQ", "%a0", "%b0", "i32", "SIGNED", "%e")
SECOND = compared("GT", "%a1", "%b1", "i32", "SIGNED", "%q")


@pytest.mark.parametrize(
    "joined",
    [
        "%r = stablehlo.select %e, %q, %p : tensor<i1>, tensor<i1>",
        "%t = stablehlo.and %e, %q : tensor<i1> %r = stablehlo.or %p, %t : tensor<i1>",
    ],
)
def test_several_keys(joined):
    program = sort(f"{FIRST} {SAME} {SECOND} {joined}", "i32 i32 i32")
    x = np.int32([1, 0, 1, 2, 0, 1, 2, 2, 0, 0, 1, 1])
    y = np.int32([5, 4, 3, 5, 4, 9, 1, 2, 3, 8, 7, 6])
    check(program, x, y, np.arange(12, dtype=np.int32))


@pytest.mark.parametrize(
    "body",
    [
        compared("LE", "%a0", "%b0", "i32", "SIGNED"),
        compared("LT", "%a0", "%b1", "i32", "SIGNED"),
        compared("LT", "%a0", "%a0", "i32", "SIGNED"),
        f"%m = stablehlo.negate %a0 : tensor<i32> {compared('LT', '%m', '%b0', 'i32', 'SIGNED')}",
        f"{FIRST} {compared('EQ', '%a1', '%b1', 'i32', 'SIGNED', '%e')} {SECOND} "
        "%r = stablehlo.select %e, %q, %p : tensor<i1>, tensor<i1>",
        f"{FIRST} %r = stablehlo.not %p : tensor<i1>",
    ],
)
def test_other_functions_are_refused(body):
    with pytest.raises(NotImplementedError, match=r"stablehlo\.sort by a function that"):
        jaxpr_of(sort(body, "i32 i32"))
