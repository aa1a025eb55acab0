"""Reading and writing references, in eager code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import ref as refs


def test_parts_are_read_and_written() -> None:
    ref = kiln.new_ref(np.arange(6.0).reshape(2, 3))
    ref[0] = jnp.ones(3)
    ref[1, 2] += 4
    ref[:, 1] *= 2
    ref.addupdate(jnp.ones(2), (slice(None), 0))
    assert ref[...].tolist() == [[2, 2, 1], [4, 8, 9]]
    assert refs.get(ref, (1, slice(1, None))).tolist() == [8, 9]
    assert float(refs.swap(ref, (0, 0), -1.0)) == 2
    assert refs.freeze(ref)[0].tolist() == [-1, 2, 1]


def test_what_was_read_stays() -> None:
    ref = kiln.new_ref(jnp.zeros(3))
    before = ref[...]
    ref[0] = 1.0
    assert before.tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("value", "dtype"),
    [(1, "float32"), (1.5, "int32"), (True, "int32"), (np.float16(1), "float32")],
)
def test_values_have_the_dtype(value: Any, dtype: str) -> None:
    with pytest.raises(ValueError, match="Invalid dtype"):
        kiln.new_ref(jnp.zeros((), dtype))[...] = value


@pytest.mark.parametrize(("value", "dtype"), [(2, "int8"), (2.5, "float16"), (2.5, "bfloat16")])
def test_python_numbers_take_it(value: Any, dtype: str) -> None:
    ref = kiln.new_ref(jnp.zeros(2, dtype))
    ref[1] = value
    assert ref[...].dtype == dtype
    assert float(ref[1]) == value


def test_values_have_the_shape() -> None:
    with pytest.raises(ValueError, match="Invalid shape"):
        kiln.new_ref(jnp.zeros(3))[...] = 1.0


def test_keys_are_held() -> None:
    ref = kiln.new_ref(kiln.random.key(0))
    key, ref[...] = kiln.random.split(ref[...])
    assert ref.dtype == key.dtype


def test_types_are_kept() -> None:
    ref = kiln.new_ref(1.0)
    ref[...] += np.float32(1)
    assert ref[...].aval == ref.aval.inner_aval


def test_options_of_new_ref() -> None:
    assert kiln.new_ref(1, kind="no_grad_no_remat")[...] == 1
    with pytest.raises(NotImplementedError, match="memory_space"):
        kiln.new_ref(1, memory_space="vmem")
    with pytest.raises(TypeError, match="holds one array"):
        kiln.new_ref([1, 2])


def test_empty_and_free() -> None:
    ref = kiln.empty_ref(kiln.ShapeDtypeStruct((2,), jnp.int32))
    assert ref[...].tolist() == [0, 0]
    assert kiln.free_ref(ref) is None


@pytest.mark.parametrize("function", [refs.get, refs.freeze, refs.free_ref])
def test_only_references_are_read(function: Any) -> None:
    with pytest.raises(ValueError, match="on a `Ref`"):
        function(jnp.ones(2))


def test_without_jit() -> None:
    ref = kiln.new_ref(jnp.zeros(3))

    @kiln.jit
    def f(ref: Any) -> Any:
        kiln.lax.fori_loop(0, 3, lambda i, _: ref.addupdate(1.0, i), None)
        return ref[0]

    with kiln.disable_jit():
        assert float(f(ref)) == 1
    assert ref[...].tolist() == [1, 1, 1]


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
def test_a_freed_reference_is_not_used_again(through: Any) -> None:
    def read(x: Any) -> Any:
        ref = kiln.new_ref(x)
        kiln.free_ref(ref)
        return ref[...]

    def freed_twice(x: Any) -> Any:
        ref = kiln.ref.empty_ref(kiln.ShapeDtypeStruct((), jnp.float32))
        ref[...] = x
        out = ref[...]
        kiln.free_ref(ref)
        kiln.free_ref(ref)
        return out

    for fun in (read, freed_twice):
        with pytest.raises(ValueError, match="freed by free_ref"):
            through(fun)(1.0)


def test_references_say_where_their_arrays_are() -> None:
    ref = kiln.new_ref(jnp.ones(4))
    assert ref.sharding == ref[...].sharding
    seen = []
    kiln.jit(lambda ref: seen.append(ref.sharding.spec))(ref)
    assert seen == [kiln.P(None)]
