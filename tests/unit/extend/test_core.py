"""Programs, traces and values as libraries read them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import core
from kiln.errors import ConcretizationTypeError
from kiln.extend import backend
from kiln.extend import core as jex
from kiln.extend import source_info_util as lines

VECTOR = core.ShapedArray((3,), np.dtype(np.float32))


def program() -> Any:
    return kiln.make_jaxpr(lambda x: kiln.jit(lambda y: y * jnp.sin(y))(x) + 1)(jnp.ones(3))


def test_programs_are_read() -> None:
    closed = program()
    assert isinstance(closed, jex.ClosedJaxpr)
    assert isinstance(closed.jaxpr, jex.Jaxpr)
    call = closed.eqns[0]
    assert isinstance(call, jex.JaxprEqn)
    assert call.primitive is jex.primitives.jit_p
    # The program of a call reads as a closed one, whose constants are none.
    inner = call.params["jaxpr"]
    assert inner.jaxpr is inner
    assert inner.consts == []
    assert list(jex.subjaxprs(closed.jaxpr)) == list(jex.jaxprs_in_params(call.params)) == [inner]
    assert isinstance(closed.eqns[1].invars[1], jex.Literal)
    assert isinstance(closed.jaxpr.outvars[0], jex.Var)
    assert not isinstance(closed.jaxpr.outvars[0], jex.DropVar)
    np.testing.assert_allclose(jex.jaxpr_as_fun(closed)(jnp.ones(3))[0], np.sin(1.0) + 1, 1e-6)
    jex.check_jaxpr(closed.jaxpr)


def test_an_interpreter_of_programs() -> None:
    """As users write one: evaluate equation by equation, with another sine."""

    def run(jaxpr: Any, consts: Any, *args: Any) -> Any:
        env = dict(zip([*jaxpr.constvars, *jaxpr.invars], [*consts, *args], strict=True))
        for eqn in jaxpr.eqns:
            values = [v.val if isinstance(v, jex.Literal) else env[v] for v in eqn.invars]
            if eqn.primitive is jex.primitives.jit_p:
                closed = eqn.params["jaxpr"]
                outs = run(closed.jaxpr, closed.consts, *values)
            elif eqn.primitive is jex.primitives.sin_p:
                outs = [values[0] * 10]
            else:
                params = eqn.primitive.get_bind_params(eqn.params)
                outs = eqn.primitive.bind(*values, **params)
                outs = outs if eqn.primitive.multiple_results else [outs]
            env.update(zip(eqn.outvars, outs, strict=True))
        return [env[v] for v in jaxpr.outvars]

    closed = program()
    assert run(closed.jaxpr, closed.consts, jnp.ones(3))[0].tolist() == [11.0] * 3


def test_an_interpreter_meets_functions_with_rules_of_their_own() -> None:
    tripled = kiln.custom_jvp(lambda x: 3 * x)
    tripled.defjvp(lambda primals, tangents: (tripled(*primals), 7 * tangents[0]))
    (eqn,) = kiln.make_jaxpr(lambda x: tripled(x))(1.0).eqns
    params = eqn.primitive.get_bind_params(eqn.params)
    assert params["subfuns"][0].call_wrapped(2.0) == [6.0]
    assert kiln.grad(lambda x: eqn.primitive.bind(x, **params)[0])(2.0) == 7.0


def test_programs_are_built_and_changed() -> None:
    new = jex.gensym()
    x, y = new(VECTOR), new(VECTOR)
    eqn = jex.new_jaxpr_eqn([x], [y], jex.primitives.sin_p, {}, jex.no_effects)
    assert str(eqn) == "a:f32[3] = sin b"
    jaxpr = jex.Jaxpr(constvars=[], invars=[x], eqns=[eqn], outvars=[y])
    jex.check_jaxpr(jaxpr)
    closed = jex.ClosedJaxpr(jaxpr, [])
    assert closed.literals == []
    other = closed.replace(jaxpr=jaxpr.replace(eqns=[eqn.replace(primitive=jex.primitives.cos_p)]))
    np.testing.assert_allclose(jex.jaxpr_as_fun(other)(jnp.zeros(3))[0], np.ones(3))
    wrong = jaxpr.replace(outvars=[new(VECTOR)])
    with pytest.raises(jex.JaxprTypeError):
        jex.check_jaxpr(wrong)
    open_one = jaxpr.replace(constvars=[new(VECTOR)])
    assert not hasattr(open_one, "consts")


def test_types_of_elements_and_stacks() -> None:
    assert jex.mapped_aval(3, 0, VECTOR).shape == ()
    assert jex.mapped_aval(3, None, VECTOR) is VECTOR
    assert jex.unmapped_aval(2, 1, VECTOR).shape == (3, 2)
    assert jex.unmapped_aval(2, None, VECTOR) is VECTOR
    assert jex.primal_dtype_to_tangent_dtype(np.int32) == kiln.dtypes.float0
    assert jex.primal_dtype_to_tangent_dtype("float32") == np.float32


def test_the_active_trace() -> None:
    assert jex.get_opaque_trace_state() == jex.get_opaque_trace_state("any")
    assert jex.trace_state_clean()
    seen: dict[str, Any] = {}

    def f(x: Any) -> Any:
        seen["trace"] = jex.find_top_trace([x])
        seen["mine"] = x._trace
        seen["jit"] = jex.unsafe_am_i_under_a_jit_DO_NOT_USE()
        seen["vmap"] = jex.unsafe_am_i_under_a_vmap_DO_NOT_USE()
        seen["names"] = jex.unsafe_get_axis_names_DO_NOT_USE()
        seen["named"] = jex.nonempty_axis_env_DO_NOT_USE()
        seen["clean"] = jex.trace_state_clean()
        seen["state"] = hash(jex.get_opaque_trace_state())
        with jex.take_current_trace() as trace, jex.set_current_trace(trace.parent):
            assert jex.find_top_trace() is trace.parent
        return x

    kiln.vmap(f, axis_name="i")(jnp.ones(2))
    assert seen["trace"] is seen["mine"] is seen["trace"].main
    assert (seen["jit"], seen["vmap"], seen["names"], seen["named"]) == (False, True, ["i"], True)
    assert not seen["clean"]
    kiln.jit(f)(1.0)
    assert (seen["jit"], seen["vmap"], seen["names"]) == (True, False, [])
    assert seen["state"] != hash(jex.get_opaque_trace_state())


def test_a_trace_of_another_library() -> None:
    class Counting(core.Trace):
        def __init__(self, parent: core.Trace) -> None:
            super().__init__()
            self.inner = parent
            self.names: list[str] = []

        def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
            self.names.append(primitive.name)
            return primitive.bind_with_trace(self.inner, tracers, None, params)

    with jex.take_current_trace() as outer:
        trace = Counting(outer)
        with jex.set_current_trace(trace):
            found = jnp.sin(jnp.ones(2)) * 2
    np.testing.assert_allclose(found, 2 * np.sin(np.ones(2)), 1e-6)
    assert "sin" in trace.names


def test_values() -> None:
    assert jex.valid_jaxtype(1)
    assert jex.valid_jaxtype(np.ones(2))
    assert not jex.valid_jaxtype("a")
    assert not jex.valid_jaxtype(np.array(["a"]))
    assert jex.concrete_or_error(int, np.int32(3)) == 3
    assert jex.concrete_or_error(None, "a") == "a"
    assert kiln.jvp(lambda x: x * jex.concrete_or_error(float, x), (3.0,), (1.0,))[1] == 3.0
    with pytest.raises(ConcretizationTypeError):
        kiln.jit(lambda x: jex.concrete_or_error(int, x))(1.0)
    assert np.ndarray in jex.array_types
    assert jex.call_impl(kiln.extend.linear_util.wrap_init(lambda x: x + 1), 2) == 3
    assert jex.TraceTag() is not jex.TraceTag()
    assert jex.CallPrimitive("c").call_primitive


def test_lines_of_equations() -> None:
    (eqn,) = kiln.make_jaxpr(lambda x: x + 1)(1.0).eqns
    assert "test_core.py" in lines.summarize(eqn.source_info)
    assert "test_core.py" in lines.summarize(lines.current())
    assert lines.summarize(lines.new_source_info()) == "unknown"
    assert str(eqn.source_info.name_stack) == ""
    assert str(lines.new_name_stack("a").extend("b").transform("c")) == "a/b/c"
    assert lines.current_name_stack().stack == ()
    with lines.extend_name_stack("a") as stack, lines.transform_name_stack("vmap"):
        assert str(stack) == "a"
        assert str(lines.current_name_stack()) == str(lines.current().name_stack) == "a/vmap"
        with lines.set_name_stack(lines.NameStack(("b",))):
            assert str(lines.current_name_stack()) == "b"
        with lines.reset_name_stack():
            assert str(lines.current_name_stack()) == ""
        lines.register_exclusion(__file__)

    def f(x: Any) -> Any:
        with lines.user_context(eqn.source_info.traceback):
            return x * 2

    def g(x: Any) -> Any:
        with lines.user_context(eqn.source_info.traceback, name_stack=stack):
            return x * 2

    (named,) = kiln.make_jaxpr(g)(1.0).eqns
    assert str(named.source_info.name_stack) == "a"
    assert lines.summarize(named.source_info) == lines.summarize(eqn.source_info)

    (other,) = kiln.make_jaxpr(f)(1.0).eqns
    assert other.source_info == eqn.source_info
    assert eqn.source_info.replace(traceback=None).traceback is None


def test_platforms() -> None:
    cpu = backend.get_backend("cpu")
    assert backend.get_backend(cpu) is cpu
    assert cpu.platform == "cpu"
    assert cpu.device_count() == len(cpu.devices()) >= 1
    assert cpu.local_device_count() == len(cpu.local_devices())
    assert cpu.process_index() == 0
    assert list(backend.backends()) == [backend.get_backend().platform]
    assert backend.get_default_device() == kiln.devices()[0]
    assert backend.backend_xla_version() is None
    assert cpu.platform_version
    assert "cpu" in repr(cpu)
    backend.clear_backends()
    backend.clear_in_memory_compilation_cache()


def test_primitives_by_name() -> None:
    assert len(jex.primitives.__all__) > 130
    for name in ("sin_p", "dot_general_p", "scan_p", "cond_p", "while_p", "custom_jvp_call_p"):
        assert isinstance(getattr(jex.primitives, name), jex.Primitive)
    assert jex.primitives.remat_p.name == "checkpoint"
