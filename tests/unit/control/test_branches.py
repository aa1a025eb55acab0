"""`cond` and `switch`: predicates and indices, closures, pytrees, messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.control.branches import known_value
from kiln.control.cond import cond_p


@pytest.fixture(autouse=True)
def _reference() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield


def test_predicates_are_booleans_or_numbers() -> None:
    yes, no = lambda: 1, lambda: 0
    for pred, wanted in (
        (True, 1),
        (0, 0),
        (3, 1),
        (0.5, 1),
        (np.float16(0), 0),
        (jnp.array(False), 0),
        (jnp.uint8(2), 1),
        (np.array(True), 1),
    ):
        assert int(lax.cond(pred, yes, no)) == wanted
        assert int(kiln.jit(lambda p: lax.cond(p, yes, no))(pred)) == wanted


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint32", "int32"])
def test_indices_are_clamped(dtype: str) -> None:
    branches = [lambda: 0, lambda: 1, lambda: 2]
    indices = np.array([-100, -1, 0, 1, 2, 3, 100]).astype(dtype)
    wanted = [0 if int(i) < 0 else min(int(i), 2) for i in indices]
    assert [int(lax.switch(i, branches)) for i in indices] == wanted
    assert kiln.vmap(lambda i: lax.switch(i, branches))(indices).tolist() == wanted


def test_wide_indices_are_clamped_before_they_are_narrowed() -> None:
    with override(enable_x64=True):
        assert int(lax.switch(jnp.int64(2**40), [lambda: 0, lambda: 1])) == 1
        assert int(lax.switch(jnp.int64(-(2**40) + 1), [lambda: 0, lambda: 1])) == 0


def test_a_single_branch_is_called_directly() -> None:
    program = kiln.make_jaxpr(lambda i, x: lax.switch(i, [lambda v: v * 2], x))(3, 1.0)
    assert all(eqn.primitive is not cond_p for eqn in program.eqns)


def test_the_false_branch_comes_first() -> None:
    program = kiln.make_jaxpr(lambda p, x: lax.cond(p, jnp.sin, jnp.cos, x))(True, 1.0)
    convert, eqn = program.eqns
    assert convert.params["new_dtype"] == np.int32
    names = [[e.primitive.name for e in branch.eqns] for branch in eqn.params["branches"]]
    assert names == [["cos"], ["sin"]]


def test_branches_share_what_they_close_over() -> None:
    def f(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p, lambda v: v + x * y, lambda v: v - x, x)

    eqn = kiln.make_jaxpr(f)(True, 1.0, 2.0).eqns[-1]
    assert len(eqn.invars) == 4
    assert float(f(True, 3.0, 2.0)) == 9.0
    assert float(f(False, 3.0, 2.0)) == 0.0


def test_pytrees_and_keyword_operand() -> None:
    out = lax.cond(
        True, lambda d: {"b": d["a"], "n": None}, lambda d: {"b": d["a"], "n": None}, {"a": 3}
    )
    assert out["n"] is None
    assert int(out["b"]) == 3
    assert int(lax.cond(True, lambda v: v, lambda v: v, operand=5)) == 5
    assert lax.cond(True, lambda _: (), lambda _: (), operand=None) == ()
    assert int(lax.switch(1, [lambda v: v, lambda v: v * 2], operand=5)) == 10


def test_the_older_form_gives_each_branch_its_own_operand() -> None:
    def older(p: Any) -> Any:
        return lax.cond(p, 2.0, lambda x: x * 2, (3.0, 4.0), lambda y: y[0] * y[1])

    assert [float(older(True)), float(older(False)), float(kiln.jit(older)(False))] == [4, 12, 12]
    with pytest.raises(TypeError, match="true_fun should be a callable, got float"):
        lax.cond(True, 2.0, lambda x: x, 3.0, 4.0)  # type: ignore[arg-type]


def test_known_values() -> None:
    assert known_value(3) == 3
    assert known_value(jnp.array(True))
    seen = []
    kiln.jit(lambda x: seen.append(known_value(x)) or x)(1)
    kiln.jvp(lambda x: (seen.append(known_value(x)), x)[1], (2.0,), (1.0,))
    assert seen == [None, 2.0]


ONE = jnp.float32(1)
ERRORS: dict[str, tuple[type[Exception], Callable[[], Any], list[str]]] = {
    "structure": (
        TypeError,
        lambda: lax.cond(True, lambda: (ONE, ONE), lambda: [ONE, ONE]),
        [
            "cond",
            "true_fun is <lambda> at",
            "structure",
            "a tuple of length 2",
            "a list of length 2",
        ],
    ),
    "keys": (
        TypeError,
        lambda: lax.cond(True, lambda: {"a": ONE}, lambda: {"b": ONE}),
        ["cond", "structure", "['a']", "['b']"],
    ),
    "dtype": (
        TypeError,
        lambda: lax.cond(True, lambda: {"a": ONE}, lambda: {"a": 1}),
        ["cond", "the result['a'] of true_fun has type float32[]", "false_fun has type int32[]"],
    ),
    "shape": (
        TypeError,
        lambda: lax.switch(0, [lambda: ONE, lambda: ONE, lambda: jnp.ones(3)]),
        ["switch", "branches[0] has type float32[]", "branches[2] has type float32[3]"],
    ),
    "predicate is not a scalar": (
        TypeError,
        lambda: lax.cond(jnp.ones(2, bool), lambda: 1, lambda: 2),
        ["cond", "Pred must be a scalar, got type bool[2]"],
    ),
    "predicate is not a number": (
        TypeError,
        lambda: lax.cond("yes", lambda: 1, lambda: 2),
        ["cond", "Pred must be a scalar, got type str"],
    ),
    "predicate is complex": (
        TypeError,
        lambda: lax.cond(1j, lambda: 1, lambda: 2),
        ["cond", "boolean or number", "complex64"],
    ),
    "index is not an integer": (
        TypeError,
        lambda: lax.switch(1.0, [lambda: 1, lambda: 2]),
        ["switch", "Index type must be an integer, got float32"],
    ),
    "index is not a scalar": (
        TypeError,
        lambda: lax.switch(jnp.arange(2), [lambda: 1, lambda: 2]),
        ["switch", "Branch index must be a scalar, got type int32[2]"],
    ),
    "no branches": (ValueError, lambda: lax.switch(0, []), ["switch", "Empty branch sequence"]),
    "no function": (
        TypeError,
        lambda: lax.cond(True, 1, lambda: 2),
        ["cond", "true_fun", "callable"],
    ),
    "operand is not an array": (
        TypeError,
        lambda: lax.cond(True, lambda d: 1, lambda d: 2, {"k": "text"}),
        ["cond", "operands[0]['k'] has type str"],
    ),
    "result is not an array": (
        TypeError,
        lambda: lax.cond(True, lambda: "text", lambda: 2),
        ["cond", "the result has type str", "not a valid JAX type"],
    ),
    "operand twice": (
        TypeError,
        lambda: lax.cond(True, lambda v: v, lambda v: v, 1, operand=2),
        ["cond", "operand"],
    ),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    kind, run, phrases = ERRORS[case]
    with pytest.raises(kind) as found:
        run()
    for phrase in phrases:
        assert phrase in str(found.value)
    assert len(str(found.value).split("\n")) == 3


def test_what_all_branches_hand_on_does_not_depend_on_the_choice() -> None:
    """It is not mapped with the predicate, and no result of the equation."""

    def chosen(p: Any, x: Any, y: Any) -> Any:
        return lax.cond(p, lambda x, y: (x, y + 1), lambda x, y: (x, y), x, y)

    preds, ys = np.array([True, False]), np.array([3.0, 4.0])
    x, y = kiln.vmap(chosen, in_axes=(0, None, 0), out_axes=(None, 0))(preds, 2.0, ys)
    assert float(x) == 2.0
    assert x.shape == ()
    assert [*map(float, y)] == [4.0, 4.0]
    pick = lambda i, x: lax.switch(i, [lambda x: x] * 3, x)
    assert kiln.vmap(pick, (0, None), None)(np.arange(3), 7.0).shape == ()
    (eqn,) = [e for e in kiln.make_jaxpr(chosen)(True, 1.0, 2.0).eqns if e.primitive is cond_p]
    assert len(eqn.outvars) == 1
    assert isinstance(chosen(True, 1.0, 2.0)[0], kiln.Array)
    assert float(kiln.grad(lambda x: sum(chosen(True, x, 1.0)))(2.0)) == 1.0


def test_the_first_branch_says_whether_results_are_weakly_typed() -> None:
    weak = lambda: jnp.where(jnp.asarray(1.0) > 0, 1, -1)
    strong = lambda: jnp.int32(3)
    for wrap in (lambda f: f, kiln.jit):
        assert wrap(lambda p: lax.cond(p, strong, weak))(True).weak_type
        assert not wrap(lambda p: lax.cond(p, weak, strong))(True).weak_type
        assert wrap(lambda i: lax.switch(i, [weak, strong]))(1).weak_type
        assert not wrap(lambda i: lax.switch(i, [strong, weak]))(1).weak_type
    scaled = lax.cond(True, strong, weak) * jnp.int8(2)
    assert (scaled.dtype, int(scaled)) == (jnp.int8, 6)
