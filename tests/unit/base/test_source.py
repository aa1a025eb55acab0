"""Where the user's program is, and tracebacks without our frames."""

from __future__ import annotations

import functools
import linecache
import traceback

import pytest

from kiln.base.config import override
from kiln.base.source import (
    api_boundary,
    current_source,
    definition_of,
    filtered,
    is_internal,
    name_of,
)


def test_current_source_is_this_line() -> None:
    source = current_source()
    assert source is not None
    assert source.file == __file__
    assert source.function == "test_current_source_is_this_line"
    assert "current_source()" in linecache.getlines(__file__)[source.line - 1]
    assert str(source) == f"{__file__}:{source.line}"


def test_names_and_definitions() -> None:
    def user():
        pass

    assert name_of(functools.partial(functools.partial(user))) == "user"
    assert definition_of(user) == f"user at {__file__}:{user.__code__.co_firstlineno}"
    assert definition_of(functools.partial(user)).startswith("user at ")

    class Callable:
        def __call__(self):
            pass

    assert definition_of(Callable()).startswith("Callable at ")
    assert definition_of(len) == "len"


def test_boundary_hides_our_frames() -> None:
    @api_boundary
    def entry(fun):
        return fun()

    def user():
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as error:
        entry(user)
    files = [f.filename for f in traceback.extract_tb(error.value.__traceback__)]
    assert not any(is_internal(f) and "source.py" not in f for f in files)
    with override(full_traceback=True), pytest.raises(ValueError, match="mine") as error:
        entry(user)
    assert filtered(error.value.__traceback__) is not None
