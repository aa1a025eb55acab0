"""The engine that links programs: what it is given and what it returns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.core.engines.linking import (
    Leaf,
    LinkedFunction,
    LinkingCompiler,
    Parameter,
    Unlinkable,
    linking_compiler,
)
from kiln.engines.native.library.archive import read_archive

ARRAY = np.ones(5, np.float32)


def _linked(function: Any, *args: Any, **options: Any) -> LinkedFunction:
    divided = kiln.jit(function, **options).trace(*args).divided_program()
    first = len(divided.constants)
    leaves = [Leaf(first + i) for i in range(len(divided.arguments))]
    results = [Leaf(None, i) for i in range(len(divided.program.jaxpr.outvars))]
    parameters = tuple([Parameter((leaf,), False) for leaf in [*leaves, *results]])
    return LinkedFunction("f", divided.program, divided.constants, parameters)


def test_the_compiler_links() -> None:
    compiler = linking_compiler()
    assert isinstance(compiler, LinkingCompiler)
    assert len(set(compiler.target_names())) == len(compiler.target_names()) >= 4


def test_a_linked_function() -> None:
    code = linking_compiler().link("m", [_linked(lambda x: jnp.sin(x) + 1, ARRAY)])
    assert code.target == linking_compiler().target_names()[0]
    assert code.public == (
        "f", "f_workspace_size", "m_create", "m_destroy", "m_error", "m_workspace_size",
    )  # fmt: skip
    assert code.workspaces == (0,)
    assert code.constant_bytes == 0
    assert not code.needs_blas
    assert [name for name, _ in read_archive(code.archive)][:2] == ["m.o", "f_code.o"]


def test_the_same_bytes_each_time() -> None:
    def link() -> bytes:
        return linking_compiler().link("m", [_linked(lambda x: x @ x, np.eye(20))]).archive

    assert link() == link()


def test_constants_that_are_read_are_embedded() -> None:
    used, unused = jnp.arange(7.0), jnp.arange(9.0)

    def f(x: Any) -> Any:
        return x.sum() * used, (x, unused)[0]

    code = linking_compiler().link("m", [_linked(f, ARRAY)])
    assert code.constant_bytes == used.nbytes


def test_reasons_why_programs_are_not_linked() -> None:
    function = _linked(lambda x: kiln.pure_callback(np.sin, x, x), ARRAY)
    with pytest.raises(Unlinkable) as error:
        linking_compiler().link("m", [function])
    assert "it calls 1 Python function" in error.value.reason
    assert "leave callbacks" in error.value.remedy


def test_arguments_are_numbered_as_they_are_passed() -> None:
    w = jnp.arange(3.0)

    def f(a: Any, b: Any, *, c: Any) -> Any:
        return b + w, c["x"]

    traced = kiln.jit(f, donate_argnames="c").trace(ARRAY[:3], b=ARRAY[:3], c={"x": ARRAY})
    divided = traced.divided_program()
    assert [value.tolist() for value in divided.constants] == [[0.0, 1.0, 2.0]]
    # `a` is not used.
    assert divided.arguments == (1, 2)
    assert divided.program.donated == (2,)
    assert traced.parameter_names == ("a", "b")
