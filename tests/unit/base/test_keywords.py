"""Options that there are not, and which ones are meant."""

from __future__ import annotations

import difflib
import inspect
import sys
import types
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.keywords import known_keywords


@known_keywords
def transform(fun: Any, in_axes: int = 0, *, name: str = "") -> Any:
    """Return its arguments."""
    return fun, in_axes, name


def test_known_keywords_pass() -> None:
    assert transform(1) == (1, 0, "")
    assert transform(1, in_axes=2, name="x") == (1, 2, "x")
    assert transform.__doc__ == "Return its arguments."
    assert list(inspect.signature(transform).parameters) == ["fun", "in_axes", "name"]
    assert "static_argnames" in inspect.signature(kiln.jit).parameters


def test_others_are_refused_in_three_lines() -> None:
    for keyword, remedy in (("in_axis", "did you mean in_axes?"), ("zz", "it takes fun, in_axes")):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{keyword}'") as caught:
            transform(1, **{keyword: 3})
        asked, _, said = str(caught.value).splitlines()
        assert asked.startswith(f"transform(..., {keyword}=...) at {__file__}:")
        assert said.startswith(remedy)


def test_a_parameter_without_a_keyword_is_none_of_them() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'fun'") as caught:
        kiln.jit(fun=len)  # type: ignore[call-overload]
    assert str(caught.value).splitlines()[2].startswith("it takes in_shardings, ")


def test_other_mistakes_are_python_s() -> None:
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        transform()


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: kiln.jit(len, static_argnum=0), "static_argnums"),
        (lambda: kiln.grad(len, argnum=0), "argnums"),
        (lambda: kiln.vmap(len, in_axis=0), "in_axes"),
        (lambda: kiln.jacfwd(len, has_auxx=True), "has_aux"),
        (lambda: kiln.jvp(len, (1.0,), (1.0,), hasaux=True), "has_aux"),
        (lambda: kiln.vjp(len, 1.0, hasaux=True), "has_aux"),
        (lambda: kiln.linearize(len, 1.0, hasaux=True), "has_aux"),
        (lambda: kiln.checkpoint(len, polcy=None), "policy"),  # codespell:ignore polcy
        (lambda: kiln.make_jaxpr(len, static_argnames=0), "static_argnums"),
        (lambda: kiln.pmap(len, in_axis=0), "in_axes"),
        (lambda: kiln.shard_map(len, out_spec=None), "out_specs"),
        (lambda: kiln.device_put(1.0, devise=None), "device"),
        (lambda: kiln.make_mesh((1,), axis_name=("x",)), "axis_names"),
        (lambda: lax.scan(len, 0, lenght=3), "length"),  # codespell:ignore lenght
        (lambda: lax.fori_loop(0, 1, len, 0, unrol=2), "unroll"),
        (lambda: lax.associative_scan(len, [], revers=True), "reverse"),
    ],
)
def test_transformations_and_loops_say_what_was_meant(call: Any, meant: str) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        call()
    asked, _, said = str(caught.value).splitlines()
    assert said == f"did you mean {meant}?"
    assert f" at {__file__}:" in asked


def test_functions_of_arrays_suggest_too() -> None:
    x = jnp.ones((3, 4))
    for call, given, meant in (
        (lambda: jnp.sum(x, axes=0), "axes", "axis"),  # type: ignore[call-arg]
        (lambda: x.sum(axes=0), "axes", "axis"),  # type: ignore[call-arg]
        (lambda: jnp.zeros((3,), dtpye="f"), "dtpye", "dtype"),  # type: ignore[call-arg]
        (lambda: jnp.argsort(x, stables=True), "stables", "stable"),  # type: ignore[call-arg]
        (lambda: lax.cond(True, len, len, operands=x), "operands", "operand"),  # type: ignore[call-overload]
        (lambda: lax.map(len, x, batchsize=2), "batchsize", "batch_size"),  # type: ignore[call-arg]
        (lambda: lax.while_loop(cond=len, body_fun=len, init_val=x), "cond", "cond_fun"),  # type: ignore[call-arg]
    ):
        with pytest.raises(TypeError, match=f"unexpected keyword argument '{given}'") as caught:
            call()
        asked, _, remedy = str(caught.value).splitlines()
        assert f"(..., {given}=...) at {__file__}:" in asked
        assert remedy == f"did you mean {meant}?"


def _plain_functions() -> list[types.FunctionType]:
    """Return the functions that neither the extension nor a decorator calls."""
    members = [getattr(each, name) for each in (jnp, kiln.random, kiln.nn) for name in dir(each)]
    return [
        each
        for each in members
        if isinstance(each, types.FunctionType) and not hasattr(each, "__wrapped__")
    ]


@pytest.mark.skipif(sys.version_info < (3, 13), reason="this Python suggests no keywords")
def test_python_suggests_for_plain_functions() -> None:
    right, tried = 0, 0
    for fun in _plain_functions():
        parameters = inspect.signature(fun).parameters.values()
        if any(each.kind is each.VAR_KEYWORD for each in parameters):
            continue
        by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        known = [each.name for each in parameters if each.kind in by_name]
        for meant in known:
            given = f"{meant}s"
            if given in known or difflib.get_close_matches(given, known, 1) != [meant]:
                continue
            with pytest.raises(TypeError, match=f"'{given}'. Did you mean '") as caught:
                fun(**{given: None})
            tried += 1
            right += f"Did you mean '{meant}'" in str(caught.value)
    # Python counts letters in another way: `axiss` is as near to `axisa` as to `axis`.
    assert tried > 700
    assert tried - right < 10


def test_errors_of_known_keywords_stay() -> None:
    with pytest.raises(TypeError) as caught:
        jnp.sum(jnp.ones(3), axis="x")  # type: ignore[arg-type]
    assert "unexpected keyword" not in str(caught.value)
