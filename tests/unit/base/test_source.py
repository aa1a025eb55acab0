"""Where the user's program is, and tracebacks without our frames."""

from __future__ import annotations

import contextlib
import functools
import gc
import linecache
import sys
import traceback
import types
import weakref

import pytest

from kiln.base.errors import UnfilteredStackTrace
from kiln.base.options.config import override
from kiln.base.source import (
    api_boundary,
    current_source,
    definition_of,
    filtered,
    is_internal,
    name_of,
    shown_file,
)


def test_current_source_is_this_line() -> None:
    source = current_source()
    assert source is not None
    assert source.file == __file__
    assert source.function == "test_current_source_is_this_line"
    assert "current_source()" in linecache.getlines(__file__)[source.line - 1]
    assert str(source) == f"{__file__}:{source.line}"


def test_a_cell_of_a_notebook_is_known_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def format_code_name(file: str) -> tuple[str, str] | None:
        return ("Cell", "In[3]") if file == __file__ else None

    shell = types.SimpleNamespace(compile=types.SimpleNamespace(format_code_name=format_code_name))
    module = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", module)
    source = current_source()
    assert source is not None and str(source) == f"In[3]:{source.line}"
    assert definition_of(format_code_name).startswith("format_code_name at In[3]:")
    assert shown_file(linecache.__file__) == linecache.__file__


def test_a_process_without_notebook_names_files(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.SimpleNamespace(get_ipython=lambda: None)
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert shown_file("a.py") == "a.py"


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


@api_boundary
def _outer(fun):
    return _inner(fun)


@api_boundary
def _inner(fun):
    return fun()


def _fails():
    raise ValueError("mine")


def _failure(how: str) -> ValueError:
    with override(traceback_filtering=how), pytest.raises(ValueError, match="mine") as caught:
        _outer(_fails)
    return caught.value


def _internal_frames(error: BaseException) -> list[types.FrameType]:
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [x for x in frames if is_internal(x.f_code.co_filename)]


def test_frames_are_removed_with_the_whole_traceback_as_the_cause() -> None:
    error = _failure("remove_frames")
    assert not _internal_frames(error)
    assert type(error.__cause__) is UnfilteredStackTrace
    # The inner boundary leaves them to the outer one.
    assert len(_internal_frames(error.__cause__)) == 2
    assert error.__cause__.__cause__ is None


def test_the_cause_of_an_error_becomes_that_of_its_whole_traceback() -> None:
    def fails():
        raise ValueError("mine") from KeyError("first")

    with override(traceback_filtering="remove_frames"), pytest.raises(ValueError) as caught:
        _outer(fails)
    whole = caught.value.__cause__
    assert type(whole) is UnfilteredStackTrace
    assert type(whole.__cause__) is KeyError


def test_frames_are_removed_with_one_note() -> None:
    error = _failure("quiet_remove_frames")
    assert not _internal_frames(error)
    (note,) = error.__notes__
    assert note.startswith("For simplicity")
    assert "KILN_FULL_TRACEBACK=1" in note


def test_frames_are_marked() -> None:
    error = _failure("tracebackhide")
    assert _internal_frames(error)
    assert all("__tracebackhide__" in frame.f_locals for frame in _internal_frames(error))


@pytest.mark.parametrize("how", ["off", "full"])
def test_all_frames_are_kept(how: str) -> None:
    if how == "full":
        with override(full_traceback=True), pytest.raises(ValueError, match="mine") as caught:
            _outer(_fails)
        error = caught.value
    else:
        error = _failure(how)
    assert len(_internal_frames(error)) == 2
    assert error.__cause__ is None


@pytest.mark.parametrize("how", ["auto", "tracebackhide", "remove_frames", "quiet_remove_frames"])
def test_errors_leave_no_cycles(how: str) -> None:
    class Held:
        def __call__(self):
            raise ValueError("mine")

    held = Held()
    alive = weakref.ref(held)
    gc.collect()
    gc.disable()
    try:
        with override(traceback_filtering=how):
            with contextlib.suppress(ValueError):
                _outer(held)
            del held
        assert alive() is None
    finally:
        gc.enable()
