"""Progress bars: on terminals, in notebooks, in compiled loops, and nowhere else."""

from __future__ import annotations

import io
import sys
import types
from xml.etree import ElementTree

import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.api.debugging import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook:
    """What IPython has in a notebook: a shell with a kernel, and displays that change."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def display(self, shown, *, display_id):
        assert display_id
        self.update(shown)
        return self

    def update(self, shown):
        self.shown.append(shown._repr_html_())

    def bars(self) -> list[tuple[int, int]]:
        """Return the values and maxima of all drawings."""
        found = [ElementTree.fromstring(each).find("progress") for each in self.shown]
        return [(int(each.get("value")), int(each.get("max"))) for each in found]


@pytest.fixture
def notebook(monkeypatch):
    found = Notebook()
    shell = types.SimpleNamespace(kernel=object())
    module = types.SimpleNamespace(
        get_ipython=lambda: shell, display=types.SimpleNamespace(display=found.display)
    )
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setattr(progress, "_EVERY_S", 0.0)
    return found


def test_a_terminal_shows_a_bar(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    # Not in a fixture: pytest captures standard error anew for each phase of a test.
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    assert list(kiln.debug.track("abc", "letters")) == ["a", "b", "c"]
    assert "letters" in terminal.getvalue() and "3/3" in terminal.getvalue()


def test_a_file_shows_none(monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert list(kiln.debug.track(range(3))) == [0, 1, 2]
    assert sys.stderr.getvalue() == ""


def test_a_shell_on_a_terminal_is_not_a_notebook(monkeypatch):
    module = types.SimpleNamespace(get_ipython=lambda: types.SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", module)
    assert progress.notebook_display() is None


def test_a_notebook_shows_one_bar_that_grows(notebook):
    list(kiln.debug.track(range(4), "<steps>"))
    assert notebook.bars()[0] == (0, 4) and notebook.bars()[-1] == (4, 4)
    assert sorted(notebook.bars()) == notebook.bars()
    assert "&lt;steps&gt;" in notebook.shown[-1] and "4/4" in notebook.shown[-1]


def test_drawings_are_rare(notebook, monkeypatch):
    monkeypatch.setattr(progress, "_EVERY_S", 1000.0)
    list(kiln.debug.track(range(1000)))
    assert len(notebook.shown) <= 5


def test_a_bar_stops_where_the_loop_does(notebook):
    for item in kiln.debug.track(range(10)):
        if item == 3:
            break
    assert notebook.bars()[-1] == (3, 10)


def test_a_total_may_be_given(notebook):
    assert list(kiln.debug.track(iter("ab"), total=2)) == ["a", "b"]
    assert notebook.bars()[-1] == (2, 2)


def test_an_iterator_without_one_is_an_error():
    with pytest.raises(TypeError, match=r"track\(items, total=100\)"):
        kiln.debug.track(iter("ab"))


@kiln.jit
def _loop(x):
    def body(i, carry):
        kiln.debug.tick(i, 500, "looping")
        return carry + x

    return lax.fori_loop(0, 500, body, jnp.zeros_like(x))


def test_compiled_loops_report_a_hundred_times(notebook):
    assert _loop(2.0) == 1000
    kiln.effects_barrier()
    first = notebook.bars()
    assert first[-1] == (500, 500)
    assert 100 <= len({value for value, _ in first}) <= 102
    _loop(2.0)
    kiln.effects_barrier()
    assert len(notebook.bars()) == 2 * len(first)
    assert not progress._open


def test_an_interrupted_loop_leaves_room_for_the_next(notebook):
    kiln.debug.tick(5, 10, "first")
    kiln.debug.tick(0, 10, "first")
    kiln.effects_barrier()
    assert notebook.bars()[-1] == (1, 10)
    kiln.debug.tick(9, 10, "first")
    kiln.effects_barrier()
    assert not progress._open


def test_a_loop_under_vmap_is_one_loop(notebook):
    assert kiln.vmap(_loop)(jnp.arange(3.0)).tolist() == [0, 500, 1000]
    kiln.effects_barrier()
    assert notebook.bars()[-1] == (500, 500)
    assert len(notebook.bars()) < 110
