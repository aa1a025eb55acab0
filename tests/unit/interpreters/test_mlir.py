"""Lowering rules of other libraries' primitives, on all engines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override
from kiln.core import ShapedArray
from kiln.errors import UnsupportedPrimitive
from kiln.extend.core import Primitive
from kiln.interpreters import mlir, xla
from kiln.ir import own_effects
from kiln.ir.own_effects import OwnEffect
from kiln.lax import sin_p
from tests.unit.interpreters.outside import ENGINES

X = np.arange(3, dtype=np.float32)


def primitive(name: str = "p", multiple: bool = False) -> Primitive:
    p = Primitive(name)
    p.multiple_results = multiple
    p.def_abstract_eval(lambda x, **_: [x, x] if multiple else x)
    return p


@pytest.mark.parametrize("engine", ENGINES)
def test_a_lowering_is_a_function_of_arrays(engine: str) -> None:
    p = primitive()
    mlir.register_lowering(
        p, mlir.lower_fun(lambda x, *, k: jnp.sin(x) * k, multiple_results=False)
    )
    with override(engine=engine):
        np.testing.assert_allclose(kiln.jit(lambda x: p.bind(x, k=2.0))(X), 2 * np.sin(X), 1e-6)
        # Without an impl, eager calls run the lowering.
        np.testing.assert_allclose(p.bind(X, k=3.0), 3 * np.sin(X), 1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_several_results(engine: str) -> None:
    p = primitive(multiple=True)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: (x, x + 1)))
    with override(engine=engine):
        a, b = kiln.jit(p.bind)(X)
        np.testing.assert_array_equal(b - a, np.ones(3))


def test_the_context_has_the_types() -> None:
    p, seen = primitive(), []

    def rule(context: Any, x: Any) -> Any:
        seen.append(context)
        context.module_context.add_keepalive(object())
        return [x + 1]

    assert mlir.register_lowering(p, rule) is rule
    kiln.jit(p.bind)(X)
    context = seen[0]
    assert context.primitive is p
    assert list(map(str, context.avals_in)) == list(map(str, context.avals_out)) == ["float32[3]"]
    assert context.replace(avals_in=[]).avals_in == []
    assert context.module_context.platforms == ("cpu",)


def test_the_rule_of_the_platform_is_taken() -> None:
    p = primitive()
    for platform, k in ((None, 1.0), ("cpu", 2.0), ("cuda", 3.0)):
        rule = mlir.lower_fun(lambda x, k=k: x * k, multiple_results=False)
        mlir.register_lowering(p, rule, platform=platform)
    assert kiln.jit(p.bind)(X).tolist() == (2 * X).tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_a_primitive_without_lowering_is_refused(engine: str) -> None:
    p = primitive("only_an_impl")
    p.def_impl(lambda x: x)
    with override(engine=engine):
        assert p.bind(X) is X
        with pytest.raises((NotImplementedError, ValueError), match="only_an_impl") as caught:
            kiln.jit(p.bind)(X)
    text = str(caught.value)
    assert len(text.splitlines()) == 3
    assert engine == "native" or "register_lowering" in text


def test_by_default_the_error_says_what_to_write() -> None:
    p = primitive("only_an_impl")
    with pytest.raises(UnsupportedPrimitive, match=r"mlir.register_lowering\(primitive"):
        kiln.jit(p.bind)(X)


def test_a_lowering_with_another_number_of_results_is_refused() -> None:
    p = primitive()
    mlir.register_lowering(p, mlir.lower_fun(lambda x: (x, x)))
    with pytest.raises(TypeError, match="2 results, the primitive has 1") as caught:
        kiln.jit(p.bind)(X)
    assert len(str(caught.value).splitlines()) == 3


def test_lowerings_of_kilns_own_primitives_stay() -> None:
    with pytest.raises(ValueError, match="cannot be replaced"):
        mlir.register_lowering(sin_p, mlir.lower_fun(lambda x: x, multiple_results=False))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("effect", [False, True])
def test_a_lowering_may_call_python(engine: str, effect: bool) -> None:
    p, seen = primitive(), []

    def callback(x: Any) -> Any:
        seen.append(np.asarray(x).tolist())
        return (np.asarray(x) * 10,)

    def rule(context: Any, x: Any) -> Any:
        outs, token, keep = mlir.emit_python_callback(
            context,
            callback,
            None,
            [x],
            context.avals_in,
            context.avals_out,
            has_side_effect=effect,
        )
        assert token is keep is None
        return outs

    mlir.register_lowering(p, rule)
    with override(engine=engine):
        assert kiln.jit(p.bind)(X).tolist() == [0.0, 10.0, 20.0]
    assert seen == [[0.0, 1.0, 2.0]]


def test_apply_primitive_compiles_one_operation() -> None:
    p = primitive()
    p.def_impl(lambda x: xla.apply_primitive(p, x))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 5, multiple_results=False))
    assert p.bind(X).tolist() == [5.0, 6.0, 7.0]


class Logged(OwnEffect):
    """An effect that may be everywhere, and keeps its order."""

    def __repr__(self) -> str:
        return "logged"


class Unknown(OwnEffect):
    """An effect that nothing is known of."""


for allowed in (
    *(own_effects.lowerable_effects, own_effects.ordered_effects),
    *(own_effects.control_flow_allowed_effects, own_effects.remat_allowed_effects),
    own_effects.custom_derivatives_allowed_effects,
):
    allowed.add_type(Logged)

LOGGED, UNKNOWN = Logged(), Unknown()


def logging(lines: list[float], effect: Any) -> Any:
    """Return an operation with an effect, which adds numbers to a list as programs run."""
    p = Primitive("log")
    p.multiple_results = True
    p.def_effectful_abstract_eval(lambda x, *, effect: ([], {effect}))
    p.def_impl(lambda x, *, effect: (lines.append(float(x)), [])[1])

    def rule(context: Any, x: Any, *, effect: Any) -> list[Any]:
        token = context.tokens_in.get(effect) if effect.ordered else None
        outs, token, _ = mlir.emit_python_callback(
            *(context, lambda x: (lines.append(float(x)), ())[1], token, [x]),
            *(context.avals_in, context.avals_out),
            has_side_effect=True,
        )
        if effect.ordered:
            context.set_tokens_out(context.tokens_in.update_tokens(mlir.TokenSet({effect: token})))
        return outs

    mlir.register_lowering(p, rule)
    return lambda x: p.bind(x, effect=effect)


def test_programs_have_the_effects_of_other_libraries() -> None:
    log = logging([], LOGGED)
    inner = kiln.jit(lambda x: (log(x), x)[1])
    programs = [
        lambda x: log(x),
        lambda x: inner(x),
        lambda x: kiln.lax.cond(x > 0, inner, inner, x),
        lambda x: kiln.lax.scan(lambda c, _: (inner(c), None), x, None, length=2),
        lambda x: kiln.checkpoint(inner)(x),
    ]
    for f in programs:
        jaxpr = kiln.make_jaxpr(f)(2.0)
        assert jaxpr.effects == {LOGGED}
        assert jaxpr.jaxpr.eqns[-1].effects == {LOGGED} or f is programs[2]


def test_ordered_effects_keep_their_order() -> None:
    lines: list[float] = []
    log = logging(lines, LOGGED)

    @kiln.jit
    def f(x: Any) -> Any:
        log(x)
        log(x + 1)
        kiln.lax.fori_loop(0, 3, lambda i, y: (log(y), y + 1)[1], x + 2)
        log(x + 5)
        return x

    for x in (0.0, 10.0):
        f(x)
    kiln.effects_barrier()
    assert lines == [0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15]
    log(7.0)
    assert lines[-1] == 7


def with_rule(fun: Any) -> Any:
    made = kiln.custom_jvp(fun)
    made.defjvp(lambda primals, tangents: (primals[0], tangents[0]))
    return made


REFUSED: dict[str, Any] = {
    "scan": lambda log, x: kiln.lax.scan(lambda c, _: (c, log(x)), x, None, length=2),
    "cond": lambda log, x: kiln.lax.cond(x > 0, lambda: log(x), lambda: log(x)),
    "while_loop": lambda log, x: kiln.lax.while_loop(lambda y: (log(y), y < 0)[1], jnp.sin, x),
    "custom_jvp": lambda log, x: with_rule(lambda x: (log(x), x)[1])(x),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unknown_effects_are_not_everywhere(name: str) -> None:
    log = logging([], UNKNOWN)
    with pytest.raises(NotImplementedError, match=f"Effects not supported in `{name}`"):
        kiln.make_jaxpr(lambda x: REFUSED[name](log, x))(1.0)
    with pytest.raises(ValueError, match="Cannot lower jaxpr with effects"):
        kiln.jit(log)(1.0)


def test_derivatives_of_checkpoints_refuse_unknown_effects() -> None:
    log = logging([], UNKNOWN)
    f = kiln.checkpoint(lambda x: (log(kiln.lax.stop_gradient(x)), jnp.sin(x))[1])
    with pytest.raises(NotImplementedError, match="Effects not supported in `checkpoint`"):
        kiln.grad(f)(1.0)


def _forget(context: Any, x: Any, *, effect: Any) -> list[Any]:
    return []


def _others(context: Any, x: Any, *, effect: Any) -> list[Any]:
    context.set_tokens_out(mlir.TokenSet.create([Logged()]))
    return []


@pytest.mark.parametrize(
    ("rule", "wrong"), [(_forget, "needs to set `tokens_out`"), (_others, "incorrect set")]
)
def test_rules_pass_tokens_on(rule: Any, wrong: str) -> None:
    p = Primitive("forgetful")
    p.multiple_results = True
    p.def_effectful_abstract_eval(lambda x, *, effect: ([], {effect}))
    mlir.register_lowering(p, rule)
    f = kiln.jit(lambda x: p.bind(x, effect=LOGGED))
    for run in (f, f.lower):
        with pytest.raises(ValueError, match=wrong):
            run(1.0)


def test_sets_of_tokens() -> None:
    first, second = Logged(), Logged()
    tokens = mlir.TokenSet({first: 1, second: 2})
    assert (len(tokens), tokens.get(second), tokens.effects()) == (2, 2, {first, second})
    assert tokens.items() == ((first, 1), (second, 2))
    assert tokens.subset([second]).items() == ((second, 2),)
    assert tokens.update_tokens(mlir.TokenSet()) is tokens
    assert tokens.update_tokens(mlir.TokenSet({first: 3})).tokens() == (3, 2)
    with pytest.raises(KeyError):
        tokens.get(Logged())


def test_a_primitive_of_another_type_than_its_lowering_is_refused() -> None:
    p = primitive()
    p.def_abstract_eval(lambda x: ShapedArray((7,), x.dtype))
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x, multiple_results=False))
    with pytest.raises(AssertionError, match="mend the lowering"), override(engine="xla"):
        kiln.jit(p.bind)(X)


def test_a_lowering_that_is_set_again_is_seen() -> None:
    p = Primitive("again")
    p.def_abstract_eval(lambda a: a)
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 1.0, multiple_results=False))
    inner = kiln.jit(lambda x: p.bind(x))
    results = [
        lambda: kiln.jit(lambda x: p.bind(x))(6.0),
        lambda: kiln.jit(lambda x: inner(x) * 1.0)(6.0),
        lambda: kiln.jit(lambda x: kiln.lax.cond(x > 0, p.bind, lambda y: y, x))(6.0),
    ]
    assert [float(run()) for run in results] == [7.0] * 3
    mlir.register_lowering(p, mlir.lower_fun(lambda x: x + 10.0, multiple_results=False))
    assert [float(run()) for run in results] == [16.0] * 3


def test_a_platform_must_exist() -> None:
    p = primitive()
    with pytest.raises(NotImplementedError, match="unknown platform cup"):
        mlir.register_lowering(p, lambda context, x: [x], platform="cup")
    mlir.register_lowering(p, lambda context, x: [x], platform="cuda")
