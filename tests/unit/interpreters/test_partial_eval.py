"""Recording and trimming programs."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln.core import ShapedArray, eval_jaxpr
from kiln.extend.core import Primitive
from kiln.extend.linear_util import wrap_init
from kiln.interpreters import partial_eval as pe
from kiln.lax import scan_p, sin_p

SCALAR = ShapedArray((), np.dtype(np.float32))


def test_a_function_is_recorded() -> None:
    weight = jnp.ones(3)
    jaxpr, avals, consts = pe.trace_to_jaxpr_dynamic(wrap_init(lambda x: [x * weight]), [SCALAR])
    assert str(avals[0]) == "float32[3]"
    assert consts[0] is weight
    assert eval_jaxpr(jaxpr, consts, 2.0)[0].tolist() == [2.0, 2.0, 2.0]
    unused = pe.trace_to_jaxpr_dynamic(
        lambda x, y: [x, x + y][:1], [SCALAR] * 2, auto_dce=True, keep_inputs=[True, False]
    )[0]
    assert (len(unused.eqns), len(unused.invars)) == (0, 1)


def test_only_what_depends_on_unknown_arguments_is_recorded() -> None:
    known, unknown = pe.PartialVal.known(2.0), pe.PartialVal.unknown(SCALAR)
    jaxpr, outs, residuals = pe.trace_to_jaxpr_nounits(
        lambda x, y: [jnp.sin(x), jnp.cos(x) * y], [known, unknown]
    )
    assert [out.is_known() for out in outs] == [True, False]
    np.testing.assert_allclose(outs[0].get_known(), np.sin(2.0), 1e-6)
    assert outs[1].get_aval().shape == ()
    assert known.get_aval().shape == ()
    assert [eqn.primitive.name for eqn in jaxpr.eqns] == ["mul"]
    np.testing.assert_allclose(eval_jaxpr(jaxpr, (), *residuals, 3.0)[0], np.cos(2.0) * 3, 1e-6)
    _, outs, _ = pe.trace_to_jaxpr_nounits(wrap_init(lambda x: [x]), [known], instantiate=True)
    assert not outs[0].is_known()


def test_what_unused_results_need_is_dropped() -> None:
    jaxpr = kiln.make_jaxpr(lambda x, y: (x + 1, y * 2))(1.0, 2.0).jaxpr
    clean, used = pe.dce_jaxpr(jaxpr, [True, False])
    assert used == [True, False]
    assert str(clean) == "{ lambda ; a:f32[]. let b:f32[] = add a 1.0 in (b,) }"
    assert pe.dce_jaxpr(jaxpr, [True, False], instantiate=True)[1] == [True, True]
    assert len(pe.dce_jaxpr(jaxpr, True)[0].eqns) == 2


def test_constants_are_dropped_too() -> None:
    a, b = jnp.ones(2), jnp.ones(3)
    jaxpr, _, _ = pe.trace_to_jaxpr_dynamic(lambda x: [x + a, x * b], [SCALAR])
    clean, consts, used = pe.dce_jaxpr_consts(jaxpr, [False, True])
    assert (consts, used) == ([False, True], [True])
    assert len(clean.constvars) == 1


def test_a_primitive_may_drop_its_unused_results() -> None:
    pair = Primitive("pair")
    pair.multiple_results = True
    pair.def_abstract_eval(lambda *avals: avals)

    def rule(used: list[bool], eqn: Any) -> Any:
        def kept(vs: Any) -> Any:
            return [v for v, u in zip(vs, used, strict=True) if u]

        return used, eqn.replace(invars=kept(eqn.invars), outvars=kept(eqn.outvars))

    pe.dce_rules[pair] = rule
    jaxpr = kiln.make_jaxpr(lambda x, y: pair.bind(x, y)[1])(1.0, 2.0).jaxpr
    clean, used = pe.dce_jaxpr(jaxpr, True)
    assert used == [False, True]
    assert len(clean.eqns[0].outvars) == 1
    assert pe.dce_rules[pair] is rule


def test_kilns_own_rules_for_unused_results() -> None:
    jaxpr = kiln.make_jaxpr(lambda x: kiln.lax.scan(lambda c, _: (c + 1, c), x, None, 3))(1.0)
    (eqn,) = jaxpr.eqns
    used, new = pe.dce_rules[scan_p]([True, False], eqn)
    assert len(new.outvars) == 1
    assert used == [True]
    assert pe.dce_rules[scan_p]([False, False], eqn) == ([False], None)
    assert sin_p not in pe.dce_rules
