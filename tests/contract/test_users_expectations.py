"""What users of JAX write without thinking, and what kiln says where it cannot do that."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from typing import Any

import flax.linen
import jax
import jax.numpy as reference
import numpy as np
import pytest

import kiln
import kiln.linen
import kiln.numpy as jnp
import kiln.scipy.linalg as linalg
from kiln.base.options.config import override


def test_lines_of_an_empty_array_are_taken() -> None:
    for shape in ((2, 0), (2, 1)):
        taken = jnp.take_along_axis(jnp.ones((3, 0)), jnp.zeros(shape, int), 0)
        assert taken.shape == (2, 0)


def test_angles_of_complex_points_are_those_of_jax() -> None:
    y, x = np.array([1j, 1 + 2j, -3.0], "c8"), np.array([2j, 0.5 - 1j, -1.0], "c8")
    expected = np.asarray(reference.arctan2(y, x))
    for found in (jnp.arctan2(y, x), kiln.jit(jnp.arctan2)(y, x)):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_places_padded_with_floats_are_floats() -> None:
    mask = np.array([True, False, True])
    expected = reference.where(reference.array(mask), size=3, fill_value=np.nan)[0]
    find = kiln.jit(lambda m: jnp.where(m, size=3, fill_value=jnp.nan)[0])
    for found in (jnp.where(jnp.array(mask), size=3, fill_value=jnp.nan)[0], find(mask)):
        assert found.dtype == np.float32
        np.testing.assert_array_equal(found, np.asarray(expected))


def test_sylvester_equations_are_solved_in_batches() -> None:
    draw = np.random.default_rng(0)
    a = (draw.normal(size=(3, 3)) + 4 * np.eye(3)).astype("f")
    b = (draw.normal(size=(5, 2, 2)) + 4 * np.eye(2)).astype("f")
    c = draw.normal(size=(5, 3, 2)).astype("f")
    x = np.asarray(linalg.solve_sylvester(a, b, c))
    np.testing.assert_allclose(a @ x + x @ b, c, atol=1e-4)
    expected = jax.scipy.linalg.solve_sylvester(a, b[0], c[0])
    np.testing.assert_allclose(x[0], expected, atol=1e-5)


def test_an_unknown_generator_is_refused_where_it_is_named() -> None:
    for choose in (
        lambda: kiln.config.update("jax_default_prng_impl", "md5"),
        lambda: kiln.default_prng_impl("md5"),
    ):
        with pytest.raises(ValueError, match="use one of: 'threefry2x32'"):
            choose()


def test_guards_are_decorators() -> None:
    for guard in (kiln.transfer_guard("allow"), kiln.enable_x64(False), kiln.log_compiles(False)):
        assert guard(lambda: 3)() == 3


def test_messages_say_what_to_type() -> None:
    with pytest.raises(ValueError, match="'j' one size"):
        jnp.einsum("ij,jk->ik", jnp.ones((2, 3)), jnp.ones((2, 3)))
    with pytest.raises(TypeError) as caught:
        jnp.ones(6).reshape(-1, 4)
    assert "(size -4)" not in str(caught.value)
    with pytest.raises(ValueError, match="'foo'") as unknown:
        kiln.jit(lambda x: x).lower(1.0).as_text("foo")
    assert "xla" not in str(unknown.value)
    with pytest.raises(AttributeError, match="did you mean arange"):
        jnp.arrange
    with pytest.raises(AttributeError, match="did you mean grad"):
        kiln.grda


def test_values_of_a_users_class_may_be_registered() -> None:
    @dataclasses.dataclass
    class Point:
        x: float

    class Other:
        pass

    with pytest.raises(TypeError, match=r"register_dataclass\(Point\)"):
        kiln.jit(lambda p: p.x)(Point(1.0))
    with pytest.raises(TypeError, match=r"register_pytree_node\(Other, flatten, unflatten\)"):
        kiln.jit(lambda p: p)(Other())
    with pytest.raises(TypeError) as text:
        kiln.jit(lambda p: p)("text")
    assert "register" not in str(text.value)


def test_namespaces_list_what_is_public() -> None:
    for name in ("annotations", "operators", "sets"):
        assert name not in dir(jnp)
    assert {"fft", "linalg", "arange"} <= set(dir(jnp))
    assert {"numpy", "lax", "random", "tree_util", "errors", "debug", "sharding"} <= set(dir(kiln))
    assert {"annotations", "keys", "arguments"}.isdisjoint(dir(kiln.random))
    assert "initializers" in dir(kiln.nn)


def test_the_command_line_says_its_version() -> None:
    command = [sys.executable, "-m", "kiln", "--version"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == f"kiln {kiln.__version__}\n"


@pytest.mark.parametrize("name", ["KILN_NUM_CPU_DEVICES", "JAX_NUM_CPU_DEVICES"])
@pytest.mark.parametrize("count", ["0", "-3"])
def test_a_processor_is_not_divided_into_no_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, count: str
) -> None:
    monkeypatch.delenv("KILN_NUM_CPU_DEVICES", raising=False)
    monkeypatch.setenv(name, count)
    command = [sys.executable, "-c", "import kiln; kiln.devices()"]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    assert said.returncode == 1
    assert f"{name}={count}" in said.stderr


def test_a_traced_size_names_its_argument_and_function() -> None:
    def made(rows, scale):
        return jnp.zeros((rows + 1, 2)) * scale

    calls = [
        lambda: kiln.jit(made)(3, 2.0),
        lambda: kiln.jit(lambda rows: jnp.ones(4).reshape(rows, 2))(2),
    ]
    for name, call in zip(("made", "<lambda>"), calls, strict=True):
        with pytest.raises(TypeError) as caught:
            call()
        assert f"while tracing the function {name} at {__file__}" in str(caught.value)
        assert "the value of the argument rows" in str(caught.value)
        assert "static_argnames=['rows']" in str(caught.value)
        assert str(caught.value).count("\n") == 2
    with pytest.raises(TypeError, match=r"static_argnames=\.\.\."):
        kiln.jit(lambda x: jnp.ones((x.sum(),)))(jnp.arange(3))


def test_a_misspelled_option_is_understood() -> None:
    for call, meant in (
        (lambda: kiln.jit(len, static_argname="x"), "static_argnames"),
        (lambda: kiln.jit(donate_argnum=0), "donate_argnums"),
        (lambda: kiln.vmap(len, in_axis=0), "in_axes"),
        (lambda: kiln.grad(len, argnum=1), "argnums"),
        (lambda: kiln.value_and_grad(len, hasaux=True), "has_aux"),
        (lambda: kiln.jacfwd(len, holomorph=True), "holomorphic"),
        (lambda: kiln.jacrev(len, argnumbers=1), "argnums"),
        (lambda: kiln.hessian(len, argnum=1), "argnums"),
    ):
        with pytest.raises(TypeError, match=f"did you mean {meant}") as caught:
            call()
        assert __file__ in str(caught.value)
        assert "got an unexpected keyword argument" in str(caught.value)
    with pytest.raises(TypeError, match="it takes fun, in_axes, out_axes, axis_name"):
        kiln.vmap(len, zzz=1)


def test_a_leaked_tracer_tells_where_it_was_made() -> None:
    kept = []

    @kiln.jit
    def keep(x):
        kept.append(jnp.sin(x))
        return x

    keep(1.0)
    line = keep.__wrapped__.__code__.co_firstlineno + 2
    with pytest.raises(kiln.errors.UnexpectedTracerError, match=f"made by `sin` at .*:{line} in"):
        kept[0] + 1


SETS: list[tuple[list[float], list[float], int]] = [
    ([], [1.0], 2),
    ([1, 2, 3], [2, 3], 4),
    ([6, 5, 5], [6, 7], 4),
    ([1, 2], [1, 2], 3),
    ([0, 0, 4], [4], 3),
    ([], [], 2),
    ([3.0], [], 2),
    ([2, 1], [3], 2),
    ([], [2, 1], 3),
]


@pytest.mark.parametrize(
    "name",
    [
        "setdiff1d",
        "union1d",
        # JAX takes seconds for each.
        *[pytest.param(name, marks=pytest.mark.full) for name in ("intersect1d", "setxor1d")],
    ],
)
def test_sets_are_padded_as_in_jax(name: str) -> None:
    cases = [(row, options) for row in SETS for options in ({}, {"fill_value": 9})]
    if name == "union1d":
        with pytest.raises(ValueError, match="fill_value must be specified"):
            kiln.numpy.union1d(jnp.array([]), jnp.array([]), size=2)
        cases.remove((([], [], 2), {}))

    def run(library: Any, run: Any) -> list[Any]:
        def all_cases(operands: list[tuple[Any, Any]]) -> list[Any]:
            operation = getattr(library.numpy, name)
            return [
                operation(*xs, size=size, **options)
                for xs, ((_, _, size), options) in zip(operands, cases, strict=True)
            ]

        asarray = library.numpy.array
        operands = [(asarray(x, "f"), asarray(y, "f")) for (x, y, _), _ in cases]
        return [np.asarray(x).tolist() for x in run(all_cases)(operands)]

    expected = run(jax, jax.jit)
    for found in (run(kiln, kiln.jit), run(kiln, lambda f: f)):
        assert list(zip(cases, found, strict=True)) == list(zip(cases, expected, strict=True))


def test_nothing_has_no_distinct_element_to_repeat() -> None:
    for library in (jax, kiln):
        with pytest.raises(ValueError, match="fill_value must be specified"):
            library.numpy.unique(library.numpy.array([]), size=3)
        assert library.numpy.unique(library.numpy.array([]), size=2, fill_value=7).tolist() == [
            7,
            7,
        ]
        assert library.numpy.unique(library.numpy.array([]), size=0).shape == (0,)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 2), (0, 0), (3, 0, 2)])
@pytest.mark.parametrize("size", [None, 0, 1, 3])
@pytest.mark.parametrize("fill_value", [None, 7])
def test_what_is_distinct_in_nothing_is_as_in_jax(
    shape: tuple[int, ...], size: int | None, fill_value: int | None
) -> None:
    def run(library: Any, axis: int | None, flags: dict[str, bool]) -> list[Any]:
        x = library.numpy.zeros(shape, "f")
        found = library.numpy.unique(x, axis=axis, size=size, fill_value=fill_value, **flags)
        parts = found if isinstance(found, tuple) else (found,)
        return [(part.shape, part.dtype.name, part.tolist()) for part in parts]

    flags = dict.fromkeys(["return_index", "return_inverse", "return_counts"], True)
    for axis in (None, *range(len(shape))):
        for given in ({}, flags):
            try:
                expected = run(jax, axis, given)
            except ValueError as error:
                # With a value to pad with, JAX pads along the first axis whichever is asked for.
                if "fill_value must be specified" in str(error):
                    with pytest.raises(ValueError, match="fill_value must be specified"):
                        run(kiln, axis, given)
            else:
                assert run(kiln, axis, given) == expected


def test_nothing_is_compressed_to_what_fills_it() -> None:
    nothing = jnp.zeros((2, 0), "f")
    found = jnp.compress(np.zeros(0, bool), nothing, 1, size=3, fill_value=7)
    assert found.tolist() == [[7.0] * 3] * 2
    assert jnp.extract(nothing > 0, nothing, size=2).tolist() == [0.0, 0.0]


def test_a_donated_number_beyond_the_arguments_of_a_method_donates_nothing() -> None:
    for library, linen in ((jax, flax.linen), (kiln, kiln.linen)):

        class Twice(linen.Module):
            @linen.compact
            def __call__(self, x: Any) -> Any:
                return 2 * x

        for donated in (2, 5, (2, 7)):
            x = library.numpy.ones(2)
            assert linen.jit(Twice, donate_argnums=donated)().apply({}, x).tolist() == [2, 2]
            assert x.tolist() == [1, 1]


def test_closed_over_arrays_on_different_devices_meet_on_the_first() -> None:
    program = """
import importlib, sys
import numpy as np
library = importlib.import_module(sys.argv[1])
first, second, third = library.devices()
x, y = library.device_put(np.ones(2, "f"), second), library.device_put(np.ones(2, "f"), third)
f = library.jit(lambda z: x + y * z)
for z in (2.0, 3.0, library.device_put(4.0, second), 5.0):
    found = f(z)
    print(found.tolist(), [d.id for d in found.devices()], found.committed)
for found in library.jvp(f, (2.0,), (1.0,)), library.vmap(f)(np.ones(3, "f")):
    print([x.tolist() for x in found], {d.id for x in found for d in x.devices()})
"""
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=3", "KILN_NUM_CPU_DEVICES": "3"}
    said = [
        subprocess.run(
            [sys.executable, "-c", program, library],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | flags,
        ).stdout
        for library in ("jax", "kiln")
    ]
    assert said[1] == said[0] != ""


def test_closed_over_arrays_meet_under_derivatives() -> None:
    program = """
import numpy as np, kiln
first, second, third = kiln.devices()
x, y = (kiln.device_put(np.full(2, n, "f"), d) for n, d in ((2, second), (3, third)))
f = kiln.jit(lambda z: (x * y * z * z).sum())
for run in (kiln.grad(f), lambda z: kiln.vjp(f, z)[1](1.0)[0], kiln.jit(kiln.grad(f)),
            lambda z: kiln.linearize(f, z)[1](1.0), lambda z: kiln.hessian(f)(z)):
    found = run(1.0)
    print(float(found), [d.id for d in found.devices()])
alone = kiln.grad(kiln.jit(lambda z: (y * z).sum()))(1.0)
print(float(alone), [d.id for d in alone.devices()])
"""
    said = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"KILN_NUM_CPU_DEVICES": "3"},
    ).stdout
    assert said == "24.0 [0]\n" * 5 + "6.0 [2]\n"


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_integers_narrower_than_a_byte_are_computed_with_everywhere(dtype: str) -> None:
    def run(library: Any, x: Any, y: Any) -> list[Any]:
        jnp, lax = library.numpy, library.lax
        x, weights = x.astype(dtype), y.astype("bfloat16")

        def pooled(y: Any) -> Any:
            largest = lax.reduce_window(y, -np.inf, lax.max, (2,), (1,), "VALID")
            return (largest * x[1:].astype(y.dtype)).sum()

        results = [x + x, x * x, x < 3, x.max(), x.min(), x[::-1], jnp.sort(x), x.at[0].set(3)]
        results += [jnp.dot(x, x), jnp.cumsum(x), x & 3, x // 2, jnp.concatenate([x, x])]
        return [*results, jnp.argmax(x), jnp.where(x > 1, x, 0), library.grad(pooled)(weights)]

    x, y = np.array([1, 2, 3, 0], "int8"), np.array([1, 4, 4, 3], "f")
    expected = jax.jit(lambda x, y: run(jax, x, y))(x, y)
    for apply in (kiln.jit, lambda f: f):
        found = apply(lambda x, y: run(kiln, x, y))(jnp.asarray(x), jnp.asarray(y))
        for theirs, ours in zip(expected, found, strict=True):
            assert str(ours.dtype) == str(theirs.dtype)
            np.testing.assert_array_equal(np.asarray(ours, "f"), np.asarray(theirs, "f"))


def test_tridiagonal_systems_are_solved_in_batches_with_their_derivatives() -> None:
    draw = np.random.default_rng(0)
    given = [draw.normal(size=(3, 4)).astype("f") for _ in range(3)]
    given = [given[0], given[1] + 4, given[2], draw.normal(size=(3, 4, 2)).astype("f")]

    def run(library: Any, *xs: Any) -> Any:
        solve = library.lax.linalg.tridiagonal_solve
        total = library.grad(lambda *xs: (solve(*xs) ** 2).sum(), (0, 1, 2, 3))
        return [solve(*xs), *total(*xs), library.jvp(solve, xs, xs[:3] + xs[3:])[1]]

    for theirs, ours in zip(run(jax, *given), run(kiln, *given), strict=True):
        np.testing.assert_allclose(ours, np.asarray(theirs), rtol=1e-4, atol=1e-5)
    nothing = [np.zeros(s, "f") for s in ((0,), (0,), (0,), (0, 2))]
    assert kiln.lax.linalg.tridiagonal_solve(*nothing).shape == (0, 2)


def test_powers_of_integers_are_those_of_numpy_on_every_engine() -> None:
    for dtype in ("int8", "int16", "int32", "uint8", "uint16", "uint32"):
        x = np.array([3, 2, 1, 5, 0, 7, 255], "int64").astype(dtype)
        for exponent in (100, 64, 31, 0):
            y = np.full(7, exponent).astype(dtype)
            for engine in ("native", "xla", "reference"):
                with override(engine=engine):
                    found = kiln.jit(lambda x, y: x**y)(x, y)
                np.testing.assert_array_equal(found, x**y, f"{dtype} {exponent} {engine}")
    assert (jnp.array([3, 1, -1], "int16") ** jnp.array([-1, -1, -1], "int16")).tolist() == [
        0,
        1,
        -1,
    ]
    assert int(jnp.array(3, "int16") ** jnp.array(200, "int16")) == -20319


def test_scalar_types_are_keys_as_those_of_numpy() -> None:
    assert hash(jnp.int32) == hash(np.int32)
    assert {np.float32: 1}[jnp.float32] == {jnp.float32: 1}[np.float32] == 1


def test_a_type_like_an_array() -> None:
    x = kiln.device_put(jnp.ones((2, 3)), kiln.devices()[1])
    found = kiln.ShapeDtypeStruct.like(x)
    assert (found.shape, found.dtype, found.sharding) == ((2, 3), np.float32, x.sharding)
    assert kiln.ShapeDtypeStruct.like(jnp.ones(3)).sharding is None
    assert kiln.ShapeDtypeStruct.like(1.0) == kiln.ShapeDtypeStruct((), "f", weak_type=True)


@pytest.mark.parametrize("transform", [kiln.grad, kiln.value_and_grad])
def test_reduce_axes_is_taken_and_refused(transform: Any) -> None:
    transform(lambda x: x, reduce_axes=())(1.0)
    with pytest.raises(NotImplementedError, match=r"argument to (value_and_)?grad is deprecated"):
        transform(lambda x: x, reduce_axes=("i",))


def test_all_options_have_values() -> None:
    found = kiln.config.values
    assert found["jax_enable_x64"] is found["enable_x64"] is False
    with kiln.enable_x64(True):
        assert kiln.config.values["jax_enable_x64"]
