"""The raiser: what it refuses by name, what it checks, which constants are recognized."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.engines.xla.raising.raiser import NotRaised, Raiser
from kiln.engines.xla.stablehlo.operations import Function, Operation, Region
from kiln.ir.types import ShapedArray
from kiln.ops.elements.elementwise import sin_p
from tests.unit.engines.xla.raising.modules import jaxpr_of, stored

F32, F64 = (ShapedArray((2,), np.dtype(kind)) for kind in ("f4", "f8"))


def raiser(operation: Operation, *, table=None, kind=F32) -> Raiser:
    """Return the raiser of a function of one operation."""
    body = Region((0,), [operation], operation.results[:1])
    return Raiser({"main": Function((kind,), body)}, table or {})


def test_operations_without_a_counterpart_are_named():
    with pytest.raises(NotRaised, match=r"my\.operation has no counterpart in kiln"):
        raiser(Operation("my.operation", (0,), (1,), (F32,), {}, ())).program("main")


@pytest.mark.parametrize("kind", [F64, F32.with_(shape=(3,))])
def test_results_have_their_declared_types(kind):
    table = {"my.operation": lambda r, operation, x: sin_p.bind(x)}
    operation = Operation("my.operation", (0,), (1,), (kind,), {}, ())
    with pytest.raises(NotRaised, match="would be raised to one of type"):
        raiser(operation, table=table).program("main")


def test_all_results_are_raised():
    table = {"my.operation": lambda r, operation, x: [sin_p.bind(x)]}
    operation = Operation("my.operation", (0,), (1, 2), (F32, F32), {}, ())
    with pytest.raises(NotRaised, match="with 2 results has no counterpart"):
        raiser(operation, table=table).program("main")


def test_errors_of_primitives_are_reasons():
    def wrong(r: Raiser, operation: Operation, x: object) -> object:
        raise TypeError("sin of what\nit is not a number\nwrite another")

    operation = Operation("my.operation", (0,), (1,), (F32,), {}, ())
    with pytest.raises(NotRaised, match=r"my\.operation: it is not a number"):
        raiser(operation, table={"my.operation": wrong}).program("main")


def test_types_that_kiln_lacks_are_named():
    operation = Operation("my.operation", (0,), (1,), (F32,), {}, ())
    with pytest.raises(NotRaised, match=r"main has a value of type !stablehlo\.token"):
        raiser(operation, kind="!stablehlo.token").program("main")


def test_numbers_that_all_elements_of_a_constant_are():
    constant = Operation("stablehlo.constant", (), (1,), (F32,), {"value": np.float32([3, 3])}, ())
    other = constant._replace(results=(2,), attributes={"value": np.float32([3, 4])})
    moved = Operation("stablehlo.reshape", (1,), (3,), (F32,), {}, ())
    table = {
        "stablehlo.constant": lambda r, operation: operation.attributes["value"],
        "stablehlo.reshape": lambda r, operation, x: x,
    }
    body = Region((0,), [constant, other, moved], (0,))
    made = Raiser({"main": Function((F32,), body)}, table)
    made.program("main")
    assert [made.repeated(number) for number in range(4)] == [None, 3, None, 3]


def test_a_module_is_refused_as_a_whole():
    program = stored(
        "%x: tensor<2xf32>",
        "tensor<2xf32>",
        "%y = stablehlo.sine %x : tensor<2xf32> %z = stablehlo.custom_call @mine(%y) : "
        "(tensor<2xf32>) -> tensor<2xf32> return %z : tensor<2xf32>",
    )
    with pytest.raises(NotImplementedError) as error:
        jaxpr_of(program)
    asked, wrong, remedy = str(error.value).splitlines()
    assert asked.startswith("call of the exported function f at ")
    assert "custom_call @mine has no counterpart in kiln" in wrong
    assert "leave the operation out" in remedy
