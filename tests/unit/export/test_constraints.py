"""Constraints of named sizes: their text, what they decide beside jax's answers, and calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.errors import InconclusiveSizeError
from kiln.ir.sizes.size import maximum, minimum

UNDECIDED = None
ANSWERS: list[tuple[str, str, str, bool | None]] = [
    ("b>=2", "b", "b >= 2", True),
    ("b>=2", "b", "b == 1", False),
    ("b>=2", "b", "b - 1 >= 1", True),
    ("b<=8", "b", "b < 9", True),
    ("b<=8", "b", "2*b <= 16", True),
    ("b<=8", "b", "b // 2 <= 4", True),
    ("a>=b", "a,b", "max(a,b) == a", True),
    ("a>=b; b>=16", "a,b", "a >= 16", True),
    ("a>=b + 1", "a,b", "a == b", False),
    ("a+b>=10", "a,b", "a+b >= 9", True),
    ("b==4*c", "b,c", "b % 4 == 0", True),
    ("b==4*c", "b,c", "b // 4 == c", True),
    ("mod(b,4)==0", "b", "b % 4 == 0", True),
    ("mod(b,4)==0", "b", "b // 4 * 4 == b", True),
    ("floordiv(b,4)>=3", "b", "b >= 12", True),
    ("max(a,b)<=8", "a,b", "a <= 8", True),
    ("max(a,b)<=8", "a,b", "max(a,b) <= 9", True),
    ("a*b>=12", "a,b", "a*b >= 12", True),
    ("b>=2; a>=3", "a,b", "a*b >= 6", True),
    ("2*b>=5", "b", "b >= 3", True),
    ("b>=3", "b", "max(b, 3) == b", True),
    ("b>=3", "b", "min(b, 3) == 3", True),
    ("a==b", "a,b", "a == b", True),
    ("b==4", "b", "b == 4", True),
    ("b>=4", "b", "b == 4", False),
    ("b>=4", "b", "b >= 5", UNDECIDED),
    ("a>=b; b>=c", "a,b,c", "a>=c", True),
    ("a<=2*b", "a,b", "a - 2*b <= 0", True),
    ("b>=2", "b", "(b+1)//2 >= 1", True),
    ("mod(b,2)==0", "b", "b >= 2", UNDECIDED),
    ("min(a,b)>=5", "a,b", "a>=5", True),
]
"""Constraints, names, a comparison, and what jax 0.10.2 answers."""


@pytest.mark.parametrize(("constraints", "names", "question", "answer"), ANSWERS)
def test_answers(constraints: str, names: str, question: str, answer: bool | None) -> None:
    shape = export.symbolic_shape(names + ",", constraints=constraints.split("; "))
    env: dict[str, Any] = dict(zip(names.split(","), shape, strict=True))
    env.update(max=maximum, min=minimum)
    if answer is UNDECIDED:
        with pytest.raises(InconclusiveSizeError):
            eval(question, env)
    else:
        assert eval(question, env) is answer


@pytest.mark.parametrize(
    ("constraints", "match"),
    [
        ("b >= 2", "should be a sequence of strings"),
        ([2], "must be a string"),
        (["b > 2"], "must contain one of"),
        (["b"], "must contain one of"),
        (["b, c >= 2"], "'b, c' has 2 sizes"),
        (["b >= f(2)"], "is not a size"),
        (["2 == 3"], "Unsatisfiable explicit constraint: 2 == 3"),
        (["b <= 0"], "Unsatisfiable"),
        (["b >= 5", "b <= 4"], "Unsatisfiable explicit constraint: b <= 4, after b >= 5"),
        (["b >= 5", "b == 4"], "Unsatisfiable"),
        (["a >= b + 1", "b >= a"], "Unsatisfiable"),
    ],
)
def test_other_constraints_are_refused(constraints: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match) as found:
        export.symbolic_shape("b", constraints=constraints)
    assert len(str(found.value).splitlines()) == 3


def test_constraints_that_say_nothing() -> None:
    assert export.symbolic_shape("b", constraints=["2 >= 1", "b == b"]) == (
        export.symbolic_shape("b")
    )
    assert str(export.SymbolicScope(["b >= 2"])) == "SymbolicScope(['b >= 2'])"


def _quarters(x: Any) -> Any:
    return x.reshape(-1, 4).sum(1), x[:8]


def _exported(constraints: list[str]) -> export.Exported:
    (shape,) = (export.symbolic_shape("b", constraints=constraints),)
    return export.export(kiln.jit(_quarters))(kiln.ShapeDtypeStruct(shape, np.float32))


def test_calls_check_constraints() -> None:
    made = _exported(["mod(b, 4) == 0", "b >= 8"])
    stored = export.deserialize(made.serialize(vjp_order=1))
    assert stored.in_avals == made.in_avals
    assert stored.in_avals[0].shape[0] >= 8
    for run in (made, stored, stored.vjp()):
        assert hash(run.in_avals[0]) == hash(made.in_avals[0])
    for run in (made, stored):
        np.testing.assert_array_equal(run.call(np.ones(12, np.float32))[0], [4, 4, 4])
        with pytest.raises(ValueError, match=r"constraint b >= 8: for b=4, b-8 should be") as found:
            run.call(np.ones(4, np.float32))
        assert len(str(found.value).splitlines()) == 3
        with pytest.raises(ValueError, match=r"constraint mod\(b, 4\) == 0"):
            run.call(np.ones(9, np.float32))
    pulled = kiln.grad(lambda x: stored.call(x)[1].sum())(np.ones(12, np.float32))
    np.testing.assert_array_equal(pulled, [1] * 8 + [0] * 4)


def test_constraints_are_in_the_module() -> None:
    text = str(_exported(["mod(b, 4) == 0", "b >= 8"]).mlir_module())
    assert text.count("@shape_assertion") == 2
    assert "Input shapes do not match the symbolic shape constraint b >= 8" in text


def test_calls_for_named_sizes_check_constraints() -> None:
    inner = _exported(["mod(b, 4) == 0", "b >= 8"])

    def outer(constraints: list[str], count: int) -> export.Exported:
        shape = export.symbolic_shape("k", constraints=constraints)
        return export.export(kiln.jit(lambda x: inner.call(jnp.tile(x, count))))(
            kiln.ShapeDtypeStruct(shape, np.float32)
        )

    found = outer(["k >= 2"], 4)
    np.testing.assert_array_equal(found.call(np.ones(3, np.float32))[0], [4, 4, 4])
    with pytest.raises(ValueError, match="constraint mod"):
        outer(["k >= 4"], 3)
    with pytest.raises(ValueError, match=r"cannot be compared: 4\*k-8 >= 0"):
        outer([], 4)


def test_constraints_of_sizes_that_nobody_has() -> None:
    shape = export.symbolic_shape("b", constraints=["b >= 2*c"])
    with pytest.raises(ValueError, match="mentions c, which no argument has as a size"):
        export.export(kiln.jit(jnp.sin))(kiln.ShapeDtypeStruct(shape, np.float32))


def test_programs_are_recorded_for_sizes_that_fulfil_constraints() -> None:
    (dynamic,) = export.symbolic_shape("(dynamic_dimension)", constraints=["dynamic_dimension>=2"])

    def taken(x: Any) -> Any:
        return x * 2 if x.shape[0] > 1 else x

    struct = kiln.ShapeDtypeStruct((dynamic, 3), np.float32)
    assert kiln.eval_shape(taken, struct).shape == (dynamic, 3)
    assert "mul" in str(kiln.make_jaxpr(taken)(struct))
    with pytest.raises(InconclusiveSizeError):
        kiln.make_jaxpr(taken)(kiln.ShapeDtypeStruct((*export.symbolic_shape("d"), 3), np.float32))


def test_types_of_arguments_with_constraints() -> None:
    (found,) = export.symbolic_args_specs((np.ones(4),), "b", constraints=["b >= 3"])
    assert found.shape[0] >= 3
    (found,) = export.symbolic_args_specs(
        (np.ones(4),), "b", scope=export.SymbolicScope(["b >= 3"])
    )
    assert found.shape[0] >= 3
