"""Every public function is compared with jax by a case to which jax answers with values."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np
import pytest

import kiln
from tests.differential.oracle import Case, ask, topics
from tests.differential.recorder import called

SURFACES = (
    *("numpy", "numpy.linalg", "numpy.fft", "nn", "nn.initializers", "random"),
    *("lax", "lax.linalg"),
)
# Dotted names below kiln, and why no case of jax's can speak of them.
EXCEPTIONS: dict[str, str] = {
    "lax.DotDimensionNumbers": "a type",
    "lax.linalg.geqrf": "jax has no public name for it; qr and householder_product are compared",
    "numpy.array_repr": "jax prints the name of a class of its own",
    "numpy.ascontiguousarray": "jax does not have it",
    "numpy.fix": "jax does not have it any more",
    "numpy.fromiter": "jax refuses it",
    "numpy.fromfile": "jax refuses it",
    "random.key_impl": "returns no array",
    "lax.pbroadcast": "jax's fails under vmap; unit tests compare it under shard_map",
}
EXCEPTIONS |= dict.fromkeys(("numpy.load", "numpy.save", "numpy.savez"), "about a file")
EXCEPTIONS |= dict.fromkeys(
    ("numpy.get_printoptions", "numpy.set_printoptions", "numpy.printoptions"), "NumPy's own"
)
# With 64-bit types the families of arrays are compared again.
IN_X64 = ("numpy", "numpy.linalg", "numpy.fft")


def _functions(surface: str) -> set[str]:
    module = importlib.import_module(f"kiln.{surface}")
    names = getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]
    return {
        f"{surface}.{name}"
        for name in names
        if callable(getattr(module, name)) and not isinstance(getattr(module, name), type)
    }


@functools.cache
def _compared() -> dict[str, frozenset[str]]:
    """Return what the cases of each topic call, where jax raises no error."""
    return {
        name: frozenset().union(
            *(called(case) for case in topic.cases if not topic.answers()[case.id].error)
        )
        for name, topic in topics().items()
    }


@pytest.mark.parametrize("surface", SURFACES)
def test_every_function_is_compared(surface: str) -> None:
    compared = frozenset().union(*_compared().values())
    assert sorted(_functions(surface) - compared - set(EXCEPTIONS)) == []


@pytest.mark.parametrize("surface", IN_X64)
def test_every_function_is_compared_with_64_bits(surface: str) -> None:
    assert sorted(_functions(surface) - _compared()["x64"] - set(EXCEPTIONS)) == []


def test_exceptions_are_exceptions() -> None:
    compared = frozenset().union(*_compared().values())
    functions = set().union(*map(_functions, SURFACES))
    assert sorted(set(EXCEPTIONS) & compared) == []
    assert sorted(set(EXCEPTIONS) - functions) == []


def test_stored_answers_are_those_of_the_cases() -> None:
    for name, topic in topics().items():
        assert set(topic.answers()) == {case.id for case in topic.cases}, name


def test_recorder_notes_what_a_case_calls() -> None:
    """A call inside a function counts, a name alone does not."""

    def run(lib: Any) -> Any:
        _ = lib.numpy.tan
        x = lib.numpy.asarray(np.ones(2))
        return lib.vmap(lambda y: lib.numpy.sin(y) + 1)(lib.lax.reduce(x, 0, lib.lax.add, (0,)))

    expected = {"numpy.asarray", "vmap", "numpy.sin", "lax.reduce", "lax.add"}
    assert called(Case("", "", run)) == expected


def test_a_mistake_of_a_case_is_no_answer() -> None:
    """What the library raises is one, what the test's own code raises is not."""

    def run(lib: Any) -> Any:
        return lib.numpy.ones(2)[None, ...].shape["a"]

    wrong = Case("", "", run)
    assert ask(wrong, kiln).error
    with pytest.raises(TypeError):
        ask(wrong, kiln, own=True)
