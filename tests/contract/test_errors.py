"""Section 11: errors."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import errors
from tests.contract.marks import contract


@contract("11.1")
def test_bases() -> None:
    for error in (
        errors.ConcretizationTypeError,
        errors.TracerArrayConversionError,
        errors.TracerIntegerConversionError,
        errors.UnexpectedTracerError,
    ):
        assert issubclass(error, errors.JAXTypeError)
    assert issubclass(errors.JAXTypeError, TypeError)
    assert issubclass(errors.TracerBoolConversionError, errors.ConcretizationTypeError)
    assert issubclass(errors.NonConcreteBooleanIndexError, errors.JAXIndexError)
    assert issubclass(errors.JAXIndexError, IndexError)
    assert issubclass(errors.JaxRuntimeError, RuntimeError)
    assert not issubclass(errors.TracerArrayConversionError, errors.ConcretizationTypeError)
    assert not issubclass(errors.TracerIntegerConversionError, errors.ConcretizationTypeError)


@contract("11.2")
@pytest.mark.parametrize(
    "fun",
    [
        lambda x: 1 if x else 2,
        lambda x: not x,
        lambda x: x and 1,
        lambda x: x in [1, 2],
        lambda x: max(x, 2),
        lambda x: sorted([x, 1]),
        lambda x: 0 < x < 2,
        lambda x: x or 1,
        lambda x: [1 for _ in range(1) if x > 0],
        lambda x: bool(x),
        lambda x: any([x > 0]),
        lambda x: list(iter(lambda: x, 0)),
    ],
)
def test_bool_in_disguise(fun) -> None:
    with pytest.raises(errors.TracerBoolConversionError, match="`bool` function"):
        kiln.jit(fun)(1)


@contract("11.2")
@pytest.mark.parametrize(
    ("fun", "name"),
    [
        (int, "int"),
        (float, "float"),
        (complex, "complex"),
        (lambda x: x.item(), "item"),
        (lambda x: x.tolist(), "tolist"),
        (lambda x: complex(x + 0.5), "complex"),
    ],
)
def test_conversions(fun, name) -> None:
    with pytest.raises(errors.ConcretizationTypeError, match=name):
        kiln.jit(lambda x: fun(x))(1)


@contract("11.2")
@pytest.mark.parametrize(
    "fun", [lambda n: range(n), lambda n: [1, 2, 3][n], lambda n: [1, 2, 3][:n]]
)
def test_index_uses(fun) -> None:
    with pytest.raises(errors.TracerIntegerConversionError, match="__index__"):
        kiln.jit(fun)(1)


@contract("11.2")
def test_numpy_functions() -> None:
    with pytest.raises(errors.TracerArrayConversionError, match="__array__") as error:
        kiln.jit(lambda x: np.sin(x))(1.0)
    assert "kiln.numpy.sin" in str(error.value)
    for convert in (np.asarray, np.array, lambda x: np.add(np.ones(3), x)):
        with pytest.raises(errors.TracerArrayConversionError, match="__array__"):
            kiln.jit(lambda x, c=convert: c(x))(np.ones(3))


@contract("11.2")
def test_while_loops_of_python() -> None:
    def loop(x):
        while x < 3:
            x = x + 1
        return x

    with pytest.raises(errors.TracerBoolConversionError, match="`bool` function"):
        kiln.jit(loop)(0)


@contract("11.3")
def test_the_message_names_the_responsible_arguments() -> None:
    def model(x, y, d, *args):
        z = jnp.sin(x) + d["a"][0]
        if z > 0:
            return y
        return args[1]

    with pytest.raises(errors.TracerBoolConversionError) as error:
        kiln.jit(model)(1.0, 2.0, {"a": [3.0], "b": 1.0}, 4.0, 5.0)
    text = str(error.value)
    assert "arguments x and d['a'][0]" in text
    assert "while tracing the function model at" in text
    assert "test_errors.py" in text
    assert "for jit" in text
    assert "Abstract tracer value encountered where concrete value is expected" in text
    assert "cond" in text
    assert "argument y" not in text
    assert "args[" not in text
    assert "'b'" not in text
    assert "float32[]" in text or "bool[]" in text


@contract("11.3")
def test_the_message_names_one_argument_and_the_failing_line() -> None:
    def model(x, *args):
        y = jnp.cos(args[1])
        return float(y) + x

    line = model.__code__.co_firstlineno + 2
    with pytest.raises(errors.ConcretizationTypeError) as error:
        kiln.jit(model)(1.0, 2.0, 3.0)
    text = str(error.value)
    assert "argument args[1]" in text
    assert "argument x" not in text
    assert f"test_errors.py:{line}" in text
    assert f"model at {__file__}:{line - 2}" in text or f"test_errors.py:{line - 2}" in text
    assert "`float` function" in text


@contract("11.3")
def test_the_message_names_the_inner_construct() -> None:
    def body(c, x):
        return (c + 1 if x > 0 else c), x

    with pytest.raises(errors.TracerBoolConversionError) as error:
        kiln.jit(lambda x: kiln.lax.scan(body, 0, x))(np.ones(3))
    text = str(error.value)
    assert "while tracing the function body at" in text
    assert "for scan" in text
    assert "lax.cond" in text
    assert "where" in text


@contract("11.3")
def test_the_message_names_replacements() -> None:
    with pytest.raises(errors.TracerIntegerConversionError) as error:
        kiln.jit(lambda x, i: [1, 2, 3][i])(1.0, 1)
    assert "static_argnames=['i']" in str(error.value)
    with pytest.raises(IndexError, match="dynamic_slice"):
        kiln.jit(lambda x, n: x[:n])(np.ones(3), 2)
    with pytest.raises(errors.ConcretizationTypeError, match="size="):
        kiln.jit(jnp.nonzero)(np.ones(3))
    with pytest.raises(errors.ConcretizationTypeError) as error:
        kiln.jit(lambda x: x.tolist())(np.ones(3))
    assert "static_argnames" not in str(error.value)


@contract("11.3")
def test_the_message_says_what_to_type() -> None:
    def loop(x, n):
        while n > 0:
            n = n - 1
        return x

    with pytest.raises(errors.TracerBoolConversionError) as error:
        kiln.jit(loop)(1.0, 3)
    text = str(error.value)
    assert "while_loop" in text
    assert "fori_loop" in text
    assert "static_argnames=['n']" in text
    with pytest.raises(errors.TracerBoolConversionError) as error:
        kiln.jit(lambda x: x if x.sum() > 0 else -x)(np.ones(3))
    assert "static_argnames" not in str(error.value)


@contract("11.4")
def test_leaked_tracers() -> None:
    kept: list = []

    @kiln.jit
    def keeps(x):
        kept.append(x)
        return x

    keeps(np.ones(3, np.float32))
    assert "float32[3]" in repr(kept[0])
    assert "float32[3]" in str(kept[0])
    assert kept[0].shape == (3,)
    for use in (
        lambda: kept[0] + 1,
        lambda: kiln.jit(lambda y: y)(kept[0]),
        lambda: kiln.jit(lambda y: y + kept[0])(1.0),
    ):
        with pytest.raises(errors.UnexpectedTracerError, match=r"(?s)leak.*float32\[3\].*keeps at"):
            use()
        with pytest.raises(errors.UnexpectedTracerError, match=r"test_errors\.py"):
            use()
    kiln.vmap(lambda x: kept.append(x) or x)(np.ones((2, 3), np.float32))
    kiln.lax.scan(lambda c, x: kept.append(x) or (c, x), 0, np.ones((2, 3), np.float32))
    for leaked in kept[1:]:
        with pytest.raises(errors.UnexpectedTracerError, match="leak"):
            jnp.sin(leaked)


@contract("11.5")
def test_data_dependent_shapes() -> None:
    x = np.ones(3, np.float32)
    with pytest.raises(errors.NonConcreteBooleanIndexError, match=r"bool\[3\]"):
        kiln.jit(lambda x: x[x > 0])(x)
    for fun in (jnp.nonzero, jnp.unique, jnp.where, jnp.argwhere):
        with pytest.raises(errors.ConcretizationTypeError, match="size"):
            kiln.jit(fun)(x)
    with pytest.raises(TypeError, match=r"(?si)shape.*concrete"):
        kiln.jit(lambda n: jnp.zeros(n))(3)
    with pytest.raises(TypeError, match="arange"):
        kiln.jit(lambda n: jnp.arange(n))(3)
    with pytest.raises(IndexError, match="static"):
        kiln.jit(lambda x, n: x[:n])(x, 2)


@contract("11.6")
def test_user_exceptions_propagate_unchanged() -> None:
    problem = ValueError("mine")

    def raises(x):
        raise problem

    with pytest.raises(ValueError, match="mine") as error:
        kiln.jit(raises)(1)
    assert error.value is problem
    names = [entry.name for entry in error.traceback]
    assert "raises" in names
    assert "test_user_exceptions_propagate_unchanged" in names

    def calls(x):
        return kiln.jit(raises)(x)

    for construct in (
        lambda: kiln.jit(calls)(1.0),
        lambda: kiln.grad(calls)(1.0),
        lambda: kiln.vmap(calls)(np.ones(2)),
        lambda: kiln.lax.scan(lambda c, x: raises(x), 0, np.ones(2)),
        lambda: kiln.make_jaxpr(calls)(1.0),
    ):
        with pytest.raises(ValueError, match="mine") as error:
            construct()
        assert error.value is problem
        assert "raises" in [entry.name for entry in error.traceback]


@contract("11.7")
def test_shape_errors() -> None:
    with pytest.raises(
        TypeError, match=r"add got incompatible shapes for broadcasting: \(3,\), \(4,\)"
    ):
        jnp.ones(3) + jnp.ones(4)
    with pytest.raises(TypeError, match=r"add got incompatible shapes for broadcasting"):
        kiln.jit(jnp.add)(np.ones((2, 3)), np.ones((3, 2)))
    with pytest.raises(TypeError, match=r"(?s)\(2, 3\).*\(2, 3\)"):
        jnp.dot(jnp.ones((2, 3)), jnp.ones((2, 3)))
    with pytest.raises(TypeError, match=r"(?s)3.*4|4.*3"):
        jnp.concatenate([jnp.ones((2, 3)), jnp.ones((2, 4))])
    with pytest.raises(TypeError, match=r"(?s)\(6,\).*\(4,\)|\(4,\).*\(6,\)"):
        jnp.ones(6).reshape(4)
    with pytest.raises(ValueError, match="axis 2 is out of bounds"):
        jnp.ones((2, 3)).sum(axis=2)
    for bad in ([1, 2], None):
        with pytest.raises(TypeError, match=f"(?s)sin.*{type(bad).__name__}"):
            jnp.sin(bad)
        with pytest.raises(TypeError, match=f"(?s)add.*{type(bad).__name__}"):
            jnp.add(1.0, bad)
    with pytest.raises(IndexError, match=r"(?i)too many indices"):
        jnp.ones(3)[0, 0]
    with pytest.raises(IndexError, match=r"(?i)too many indices"):
        kiln.jit(lambda x: x[0, ..., 0])(np.ones(3))


@contract("11.8")
def test_control_flow_errors() -> None:
    lax = kiln.lax
    with pytest.raises(TypeError, match=r"(?s)cond.*float32.*int32|cond.*int32.*float32"):
        lax.cond(True, lambda x: x * 1.0, lambda x: jnp.int32(1), 2.0)
    with pytest.raises(TypeError, match=r"(?s)switch"):
        lax.switch(0, [lambda x: x, lambda x: (x, x)], 1.0)
    with pytest.raises(TypeError, match=r"(?s)scan.*carry"):
        lax.scan(lambda c, x: (c.astype("int32"), x), jnp.float32(0), jnp.arange(3))
    with pytest.raises(
        TypeError, match=r"(?s)while_loop.*carry|body_fun.*carry|body_fun.*structure"
    ):
        lax.while_loop(lambda c: True, lambda c: (c, c), 0)
    with pytest.raises(TypeError, match=r"(?i)scalar"):
        lax.cond(jnp.array([True, False]), lambda: 1, lambda: 2)
    with pytest.raises(TypeError, match=r"(?is)cond_fun.*(boolean|bool).*scalar|cond_fun.*scalar"):
        lax.while_loop(lambda c: 1.0, lambda c: c, 0)
    with pytest.raises(TypeError, match="pair"):
        lax.scan(lambda c, x: c, 0, jnp.arange(3))
    with pytest.raises(ValueError, match=r"length|sizes"):
        lax.scan(lambda c, x: (c, x), 0, (jnp.arange(3), jnp.arange(4)))
    with pytest.raises(ValueError, match="length"):
        lax.scan(lambda c, x: (c, x), 0)
    with pytest.raises(ValueError, match=r"(?i)branch"):
        lax.switch(0, [])
    with pytest.raises(TypeError, match=r"(?s)fori_loop.*carry"):
        lax.fori_loop(0, 3, lambda i, c: (c, c), 1.0)
    with pytest.raises(TypeError, match=r"(?s)scan.*carry.*structure"):
        lax.scan(lambda c, x: ((c, c), x), 0, jnp.arange(3))
    with pytest.raises(TypeError, match=r"(?s)cond.*structure"):
        lax.cond(True, lambda: {"a": 1}, lambda: (1,))
    with pytest.raises(TypeError, match=r"(?i)scalar"):
        lax.switch(jnp.array([0, 1]), [lambda: 1, lambda: 2])
    with pytest.raises(TypeError, match=r"(?s)scan.*float32\[\].*int32\[\]"):
        lax.scan(lambda c, x: (c.astype("int32"), x), jnp.float32(0), jnp.arange(3))
    with pytest.raises(TypeError, match=r"(?s)while_loop.*int32\[\].*float32\[\]"):
        lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, jnp.int32(0))
    assert lax.while_loop(lambda c: c < 3, lambda c: c + 0.5, 0) == 3
    assert lax.scan(lambda c, x: (c + 0.5, x), 0, jnp.arange(3))[0] == 1.5
    assert lax.switch(7, [lambda: 0, lambda: 1]) == 1
    assert lax.switch(-7, [lambda: 0, lambda: 1]) == 0


@contract("11.9")
def test_transformation_errors() -> None:
    x = jnp.ones(3)
    for fun, arg in (
        (lambda x: x, x),
        (lambda x: x.sum(), jnp.arange(3)),
        (lambda x: jnp.int32(1), x),
        (lambda x: x.sum() * 1j, x),
    ):
        with pytest.raises(TypeError):
            kiln.grad(fun)(arg)
    with pytest.raises(TypeError):
        kiln.grad(jnp.sin, argnums="a")(1.0)
    with pytest.raises(TypeError):
        kiln.grad(jnp.sin, argnums=1)(1.0)
    with pytest.raises(TypeError):
        kiln.grad(jnp.sin, has_aux=True)(1.0)
    with pytest.raises(ValueError, match="inconsistent sizes"):
        kiln.vmap(jnp.add)(jnp.ones(3), jnp.ones(4))
    with pytest.raises(ValueError, match="rank should be at least"):
        kiln.vmap(jnp.sin)(1.0)
    with pytest.raises(ValueError, match="out of bounds"):
        kiln.vmap(jnp.sin, out_axes=3)(x)
    with pytest.raises(ValueError, match="in_axes"):
        kiln.vmap(jnp.sin, in_axes=(0, 0))(x)
    with pytest.raises(ValueError, match="got axis spec None but output was batched on axis 0"):
        kiln.vmap(jnp.sin, out_axes=None)(x)
    with pytest.raises(ValueError, match=r"out_axes\['b'\]\[0\], .* \(axis_name=i\) but out_axes"):
        kiln.vmap(lambda x: {"a": 1.0, "b": (x,)}, out_axes=None, axis_name="i")(x)
    with pytest.raises(TypeError):
        kiln.jvp(jnp.sin, (1.0,), (np.int32(1),))
    with pytest.raises(TypeError):
        kiln.jvp(jnp.sin, (1.0,), [1.0, 2.0])
    with pytest.raises(ValueError, match="shapes"):
        kiln.jvp(jnp.sin, (x,), (jnp.ones(4),))
    _, pull = kiln.vjp(jnp.sin, x)
    with pytest.raises(ValueError, match="vjp"):
        pull(jnp.ones(4))
    with pytest.raises(ValueError, match="vjp"):
        pull(x.astype("int32"))
    with pytest.raises(ValueError, match="structure"):
        pull((x, x))
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        kiln.grad(lambda x: kiln.lax.while_loop(lambda c: c < 9, lambda c: c * x, x))(2.0)


@contract("11.10")
def test_debug_nans_and_unknown_options() -> None:
    kiln.config.update("jax_debug_nans", True)
    try:
        with pytest.raises(FloatingPointError):
            kiln.jit(jnp.log)(-1.0)
        with pytest.raises(FloatingPointError):
            jnp.log(-1.0)
        assert kiln.jit(jnp.log)(1.0) == 0
    finally:
        kiln.config.update("jax_debug_nans", False)
    with pytest.raises(AttributeError, match="no_such_option"):
        kiln.config.update("no_such_option", 1)
    with pytest.raises(AttributeError):
        kiln.config.no_such_option
    assert np.isnan(kiln.jit(jnp.log)(-1.0))
