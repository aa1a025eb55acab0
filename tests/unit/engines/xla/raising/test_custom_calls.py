"""Custom calls: which have no effect, which are functions of CHLO, which are refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.unit.engines.xla.raising.modules import check, jaxpr_of, names_of, stored

X = np.float32([[0.5, -1.5, 2.0], [7, 8, -9]])
KIND = "tensor<2x3xf32>"


def called(target: str, results: str = KIND, attributes: str = ""):
    """Return a custom call of one array."""
    names = ", ".join(f"%r#{i}" for i in range(results.count("tensor")))
    bound = f"%r:{results.count('tensor')}"
    return stored(
        f"%x: {KIND}",
        results,
        f"{bound} = stablehlo.custom_call @{target}(%x) {{{attributes}}} : ({KIND}) -> ({results}) "
        f"return {names} : {results}",
    )


def test_shardings_have_no_effect_on_one_device():
    program = called("Sharding", attributes='mhlo.sharding = "{replicated}"')
    assert names_of(jaxpr_of(program)) == []


@pytest.mark.parametrize("name", ["sinh", "erf", "atan"])
def test_older_names_of_functions(name):
    program = called(f"mhlo.{name}")
    assert names_of(jaxpr_of(program)) == [name]


def test_largest_elements():
    program = called(
        "mhlo.topk",
        "tensor<2x2xf32>, tensor<2x2xi32>",
        "mhlo.attributes = {k = 2 : i64, largest = true}",
    )
    (eqn,) = jaxpr_of(program).eqns
    assert (eqn.primitive.name, eqn.params["k"], eqn.params["axis"]) == ("top_k", 2, 1)


def test_smallest_elements_are_refused():
    program = called(
        "mhlo.topk",
        "tensor<2x2xf32>, tensor<2x2xi32>",
        "mhlo.attributes = {k = 2 : i64, largest = false}",
    )
    with pytest.raises(NotImplementedError, match="of the smallest elements"):
        jaxpr_of(program)


@pytest.mark.parametrize("target", ["mhlo.unknown", "xla_ffi_python_cpu_callback", "ApproxTopK"])
def test_others_are_refused_by_name(target):
    with pytest.raises(NotImplementedError, match=f"custom_call @{target} has no counterpart"):
        jaxpr_of(called(target))


def test_programs_with_a_sharding_run():
    constrained = "%r = stablehlo.add %x, %x : tensor<2x3xf32> return %r : tensor<2x3xf32>"
    check(stored(f"%x: {KIND}", KIND, constrained), X)
