"""What surrounds a call of a Python function by a compiled program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
from kiln.control.effects.host_call import TEXT, as_declared, called, described

FLOAT = np.dtype(np.float32)
X = np.arange(3, dtype=FLOAT)


def test_the_function_gets_copies() -> None:
    lent = X.copy()

    def spoil(x: np.ndarray) -> list[np.ndarray]:
        x += 1
        return [x]

    (out,) = called(spoil, [lent], [((3,), FLOAT)])
    assert out.tolist() == [1, 2, 3]
    assert lent.tolist() == [0, 1, 2]


def test_no_transformation_is_in_force() -> None:
    seen: list[Any] = []

    def compute(x: np.ndarray) -> list[Any]:
        seen.append(kiln.numpy.sin(x))
        return []

    @kiln.jit
    def traced(y: Any) -> Any:
        assert called(compute, [X], []) == []
        return y

    traced(1.0)
    np.testing.assert_allclose(np.asarray(seen[0]), np.sin(X), 1e-6)


def test_nothing_returned_is_no_results() -> None:
    assert called(lambda: None, [], []) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], r"a callback returned 0 values\n1 were declared"),
        ([X, X], "a callback returned 2 values"),
        ([X[:2]], r"Incorrect output shape for return value #0: Expected: \(3,\), Actual: \(2,\)"),
        ([X.astype(np.int32)], "Incorrect output dtype for return value #0"),
    ],
)
def test_results_of_other_types_are_refused(values: list[Any], message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        as_declared(values, [((3,), FLOAT)])


def test_results_become_contiguous_arrays_of_the_declared_dtype() -> None:
    wide = np.arange(12.0).reshape(3, 4).T[:3, :3]
    (out,) = as_declared([wide], [((3, 3), FLOAT)])
    assert out.dtype == FLOAT
    assert out.flags.c_contiguous
    assert out.tolist() == wide.tolist()


def failing(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001
        return raised


def test_a_failure_is_told_without_what_it_refers_to() -> None:
    error = KeyError("who", 3)
    error.held, error.count = np.ones(3), 7  # type: ignore[attr-defined]
    failure = described(failing(error))
    again = failure.error()
    assert isinstance(again, KeyError)
    assert again is not error
    assert again.args == ("who", 3)
    assert vars(again) == {"count": 7}
    assert again.__traceback__ is None
    assert "KeyError: ('who', 3)" in failure.text


def test_arguments_that_refer_to_values_become_text() -> None:
    failure = described(failing(ValueError(X)))
    assert failure.args == (str(X),)
    assert described(failing(FileNotFoundError(2, "no", "a.txt"))).error().filename == "a.txt"  # type: ignore[attr-defined]


def test_long_texts_are_shortened() -> None:
    failure = described(failing(ValueError("a" * 3 * TEXT)))
    assert len(failure.text) < TEXT + 10
    assert len(failure.args[0]) < TEXT + 10


def test_a_class_that_cannot_be_told_is_named() -> None:
    class Odd(Exception):
        def __new__(cls, *args: Any) -> Odd:
            if args:
                return super().__new__(cls)
            raise TypeError

        def __str__(self) -> str:
            raise ValueError

    failure = described(failing(Odd(1)))
    assert "Odd, whose text cannot be had: ValueError" in failure.text
