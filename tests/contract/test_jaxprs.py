"""Section 8: the text of programs, and programs as objects."""

from __future__ import annotations

import re

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.api.make_jaxpr import make_jaxpr
from tests.contract.marks import contract

x = np.ones(3, np.float32)

# Grammar: binder, operand, equation and program, as far as regular expressions go.
BINDER = r"[a-z_]+:(?:key<fry>|[a-z]+\d*)\[[^\]]*\]"
OPERAND = r"(?:[a-z]+|-?\d[\w.+-]*|True|False|nan|-?inf|\(.*\))"
EQUATION = rf"{BINDER}(?: {BINDER})* = \w+(?:\[.*\])?(?: {OPERAND})*"
PROGRAM = (
    rf"{{ lambda (?:{BINDER} ?)*; ?(?:{BINDER} ?)*\. let (?:{EQUATION}(?:; )?)*\s?in \(.*\) }}"
)


def text_of(fun, *args) -> str:
    return str(make_jaxpr(fun)(*args))


def names(fun, *args) -> list[str]:
    return [eqn.primitive.name for eqn in make_jaxpr(fun)(*args).eqns]


@contract("8.1", "8.3")
@pytest.mark.parametrize(
    ("fun", "expected"),
    [
        (lambda a: jnp.sin(a), "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"),
        (lambda a: (a + 1, a), "{ lambda ; a:f32[3]. let b:f32[3] = add a 1.0 in (b, a) }"),
        (
            lambda a: jnp.sin(jnp.cos(a)),
            "{ lambda ; a:f32[3]. let b:f32[3] = cos a; c:f32[3] = sin b in (c,) }",
        ),
        (
            lambda a: a.sum(),
            "{ lambda ; a:f32[3]. let b:f32[] = reduce_sum[axes=(0,)] a in (b,) }",
        ),
    ],
)
def test_programs_of_one_line_follow_the_grammar(fun, expected) -> None:
    text = text_of(fun, x)
    assert text == expected
    assert re.fullmatch(PROGRAM, text)


@contract("8.1")
def test_names_run_through_the_alphabet() -> None:
    def many(a):
        for _ in range(60):
            a = jnp.sin(a)
        return a

    binders = re.findall(r"(\w+):f32\[3\]", text_of(many, x))
    letters = "abcdefghijklmnopqrstuvwxyz"
    two = [first + second for first in "bc" for second in letters]
    assert binders == [*letters, *two][:61]


@contract("8.1")
def test_unused_outputs_print_as_underscores() -> None:
    text = text_of(lambda a: lax.top_k(a, 2)[0], x)
    assert re.search(r"b:f32\[2\] _:i32\[2\] = top_k\[.*\] a", text)


@contract("8.2")
def test_names_of_dtypes() -> None:
    short = {
        "bool": "bool",
        "int8": "i8",
        "int16": "i16",
        "int32": "i32",
        "uint8": "u8",
        "uint16": "u16",
        "uint32": "u32",
        "float16": "f16",
        "bfloat16": "bf16",
        "float32": "f32",
        "complex64": "c64",
    }
    for dtype, name in short.items():
        assert (
            text_of(lambda a: a, jnp.zeros(3, dtype)) == f"{{ lambda ; a:{name}[3]. let in (a,) }}"
        )
    wide = {"int64": "i64", "uint64": "u64", "float64": "f64", "complex128": "c128"}
    with kiln.enable_x64(True):
        for dtype, name in wide.items():
            assert f"a:{name}[3]" in text_of(lambda a: a, jnp.zeros(3, dtype))
    assert "a:key<fry>[]" in text_of(lambda a: a, kiln.random.key(0))
    assert text_of(lambda a: a, 1.0) == text_of(lambda a: a, np.float32(1))


@contract("8.3")
def test_long_programs_take_a_line_per_equation() -> None:
    text = text_of(lambda a: jnp.tanh(jnp.sin(jnp.cos(jnp.exp(a)))), x)
    assert text.splitlines() == [
        "{ lambda ; a:f32[3]. let",
        "  b:f32[3] = exp a",
        "  c:f32[3] = cos b",
        "  d:f32[3] = sin c",
        "  e:f32[3] = tanh d",
        "in (e,) }",
    ]


@contract("8.3")
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_one_line_is_at_most_eighty_columns(count) -> None:
    def f(a):
        for _ in range(count):
            a = jnp.sin(a)
        return a

    text = text_of(f, x)
    longest = max(map(len, text.splitlines()))
    assert longest <= 80
    assert ("\n" in text) == (count > 2)


@contract("8.3")
def test_long_parameters_and_nested_programs() -> None:
    text = text_of(lambda a: lax.scan(lambda c, b: (c + b, c * b), np.float32(0), a), x)
    lines = text.splitlines()
    assert lines[0] == "{ lambda ; a:f32[3]. let"
    assert lines[1] == "  b:f32[] c:f32[3] = scan["
    assert re.match(r"    jaxpr=\{ lambda ; d:f32\[\] e:f32\[\]\. let", lines[2])
    assert "    length=3" in lines
    assert lines[-2] == "  ] 0.0 a"
    assert lines[-1] == "in (b, c) }"
    inner = text_of(lambda a: lax.cond(True, jnp.sin, jnp.cos, a), x)
    assert re.search(r"\{ lambda ; \w+:f32\[3\]\. let \w+:f32\[3\] = cos \w+ in \(\w+,\) \}", inner)


@contract("8.4")
def test_empty_programs() -> None:
    assert re.fullmatch(
        r"\{ lambda ; a:i32\[3\]\. let\s+in \(a,\) \}", text_of(lambda a: a, np.arange(3))
    )
    assert re.fullmatch(r"\{ lambda ; \. let\s+in \(\) \}", text_of(lambda: ()))


@contract("8.5")
def test_literals_print_bare() -> None:
    assert "log 2.0" in text_of(lambda a: jnp.log(2.0), x)
    assert "add a 3 " in text_of(lambda a: a + 3, np.int32(1))
    assert "in (1, 2.5, True)" in text_of(lambda: (1, np.float32(2.5), True))


@contract("8.6")
@pytest.mark.parametrize(
    ("name", "fun"),
    [
        ("add", lambda a: a + a),
        ("sub", lambda a: a - a),
        ("mul", lambda a: a * a),
        ("div", lambda a: a / a),
        ("neg", lambda a: -a),
        ("max", lambda a: jnp.maximum(a, a)),
        ("min", lambda a: jnp.minimum(a, a)),
        ("rem", lambda a: lax.rem(a, a)),
        ("pow", lambda a: a**a),
        ("integer_pow", lambda a: a**3),
        ("exp", jnp.exp),
        ("log", jnp.log),
        ("sin", jnp.sin),
        ("cos", jnp.cos),
        ("tanh", jnp.tanh),
        ("sqrt", jnp.sqrt),
        ("lt", lambda a: a < a),
        ("le", lambda a: a <= a),
        ("gt", lambda a: a > a),
        ("ge", lambda a: a >= a),
        ("eq", lambda a: a == a),
        ("ne", lambda a: a != a),
        ("select_n", lambda a: jnp.where(True, a, a)),
        ("convert_element_type", lambda a: a.astype("int32")),
        ("broadcast_in_dim", lambda a: a[None, :]),
        ("reshape", lambda a: a.reshape(3, 1)),
        ("transpose", lambda a: a.reshape(3, 1).T),
        ("concatenate", lambda a: jnp.concatenate([a, a])),
        ("slice", lambda a: a[:2]),
        ("dynamic_slice", lambda a: lax.dynamic_slice(a, (a[0].astype("int32"),), (2,))),
        ("gather", lambda a: a[a.astype("int32")]),
        ("scatter", lambda a: a.at[a.astype("int32")].set(1.0)),
        ("dot_general", lambda a: a @ a),
        ("reduce_sum", lambda a: a.sum()),
        ("sort", jnp.sort),
        ("cond", lambda a: lax.cond(a[0] > 0, jnp.sin, jnp.cos, a)),
        ("while", lambda a: lax.while_loop(lambda c: c[0] < 3, lambda c: c * 2, a)),
        ("scan", lambda a: lax.scan(lambda c, b: (c, b), 0, a)),
        ("and", lambda a: (a > 0) & (a < 1)),
        ("or", lambda a: (a > 0) | (a < 1)),
        ("not", lambda a: ~(a > 0)),
        ("jit", lambda a: kiln.jit(lambda b: b + 1)(a)),
    ],
)
def test_names_of_primitives(name, fun) -> None:
    assert name in names(fun, x)


@contract("8.6")
def test_parameters_of_powers_and_calls() -> None:
    assert "integer_pow[y=3] a" in text_of(lambda a: a**3, x)

    def double(a):
        return 2 * a

    text = " ".join(text_of(lambda a: kiln.jit(double)(a), x).split())
    assert (
        "jit[ name=double jaxpr={ lambda ; c:f32[3]. let d:f32[3] = mul 2.0 c in (d,) } ] a" in text
    )


@contract("8.6")
def test_scalars_meet_arrays_without_being_broadcast() -> None:
    assert names(lambda a: a + 1.0, x) == ["add"]
    assert "add a 1.0" in text_of(lambda a: a + 1.0, x)
    assert "mul 2.0 a" in text_of(lambda a: 2 * a, x)
    assert "mul a 2 " in text_of(lambda a: a * 2, np.arange(3))
    assert names(lambda: jnp.log(2.0)) == ["log"]


@contract("8.7")
def test_programs_as_objects() -> None:
    constant = jnp.arange(3.0)

    def f(a, b):
        return jnp.sin(a) * constant, b**2

    closed = make_jaxpr(f)(x, 2)
    assert len(closed.consts) == len(closed.jaxpr.constvars) == 1
    np.testing.assert_array_equal(closed.consts[0], constant)
    assert closed.eqns is closed.jaxpr.eqns
    assert [a.str_short() for a in closed.in_avals] == ["f32[3]", "i32[]"]
    assert [a.str_short() for a in closed.out_avals] == ["f32[3]", "i32[]"]
    assert [v.aval.shape for v in closed.jaxpr.invars] == [(3,), ()]
    assert [v.aval.shape for v in closed.jaxpr.outvars] == [(3,), ()]
    sin, mul, power = closed.eqns
    assert [e.primitive.name for e in (sin, mul, power)] == ["sin", "mul", "integer_pow"]
    assert (sin.params, power.params) == ({}, {"y": 2})
    assert list(sin.invars) == [closed.jaxpr.invars[0]]
    assert set(mul.invars) == {sin.outvars[0], closed.jaxpr.constvars[0]}
    assert isinstance(closed, kiln.core.ClosedJaxpr)
    assert isinstance(closed.jaxpr, kiln.core.Jaxpr)


@contract("8.7")
def test_programs_are_evaluated() -> None:
    closed = make_jaxpr(lambda a, b: (a + b, a))(x, 2.0)
    outs = kiln.core.eval_jaxpr(closed.jaxpr, closed.consts, x, 3.0)
    assert isinstance(outs, list)
    np.testing.assert_array_equal(outs[0], x + 3)
    np.testing.assert_array_equal(outs[1], x)


@contract("8.7")
def test_options_of_make_jaxpr() -> None:
    def f(a, n):
        return {"out": a * n}

    assert "mul a 3.0" in str(make_jaxpr(f, static_argnums=(1,))(x, 3))
    jaxpr, shape = make_jaxpr(f, return_shape=True)(x, 3)
    assert isinstance(jaxpr, kiln.core.ClosedJaxpr)
    assert shape == {"out": kiln.ShapeDtypeStruct((3,), "float32")}


@contract("8.8")
def test_unused_arguments_and_repeated_outputs() -> None:
    text = text_of(lambda a, b: (a, a, 1.0, None, {"k": None}), x, 2)
    assert re.fullmatch(r"\{ lambda ; a:f32\[3\] b:i32\[\]\. let\s+in \(a, a, 1\.0\) \}", text)
