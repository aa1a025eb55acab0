"""Contexts that set attributes of a thread's own objects, and that are in lists."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from kiln._runtime import Assigned, Changed, Listed, OptionValue, state
from kiln.base.options.config import options, override


class Here(threading.local):
    """An object that each thread has for itself."""

    x: Any = 0
    y: Any = 0


def test_an_attribute_is_set_in_a_context() -> None:
    here = Here()
    with Assigned(here, "x", 1) as found, Assigned(here, "y", 2, "result") as result:
        assert (found, result, here.x, here.y) == (1, "result", 1, 2)
    assert (here.x, here.y) == (0, 0)


def test_a_context_may_be_entered_again() -> None:
    here = Here()
    context = Assigned(here, "x", 1)
    with context, Assigned(here, "x", 2), context:
        assert here.x == 1
    assert here.x == 0
    context.__exit__(None, None, None)
    assert here.x == 0


def test_what_was_never_left_is_forgotten_with_the_context_around_it() -> None:
    here = Here()
    outer, forgotten = Assigned(here, "x", 1), Assigned(here, "x", 2)
    outer.__enter__()
    forgotten.__enter__()
    outer.__exit__(None, None, None)
    assert here.x == 0
    forgotten.__exit__(None, None, None)
    assert here.x == 0


def test_a_generator_suspended_in_a_context_restores_its_own_attribute() -> None:
    here = Here()

    def generate() -> Iterator[None]:
        with Assigned(here, "y", 2):
            yield

    with Assigned(here, "x", 1):
        generator = generate()
        next(generator)
    assert (here.x, here.y) == (0, 2)
    generator.close()
    assert here.y == 0


def test_a_context_of_one_thread_is_not_left_by_another() -> None:
    here = Here()
    context = Assigned(here, "x", 1)
    with context:
        thread = threading.Thread(target=context.__exit__, args=(None, None, None))
        thread.start()
        thread.join()
        assert here.x == 1
    assert here.x == 0


def test_finalizers_may_leave_contexts() -> None:
    """Restoring runs code of objects that are destroyed then, which may leave the same contexts."""
    here = Here()

    class Leaving:
        def __del__(self) -> None:
            outer.__exit__(None, None, None)
            with Assigned(here, "y", 1):
                pass

    outer, inner = Assigned(here, "x", 1), Assigned(here, "x", Leaving())
    outer.__enter__()
    inner.__enter__()
    del inner
    outer.__exit__(None, None, None)
    assert (here.x, here.y) == (0, 0)


def test_contexts_hold_nothing_after_them() -> None:
    here, value = Here(), Here()
    found = weakref.ref(value)
    count = sys.getrefcount(here)
    for _ in range(10):
        with Assigned(here, "x", value), override(default_device=value):
            pass
    assert sys.getrefcount(here) == count
    del value
    options()
    with override(check=False):
        options()
    gc.collect()
    assert found() is None


def test_an_attribute_is_changed_where_a_context_is_entered() -> None:
    here = Here()
    contexts = [Changed(here, "x", lambda x, i=i: (10 * x + i, i)) for i in (1, 2)]
    with contexts[0] as first, contexts[1] as second, contexts[0]:
        assert (first, second, here.x) == (1, 2, 121)
    assert here.x == 0
    with Assigned(here, "x", 3), contexts[1]:
        assert here.x == 32
    assert here.x == 0


def test_a_change_that_fails_changes_nothing() -> None:
    here = Here()
    wrong: Any = lambda x: x
    with pytest.raises(TypeError, match="returns the new value"), Changed(here, "x", wrong):
        pass
    with pytest.raises(ZeroDivisionError), Changed(here, "x", lambda x: (1 // x, None)):
        pass
    assert here.x == 0


def test_contexts_that_nobody_can_leave_are_not_kept() -> None:
    here, value = Here(), Here()
    count = sys.getrefcount(value)
    with Assigned(here, "y", 1):
        for _ in range(100):
            Assigned(here, "x", value).__enter__()
        assert sys.getrefcount(value) < count + 10
        kept = Assigned(here, "x", 2)
        kept.__enter__()
    with Assigned(here, "x", 3):
        pass
    assert (here.x, here.y) == (2, 0)
    kept.__exit__(None, None, None)
    assert here.x is value
    with Assigned(here, "x", 3):
        pass
    assert here.x is value


def test_an_attribute_that_is_not_there_changes_nothing() -> None:
    here = Here()
    with pytest.raises(AttributeError), Assigned(here, "z", 1):
        pass
    with pytest.raises(TypeError, match="mapped axes"), Assigned(state, "bound", 1):
        pass
    assert state.axes == ()


def test_an_item_is_in_a_list_in_a_context() -> None:
    items: list[Any] = []
    equal: list[Any] = [[], []]
    with Listed(items, equal[0]), Listed(items, equal[1], "result") as result:
        assert (len(items), result) == (2, "result")
        assert items[1] is equal[1]
        with Listed(items, equal[0]):
            items.reverse()
    assert items == []


class _Value(OptionValue):
    option = "mesh"


def test_an_object_is_the_value_of_its_option_where_it_is_entered() -> None:
    before, value = options(), _Value()
    with value as found, override(mesh=None), value:
        assert found is value
        assert options().mesh is value
    assert options() is before
