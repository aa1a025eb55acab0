"""Calls whose sizes of named axes are new: recognized by the extension, or left to `_call`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import override


@pytest.fixture(autouse=True)
def _native() -> Iterator[None]:
    with override(engine="native"):
        yield


class Watched:
    """A jitted function, and how often its calls were left to `_call`."""

    def __init__(self, fun: Any, **options: Any) -> None:
        self.function = kiln.jit(fun, **options)
        self.slow = 0
        call = type(self.function)._call

        def counted(jitted: Any, args: Any, kwargs: Any) -> Any:
            self.slow += jitted is self.function
            return call(jitted, args, kwargs)

        self.counted = counted

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(self.function), "_call", self.counted)
            return self.function(*args, **kwargs)


def rows(*shape: int) -> Any:
    return jnp.asarray(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))


def test_new_sizes_do_not_reach_python() -> None:
    f = Watched(lambda x: x.sum(0) + x.shape[0], abstracted_axes=({0: "n"},))
    for n in (3, 4, 1, 4, 1000, 3):
        np.testing.assert_allclose(f(rows(n, 2)), np.asarray(rows(n, 2)).sum(0) + n, rtol=1e-6)
    assert f.slow == 1


def test_more_sizes_than_are_kept() -> None:
    f = kiln.jit(lambda x: x + 1, abstracted_axes=({0: "n"},))
    x = np.arange(5000, dtype=np.float32)
    for n in [*range(1, 5000), 1, 2, 3]:
        assert np.asarray(f(x[:n]))[-1] == n
    assert f.cache_info().traces == 1


def test_arrays_of_numpy_and_of_kiln_are_calls_of_two_kinds() -> None:
    f = Watched(lambda x: x * 2, abstracted_axes=({0: "n"},))
    for n in (2, 3, 4):
        np.testing.assert_array_equal(f(rows(n)), 2 * np.asarray(rows(n)))
        np.testing.assert_array_equal(f(np.asarray(rows(n))), 2 * np.asarray(rows(n)))
    assert f.slow == 2


def test_what_else_differs_is_left_to_python() -> None:
    f = Watched(lambda x: x * 2, abstracted_axes=({0: "n"},))
    f(rows(3, 2))
    before = f.slow
    others = (rows(3, 4), rows(3), rows(3, 2).astype(jnp.int32), rows(2, 2, 2), jnp.ones((0, 2)))
    for i, x in enumerate(others, 1):
        np.testing.assert_array_equal(f(x), 2 * np.asarray(x))
        assert f.slow == before + i
    f(rows(5, 2))
    assert f.slow == before + len(others)


def test_one_name_has_one_size_in_every_call() -> None:
    f = Watched(lambda x, y: x @ y, abstracted_axes=({1: "k", 0: "n"}, {0: "k"}))
    for n, k in ((2, 3), (4, 5), (5, 4)):
        np.testing.assert_allclose(f(rows(n, k), rows(k)), rows(n, k) @ rows(k))
    assert f.slow == 1
    with pytest.raises(ValueError, match=r"'k', but their sizes are 3 and 4"):
        f(rows(2, 3), rows(4))


def test_trees_keywords_and_static_arguments() -> None:
    f = Watched(
        lambda d, k, scale: scale * d["x"] + d["y"] + k,
        abstracted_axes=({"x": {0: "n"}, "y": {0: "n"}}, None, None),
        static_argnames="scale",
    )
    for n in (2, 3, 4):
        found = f({"x": rows(n), "y": rows(n)}, 1.5, scale=3)
        np.testing.assert_allclose(found, 4 * np.asarray(rows(n)) + 1.5)
    assert f.slow == 1
    np.testing.assert_allclose(f({"x": rows(2), "y": rows(2)}, 1.5, scale=4)[1], 6.5)
    assert f.slow == 2


def test_negative_axes_and_closed_over_arrays() -> None:
    weights = rows(3)
    f = Watched(lambda x: x * weights[:, None], abstracted_axes=({-1: "n"},))
    for n in (1, 2, 9):
        np.testing.assert_allclose(f(rows(3, n)), np.asarray(rows(3, n)) * np.arange(3)[:, None])
    assert f.slow == 1


def test_results_are_as_weakly_typed_as_ever() -> None:
    f = kiln.jit(lambda x: (x.shape[0], x), abstracted_axes=({0: "n"},))
    for n in (2, 3, 4):
        size, x = f(rows(n))
        assert (size.weak_type, x.weak_type) == (True, False)
        assert int(size) == n


def test_options_are_part_of_a_call() -> None:
    f = kiln.jit(lambda x: x / 0, abstracted_axes=({0: "n"},))
    f(rows(2))
    f(rows(3))
    with override(debug_infs=True), pytest.raises(FloatingPointError):
        f(rows(4))
