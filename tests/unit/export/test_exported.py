"""Exported functions: stored, loaded, called, differentiated, refused."""

from __future__ import annotations

import itertools
import pickle
import re

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export, lax, random
from kiln.base.files.checksums import SIZE, with_checksum
from kiln.errors import UnsupportedPrimitive
from kiln.export.container import from_bytes, to_bytes
from kiln.export.tables import read, write

pytest.importorskip("flatbuffers")

X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)


def exported_of(fun, *args, platforms=None, checks=(), **kwargs):
    return export.export(kiln.jit(fun), platforms=platforms, disabled_checks=checks)(
        *args, **kwargs
    )


def again(exported, vjp_order=0):
    """Return an exported function, stored and loaded."""
    return export.deserialize(exported.serialize(vjp_order=vjp_order))


def test_attributes_survive():
    check = export.DisabledSafetyCheck.custom_call("mine")
    made = exported_of(
        lambda x, *, y: {"z": x + y}, X, y=1.0, platforms=("cpu", "tpu"), checks=[check]
    )
    found = again(made)
    for name in (
        *("fun_name", "in_tree", "out_tree", "nr_devices", "platforms", "disabled_safety_checks"),
        *("mlir_module_serialized", "calling_convention_version", "module_kept_var_idx"),
        *("uses_global_constants", "in_shardings_hlo", "out_shardings_hlo", "ordered_effects"),
    ):
        assert getattr(found, name) == getattr(made, name), name
    assert [a.shape for a in found.in_avals] == [a.shape for a in made.in_avals]
    assert found.in_avals[1] == made.in_avals[1].strip_weak_type()
    assert found.mlir_module() == made.mlir_module()
    assert made.has_vjp() and not found.has_vjp()
    assert str(found) == "Exported(fun_name=<lambda>, ...)"


def test_numbers_and_arrays_of_numpy():
    found = again(exported_of(lambda x, n: x * n, jnp.ones(3), 2.0))
    np.testing.assert_array_equal(found.call(np.ones(3, np.float64), 3.0), [3, 3, 3])
    with pytest.raises(ValueError, match=r"Dtype mismatch for args\[1\]"):
        found.call(np.ones(3), 3)


def test_arguments_that_are_not_used():
    made = exported_of(lambda x, y, z: x + z, X, np.int32(1), X)
    assert made.module_kept_var_idx == (0, 2) and len(made.in_avals) == 3
    np.testing.assert_allclose(again(made).call(X, 5, X), 2 * X)


def test_without_arguments_or_results():
    np.testing.assert_array_equal(again(exported_of(lambda: jnp.arange(3))).call(), [0, 1, 2])
    assert again(exported_of(lambda x: None, X)).call(X) is None


def test_constants_are_inside():
    weight, key = jnp.arange(3.0), random.key(3)
    found = again(exported_of(lambda x: x * weight + random.uniform(key, (3,)), X))
    np.testing.assert_allclose(found.call(X), X * weight + random.uniform(key, (3,)), rtol=1e-6)


def test_static_arguments():
    power = kiln.jit(lambda x, n: x**n, static_argnums=1)
    found = again(export.export(power)(X, 3))
    np.testing.assert_allclose(found.call(X), X**3, rtol=1e-5)


@pytest.mark.parametrize("name", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_keys_and_integers(name):
    def draw(key, n):
        return random.split(key), random.bits(key) + n.astype(jnp.uint32)

    found = again(exported_of(draw, random.key(0, impl=name), np.int32(3)))
    key = random.key(5, impl=name)
    keys, bits = found.call(key, np.int32(4))
    expected, expected_bits = draw(key, jnp.int32(4))
    assert keys.dtype == expected.dtype and bits == expected_bits
    assert (random.key_data(keys) == random.key_data(expected)).all()
    stacked = kiln.vmap(found.call, (0, None))(random.split(key, 3), np.int32(0))[0]
    assert stacked.shape == (3, 2)


def test_derivatives_of_derivatives():
    found = again(exported_of(lambda x, n: (jnp.sin(x) * n, n), X, np.int32(2)), vjp_order=2)

    def loss(x):
        return (found.call(x, np.int32(2))[0] ** 2).sum()

    def inner(x):
        return (kiln.grad(loss)(x) ** 2).sum()

    def expected(x):
        return (kiln.grad(lambda x: ((2 * jnp.sin(x)) ** 2).sum())(x) ** 2).sum()

    np.testing.assert_allclose(kiln.grad(inner)(X), kiln.grad(expected)(X), rtol=1e-4)
    with pytest.raises(ValueError, match="No VJP is available"):
        kiln.grad(lambda x: (kiln.grad(inner)(x) ** 2).sum())(X)
    with pytest.raises(TypeError, match="forward-mode"):
        kiln.jvp(lambda x: found.call(x, np.int32(2))[0], (X,), (X,))


def test_cotangents_of_integers():
    pulled = exported_of(lambda x, n: x * n, X, np.int32(2)).vjp()
    assert [str(a.dtype) for a in pulled.in_avals] == ["float32", "int32", "float32"]
    assert pulled.out_avals[1].dtype == kiln.dtypes.float0
    out, nothing = again(pulled).call(X, np.int32(3), np.ones_like(X))
    np.testing.assert_array_equal(out, np.full_like(X, 3))
    assert nothing.dtype == kiln.dtypes.float0 and nothing.shape == ()


def test_loops_without_reverse_derivative():
    made = exported_of(lambda x: lax.while_loop(lambda v: v.sum() < 9, lambda v: v + 1, x), X)
    assert made.serialize()
    with pytest.raises(ValueError, match="Reverse-mode differentiation does not work"):
        made.serialize(vjp_order=1)


def test_linear_algebra():
    spd = np.float32([[2, 1], [1, 3]])
    found = again(exported_of(lambda a, b: (jnp.linalg.solve(a, b), jnp.linalg.eigh(a)[0]), spd, X))
    solved, values = found.call(spd, X)
    np.testing.assert_allclose(spd @ solved, X, atol=1e-5)
    np.testing.assert_allclose(values, np.linalg.eigvalsh(spd), rtol=1e-5)


def test_an_exported_function_within_another():
    inner = again(exported_of(lambda x: jnp.sin(x), X, platforms=("cpu", "tpu")), vjp_order=1)
    outer = again(exported_of(lambda x: inner.call(x) * 2 + inner.call(x + 1), X), vjp_order=1)
    np.testing.assert_allclose(outer.call(X), 2 * np.sin(X) + np.sin(X + 1), rtol=1e-5)
    pulled = kiln.grad(lambda x: outer.call(x).sum())(X)
    np.testing.assert_allclose(pulled, 2 * np.cos(X) + np.cos(X + 1), rtol=1e-5)
    with pytest.raises(ValueError, match="it is used on 'cuda'"):
        exported_of(inner.call, X, platforms=("cuda",))


def test_pickles():
    made = pickle.loads(pickle.dumps(exported_of(lambda x: x + 1, X)))
    np.testing.assert_array_equal(made.call(X), X + 1)


class TestPlatforms:
    def test_within_others(self):
        inner = again(exported_of(lambda x: x + 1, X, platforms=("cuda", "tpu", "cpu")))
        outer = again(exported_of(lambda x: inner.call(x) * 2, X, platforms=("cpu", "tpu")))
        assert "stablehlo.case" in outer.mlir_module()
        np.testing.assert_array_equal(outer.call(X), 2 * X + 2)
        (struct,) = export.symbolic_args_specs((X,), "b + 1, _")
        sized = again(exported_of(lambda x: inner.call(x[:2]), struct, platforms=("cpu", "tpu")))
        np.testing.assert_array_equal(sized.call(np.vstack([X, X])), X + 1)

    def test_functions_for_each(self):
        def f(x):
            return x + lax.platform_dependent(
                x, tpu=lambda x: 3 * x, cuda=jnp.sin, default=lambda x: 2 * x
            )

        made = exported_of(f, X, platforms=("tpu", "cpu", "cuda"))
        assert "stablehlo.sine" in made.mlir_module()
        loaded = again(made, vjp_order=1)
        np.testing.assert_allclose(loaded.call(X), 3 * X)
        np.testing.assert_allclose(kiln.grad(lambda x: loaded.call(x).sum())(X), np.full_like(X, 3))
        np.testing.assert_allclose(kiln.jit(f)(X), 3 * X)
        checks = [export.DisabledSafetyCheck.platform()]
        for_tpu = exported_of(f, X, platforms=("tpu",), checks=checks)
        np.testing.assert_allclose(for_tpu.call(X), 4 * X)
        (struct,) = export.symbolic_args_specs((X,), "b, _")
        sized = again(exported_of(kiln.jit(f), struct, platforms=("cuda", "cpu")))
        np.testing.assert_allclose(sized.call(X[:1]), 3 * X[:1])
        with pytest.raises(NotImplementedError, match="no function for the platform tpu"):
            exported_of(lambda x: lax.platform_dependent(x, cpu=jnp.sin), X, platforms=("tpu",))

    def test_functions_of_kiln_need_not_be_jitted(self):
        np.testing.assert_allclose(export.export(jnp.sin)(X).call(X), np.sin(X), rtol=1e-5)

    def test_several(self):
        made = exported_of(lambda x: x + 1, X, platforms=("tpu", "cuda", "cpu"))
        assert made.uses_global_constants and "_platform_index" in made.mlir_module()
        np.testing.assert_array_equal(again(made).call(X), X + 1)

    def test_others_are_refused(self):
        made = exported_of(lambda x: x + 1, X, platforms=("tpu",))
        with pytest.raises(
            ValueError, match="exported for platforms '\\('tpu',\\)' but it is used"
        ):
            again(made).call(X)

    def test_others_may_be_allowed(self):
        checks = [export.DisabledSafetyCheck.platform()]
        made = exported_of(lambda x: x + 1, X, platforms=("tpu",), checks=checks)
        np.testing.assert_array_equal(again(made).call(X), X + 1)

    @pytest.mark.parametrize("platforms", [("gpu",), (), ("cpu", "cpu"), ("abacus", "cpu")])
    def test_unknown_ones(self, platforms):
        with pytest.raises(ValueError, match="distinct, from cpu, cuda, rocm, tpu"):
            export.export(kiln.jit(jnp.sin), platforms=platforms)

    def test_routines_of_one_platform(self):
        with pytest.raises(UnsupportedPrimitive, match=r"lapack_\w+, a routine of LAPACK"):
            exported_of(jnp.linalg.inv, jnp.eye(2), platforms=("cpu", "tpu"))

    @pytest.mark.parametrize("dtype", [np.float32, np.complex64])
    def test_solvers_of_all_platforms(self, dtype):
        draws = np.random.default_rng(0).normal(size=(2, 2, 3, 3)).astype(dtype)
        a, b = draws[0] + (1j * draws[1] if dtype is np.complex64 else 0), draws[1]
        positive = a @ a.mT.conj() + np.eye(3, dtype=dtype)

        def solved(positive, a, b):
            flags = itertools.product((False, True), repeat=5)
            return lax.linalg.cholesky(positive), [
                lax.linalg.triangular_solve(
                    a, b, left_side=s, lower=l, transpose_a=t, conjugate_a=c, unit_diagonal=u
                )
                for s, l, t, c, u in flags
            ]

        made = exported_of(solved, positive, a, b, platforms=("cpu", "tpu"))
        assert "lapack" not in made.mlir_module()
        expected = kiln.jit(solved)(positive, a, b)
        found = again(made).call(positive, a, b)
        for x, y in zip(kiln.tree.leaves(found), kiln.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-4)

    @pytest.mark.parametrize(
        ("fun", "routines"),
        [
            (jnp.linalg.inv, "getrf"),
            (jnp.linalg.qr, "geqrf orgqr"),
            (jnp.linalg.cholesky, "potrf"),
            (jnp.linalg.eigh, "syevd"),
            (jnp.linalg.svd, "gesvdj"),
        ],
    )
    def test_routines_for_nvidia(self, fun, routines):
        # tests/gpu runs them.
        text = exported_of(fun, jnp.eye(4), platforms=("cuda",)).mlir_module()
        found = set(re.findall(r"custom_call @(\w+)", text))
        assert found == {f"cusolver_{name}_ffi" for name in routines.split()}

    def test_the_default(self):
        assert export.default_export_platform() == "cpu"


class TestRefusals:
    def test_functions_that_are_not_jitted(self):
        with pytest.raises(ValueError, match="must be the result of `jit`"):
            export.export(lambda x: x)

    def test_lowering_rules(self):
        with pytest.raises(NotImplementedError, match="_override_lowering_rules"):
            export.export(kiln.jit(jnp.sin), _override_lowering_rules=[(1, 2)])

    @pytest.mark.parametrize(
        "fun",
        [
            lambda x: kiln.debug.print("{}", x),
            lambda x: kiln.pure_callback(np.sin, kiln.ShapeDtypeStruct((2, 3), np.float32), x),
            lambda x: kiln.debug.callback(lambda _: None, x, ordered=True),
        ],
    )
    def test_calls_of_python(self, fun):
        with pytest.raises(NotImplementedError, match="Python functions, which"):
            exported_of(fun, X)

    def test_another_structure(self):
        found = again(exported_of(lambda x, y: x, {"a": X}, y=X))
        with pytest.raises(ValueError, match=r"at args\[0\], .*keys \['a'\].*keys \['b'\] now"):
            found.call({"b": X}, y=X)
        with pytest.raises(ValueError, match="at kwargs"):
            found.call({"a": X}, z=X)

    def test_other_calling_conventions(self):
        stored = to_bytes(from_bytes(bytes(exported_of(jnp.sin, X).serialize()))[0])
        table = read(stored, "Exported")
        for version in (8, 11):
            table["calling_convention_version"] = version
            with pytest.raises(
                ValueError, match=r"outside the range of supported versions \[9..10"
            ):
                export.deserialize(write(table, "Exported"))

    def test_effects(self):
        table = read(bytes(exported_of(jnp.sin, X).serialize()), "Exported")
        table["ordered_effects"] = [{"name": "<class 'Mine'>"}]
        with pytest.raises(
            NotImplementedError, match="cannot deserialize effect type <class 'Mine'"
        ):
            export.deserialize(write(table, "Exported"))

    @pytest.mark.parametrize("stored", [b"", b"abcd", bytes(100), b"\xff" * 64])
    def test_bytes_that_are_none(self, stored):
        with pytest.raises(ValueError, match=r"not what Exported\.serialize"):
            export.deserialize(stored)

    @pytest.mark.parametrize("size", ["-" * 100_000 + "1", "floordiv(4, 0)", "1" + "+1" * 2_000])
    def test_sizes_that_are_none(self, size):
        table = read(bytes(exported_of(jnp.sin, X).serialize()), "Exported")
        for each in table["types"] + table["in_avals"]:
            each["shape"] = [size]
        with pytest.raises(ValueError, match="loading an exported program with the shape"):
            export.deserialize(write(table, "Exported"))

    def test_modules_that_are_none(self):
        table = read(bytes(exported_of(jnp.sin, X).serialize()), "Exported")
        table["module"] = b"ML\xefRnonsense"
        with pytest.raises(ValueError, match="not portable StableHLO"):
            export.deserialize(write(table, "Exported"))
        # With a checksum, its writer is believed.
        broken = export.deserialize(with_checksum(write(table, "Exported")))
        with pytest.raises(ValueError, match="its StableHLO cannot be used"):
            broken.call(X)
        with pytest.raises(ValueError, match="not portable StableHLO"):
            broken.mlir_module()

    @pytest.mark.parametrize(
        ("begin", "end", "why"),
        [
            (0, -1, "checksum is missing"),
            (0, -SIZE, "checksum is missing"),
            (8, None, "something has changed them"),
            (0, -SIZE - 1, "checksum is missing"),
        ],
    )
    def test_a_part(self, begin, end, why):
        stored = bytes(exported_of(jnp.sin, X).serialize())
        with pytest.raises(ValueError, match=why):
            export.deserialize(stored[begin:end])

    def test_another_number_in_the_program(self):
        stored = bytearray(exported_of(lambda x: x + 3, X).serialize())
        at = stored.index(np.float32(3).tobytes())
        stored[at : at + 4] = np.float32(5).tobytes()
        with pytest.raises(ValueError, match="something has changed them"):
            export.deserialize(stored)


@pytest.mark.parametrize("names", [("kept",), ("out_types", "out_avals", "out_sharding_numbers")])
def test_a_module_of_another_number_of_arrays(names):
    table = read(bytes(exported_of(lambda x, y: (x + y, x), X, X).serialize()), "Exported")
    for name in names:
        table[name] = table[name][:1]
    if len(names) > 1:
        table["out_tree"]["children"] = table["out_tree"]["children"][:1]
        table["out_shardings"] = table["out_shardings"][:1]
    loaded = export.deserialize(with_checksum(write(table, "Exported")))
    with pytest.raises(ValueError, match="its StableHLO cannot be used") as caught:
        loaded.call(X, X)
    assert str(caught.value).count("\n") == 2
