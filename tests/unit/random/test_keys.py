"""Keys as users meet them: both kinds, in containers, loops and transformations."""

from __future__ import annotations

import operator
import pickle
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.base.options.config import override
from kiln.ops.random.random_bits import RandomFoldIn, RandomSplit
from kiln.random.keys import REPEATED


def words(key: Any) -> list[Any]:
    return np.asarray(random.key_data(key)).tolist()


@pytest.mark.parametrize(
    "seed", [0, 5, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40 + 7, 2**63 - 1, -1, -(2**63)]
)
@pytest.mark.parametrize("wide", [False, True])
def test_the_words_of_a_seed(seed: int, wide: bool) -> None:
    """The high word is that of an int64; without 64-bit types it is 0."""
    expected = [seed >> 32 & 0xFFFFFFFF if wide else 0, seed & 0xFFFFFFFF]
    with kiln.enable_x64(wide):
        assert words(random.key(seed)) == words(random.PRNGKey(seed)) == expected
        assert words(kiln.jit(lambda: random.key(seed))()) == expected


@pytest.mark.parametrize(
    "use",
    [
        int,
        float,
        complex,
        bool,
        operator.index,
        np.asarray,
        lambda key: key.item(),
        lambda key: key.tolist(),
        lambda key: key.tobytes(),
        jnp.zeros,
        jnp.arange,
        jnp.sum,
        lambda key: lax.dot(random.split(key), random.split(key)),
        lambda key: lax.top_k(random.split(key), 1),
    ],
)
def test_keys_are_no_numbers(use: Any) -> None:
    with pytest.raises(TypeError):
        use(random.key(0))


def test_both_kinds_give_one_stream() -> None:
    typed, raw = random.key(3), random.PRNGKey(3)
    assert (typed.shape, str(typed.dtype)) == ((), "key<fry>")
    assert (raw.shape, str(raw.dtype)) == ((2,), "uint32")
    assert random.split(raw).dtype == np.uint32
    assert jnp.issubdtype(random.split(typed).dtype, kiln.dtypes.prng_key)
    for make in (random.split, lambda k: random.fold_in(k, 7), random.clone):
        assert words(make(typed)) == words(make(raw))
    np.testing.assert_array_equal(random.normal(typed, (5,)), random.normal(raw, (5,)))
    assert random.key_impl(raw) == random.key_impl(typed) == "threefry2x32"
    assert words(random.wrap_key_data(raw)) == words(typed)


def test_arrays_of_keys_are_arrays() -> None:
    keys = random.split(random.key(0), (2, 3))
    first, second = keys
    assert first.shape == second.shape == (3,)
    assert words(keys[1, -1]) == words(second)[-1]
    assert words(jnp.concatenate([first, second])) == words(keys.reshape(6))
    assert words(jnp.where(True, first, second)) == words(first)
    assert words(keys.T[2]) == [words(first)[2], words(second)[2]]
    assert words(keys[jnp.array([1, 0])]) == words(jnp.stack([second, first]))


def test_keys_pass_through_transformations_and_loops() -> None:
    key = random.key(0)
    keys = random.split(key, 4)
    one_by_one = [np.asarray(random.normal(k, (2,))) for k in keys]
    mapped = kiln.vmap(lambda k: random.normal(k, (2,)))(keys)
    np.testing.assert_array_equal(mapped, one_by_one)
    assert words(kiln.jit(lambda k: random.split(k))(key)) == words(random.split(key))
    folded = kiln.vmap(random.fold_in, (None, 0))(key, jnp.arange(3))
    assert words(folded) == [words(random.fold_in(key, i)) for i in range(3)]
    seeded = kiln.vmap(random.key)(jnp.arange(3))
    assert words(seeded) == [words(random.key(i)) for i in range(3)]
    last, drawn = lax.scan(lambda k, _: (random.split(k)[0], random.uniform(k)), key, None, 3)
    expected = key
    for i in range(3):
        assert drawn[i] == random.uniform(expected)
        expected = random.split(expected)[0]
    assert words(last) == words(expected)
    chosen = lax.cond(jnp.array(True), lambda k: random.fold_in(k, 1), lambda k: k, key)
    assert words(chosen) == words(random.fold_in(key, 1))


def test_keys_have_no_arithmetic_and_no_gradient() -> None:
    key = random.key(0)
    with pytest.raises(TypeError):
        key + 1
    with pytest.raises(TypeError, match="key<fry>"):
        kiln.grad(lambda k: random.normal(k))(key)
    x, back = kiln.vjp(lambda k, x: random.normal(k) * x, key, 2.0)
    none, slope = back(jnp.ones_like(x))
    assert none.dtype == kiln.dtypes.float0
    assert slope == random.normal(key)


@pytest.mark.parametrize(
    ("use", "kind", "message"),
    [
        (lambda: random.normal(3), TypeError, "normal: key 3 .*\nunexpected PRNG key type"),
        (lambda: random.normal([0, 1]), TypeError, "unexpected PRNG key type <class 'list'>"),
        (lambda: random.uniform(random.split(random.key(0))), ValueError, "^uniform: key.*\nunif"),
        (lambda: random.split(jnp.zeros(2)), TypeError, "^split: key data float32"),
        (lambda: random.fold_in(random.key(0), -1), OverflowError, "out of bounds for uint32"),
        (lambda: random.key(2**63), OverflowError, "too large"),
        (lambda: random.key("a"), TypeError, "PRNG key seed must be an integer"),
        (lambda: random.key(0, impl="md5"), ValueError, 'unrecognized PRNG implementation "md5"'),
        (lambda: random.key(0, impl=3), TypeError, "unrecognized type <class 'int'>"),
        (lambda: random.wrap_key_data(random.key(0)), TypeError, "invalid PRNG key data"),
    ],
)
def test_errors_name_the_function(use: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        use()


@pytest.mark.parametrize("name", ["threefry2x32", "rbg"])
def test_keys_are_made_part_by_part(name: str) -> None:
    mesh = kiln.make_mesh((4,), ("x",), devices=kiln.devices()[:4])
    sharding = kiln.sharding.NamedSharding(mesh, kiln.sharding.PartitionSpec("x"))
    keys = random.split(random.key(3, impl=name), 8)
    made = kiln.make_array_from_callback((8,), sharding, lambda index: keys[index])
    assert made.dtype == keys.dtype
    assert made.sharding == sharding
    assert words(made) == words(keys)


def test_raw_keys_are_those_of_the_default_generator() -> None:
    with override(default_prng_impl="rbg"):
        raw, typed = random.PRNGKey(3), random.key(3)
        assert (raw.shape, str(typed.dtype), random.key_impl(raw)) == ((4,), "key<rbg>", "rbg")
        assert words(random.split(raw)) == words(random.split(typed))
        drawn = kiln.jit(random.normal)(raw)
        np.testing.assert_array_equal(drawn, random.normal(typed))
        with pytest.raises(TypeError, match=r"end with \(4,\); got shape=\(2,\) for impl=rbg"):
            random.normal(np.zeros(2, np.uint32))
    with pytest.raises(TypeError, match=r"end with \(2,\); got shape=\(4,\)"):
        random.normal(raw)
    # A program that was made with another default draws other numbers.
    np.testing.assert_array_equal(kiln.jit(random.normal)(raw[:2]), random.normal(raw[:2]))


@pytest.mark.parametrize("name", ["philox2x32", "philox4x32", "threefry4x32", "rbg"])
def test_keys_of_other_generators_print_and_survive_pickling(name: str) -> None:
    key = random.key(3, impl=name)
    assert repr(key).startswith(f"Array((), dtype={key.dtype}) overlaying:\n[")
    again = pickle.loads(pickle.dumps(random.split(key, 3)))
    assert again.dtype == key.dtype != random.key(3).dtype
    assert words(again) == words(random.split(key, 3))
    assert random.key_impl(again) == name
    with pytest.raises(TypeError):
        jnp.concatenate([again, random.split(random.key(3))])


@pytest.mark.parametrize("named", ["threefry2x32", random.key_dtype()])
def test_a_generator_may_be_named_by_its_dtype(named: Any) -> None:
    words = random.key_data(random.key(3, dtype=named))
    assert words.tolist() == [0, 3]
    assert random.wrap_key_data(words, dtype=named).dtype == random.key_dtype()
    for make in (
        lambda **how: random.key(3, **how),
        lambda **how: random.wrap_key_data(words, **how),
    ):
        with pytest.raises(ValueError, match="Cannot specify both `impl` and `dtype`"):
            make(impl="threefry2x32", dtype=named)
        with pytest.raises(ValueError, match="unrecognized PRNG implementation"):
            make(dtype="md5")


@pytest.mark.parametrize("make", [random.key, random.PRNGKey])
@pytest.mark.parametrize(
    "derive",
    [
        random.split,
        lambda key: random.split(key, (2, 3)),
        lambda key: random.fold_in(key, 7),
    ],
)
def test_what_is_derived_often_is_compiled(
    make: Any, derive: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same keys, of the same kind, before and after."""
    first = derive(make(11))
    for _ in range(REPEATED + 2):
        last = derive(make(11))
    assert (first.dtype, first.shape) == (last.dtype, last.shape)
    assert words(first) == words(last) == words(kiln.jit(derive)(make(11)))

    def meaning(*_: Any, **__: Any) -> Any:
        raise AssertionError

    monkeypatch.setattr(RandomSplit, "numpy", meaning)
    monkeypatch.setattr(RandomFoldIn, "numpy", meaning)
    assert words(derive(make(11))) == words(first)
    with pytest.raises(AssertionError):
        random.split(make(11), 1234)
