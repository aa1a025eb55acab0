"""Errors that programs note while they run."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kiln
import kiln.numpy as jnp
from kiln.errors import JaxValueError
from kiln.experimental import error_check
from kiln.experimental.error_check import (
    error_checking_behavior,
    error_checking_context,
    raise_if_error,
    set_error_if,
)


@pytest.fixture(autouse=True)
def _apart() -> Iterator[None]:
    with error_checking_context():
        yield


def root(x: Any) -> Any:
    set_error_if(x < 0, "x is negative")
    return jnp.sqrt(x)


def _noted() -> str | None:
    try:
        raise_if_error()
    except JaxValueError as error:
        return str(error)
    return None


def _scanned(x: Any) -> Any:
    return kiln.lax.scan(lambda c, y: (c + root(y), y), 0.0, jnp.stack([x, x + 2]))


CALLS: dict[str, Callable[[Any], Any]] = {
    "eager": root,
    "jit": kiln.jit(root),
    "vmap": lambda x: kiln.vmap(root)(jnp.stack([x + 2, x, x + 2])),
    "jit of vmap": lambda x: kiln.jit(kiln.vmap(root))(jnp.stack([x + 2, x, x + 2])),
    "grad": kiln.grad(root),
    "jit of grad": kiln.jit(kiln.grad(root)),
    "grad of jit": kiln.grad(kiln.jit(root)),
    "grad of checkpoint": kiln.grad(kiln.checkpoint(root)),
    "scan": _scanned,
    "jit of scan": kiln.jit(_scanned),
    "cond": kiln.jit(lambda x: kiln.lax.cond(x < 9, root, lambda x: x, x)),
    "while": lambda x: kiln.lax.while_loop(lambda x: x < 3, lambda x: root(x) * 0 + 4, x),
    "map": lambda x: kiln.lax.map(root, jnp.stack([x + 2, x])),
}


@pytest.mark.parametrize("name", CALLS)
def test_an_error_is_noted(name: str) -> None:
    call = CALLS[name]
    for _ in range(3):
        call(jnp.float32(1))
        assert _noted() is None
        call(jnp.float32(-1))
        assert _noted() == "x is negative"
        assert _noted() is None


def test_the_first_error_is_kept() -> None:
    set_error_if(jnp.array([False, True]), "first")
    set_error_if(jnp.array(True), "second")
    assert _noted() == "first"
    set_error_if(jnp.array(True), "second")
    assert _noted() == "second"


def test_a_branch_that_is_not_taken_notes_nothing() -> None:
    pick = kiln.jit(lambda p, x: kiln.lax.cond(p, root, jnp.negative, x))
    pick(False, -1.0)
    assert _noted() is None
    pick(True, -1.0)
    assert _noted() == "x is negative"


def test_the_traceback_shows_where_it_was_noted() -> None:
    kiln.jit(root)(-1.0)
    with pytest.raises(JaxValueError) as caught:
        raise_if_error()
    shown = "".join(traceback.format_tb(caught.value.__traceback__))
    assert "in root" in shown
    assert 'set_error_if(x < 0, "x is negative")' in shown


def test_eager_calls_list_an_error_once() -> None:
    for _ in range(20):
        root(1.0)
    listed = error_check._all.notes.listed
    before = len(listed)
    for _ in range(20):
        root(1.0)
    assert len(listed) - before <= 1


def test_a_context_keeps_its_errors() -> None:
    f = kiln.jit(root)
    f(-1.0)
    with error_checking_context():
        assert _noted() is None
        # The compiled function notes errors where it is called.
        f(-1.0)
        assert _noted() == "x is negative"
    assert _noted() == "x is negative"
    assert _noted() is None


def test_errors_of_another_thread_are_those_of_all() -> None:
    thread = threading.Thread(target=root, args=(-1.0,))
    thread.start()
    thread.join()
    assert _noted() is None
    with kiln.base.options.config.override(error_state=None):
        assert _noted() == "x is negative"


def test_refusals() -> None:
    with pytest.raises(TypeError, match="the predicate has dtype float32"):
        set_error_if(jnp.ones(2), "ones")
    with pytest.raises(ValueError, match="within a traced context"):
        kiln.jit(raise_if_error)()
    with pytest.raises(ValueError, match="no value 'warn'"):
        error_checking_behavior(nan="warn")
    assert _noted() is None


def test_exported_functions_carry_their_errors() -> None:
    shape = kiln.ShapeDtypeStruct((), jnp.float32)
    exported = kiln.export.export(kiln.jit(error_check.wrap_for_export(kiln.jit(root))))(shape)
    loaded = kiln.export.deserialize(exported.serialize())
    f = kiln.jit(error_check.unwrap_from_import(loaded.call))
    assert f(4.0) == 2
    assert _noted() is None
    for _ in range(2):
        f(-4.0)
        message = _noted()
        assert message is not None
        assert message.startswith("x is negative\n")
        assert "in root" in message
    # Tracing and exporting noted nothing here.
    assert _noted() is None


def test_numbers_without_a_meaning_are_unknown_errors() -> None:
    carried = error_check.CarriedErrors(jnp.uint32(999_999_999), ())
    error_check.unwrap_from_import(lambda: (1, carried))()
    assert "unknown error" in (_noted() or "")


CASES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...], str]] = {
    "log": (jnp.log, (1.0,), (-1.0,), "nan"),
    "sqrt": (jnp.sqrt, (1.0,), (-1.0,), "nan"),
    "log2": (jnp.log2, (1.0,), (-1.0,), "nan"),
    "add": (jnp.add, (1.0, 2.0), (jnp.inf, -jnp.inf), "nan"),
    "+": (lambda x, y: x + y, (1.0, 2.0), (jnp.inf, -jnp.inf), "nan"),
    "power": (jnp.power, (1.0, 0.5), (-1.0, 0.5), "nan"),
    "fmod": (jnp.fmod, (1.0, 2.0), (1.0, 0.0), "nan"),
    "divide": (jnp.divide, (1.0, 2.0), (1.0, 0.0), "divide"),
    "//": (lambda x, y: x // y, (1, 2), (1, 0), "divide"),
    "%": (lambda x, y: x % y, (1, 2), (1, 0), "divide"),
    "divmod": (jnp.divmod, (1.0, 2.0), (1.0, 0.0), "divide"),
    "[]": (lambda i: jnp.arange(4)[i], (3,), (4,), "oob"),
    "[] from the end": (lambda i: jnp.arange(4)[i], (-4,), (-5,), "oob"),
    "[] small dtype": (lambda i: jnp.arange(99)[i.astype(jnp.int8)], (3,), (-100,), "oob"),
    "[] unsigned": (lambda i: jnp.arange(99)[i.astype(jnp.uint8)], (3,), (200,), "oob"),
    "[[]]": (lambda i: jnp.arange(4)[jnp.stack([i, i])], (3,), (4,), "oob"),
}
MESSAGES = {"nan": "NaN", "divide": "Division by zero", "oob": "Out of bounds"}


@pytest.mark.parametrize("through", [lambda f: f, kiln.jit])
@pytest.mark.parametrize("name", CASES)
def test_functions_note_errors_if_asked(name: str, through: Any) -> None:
    fun, good, bad, kind = CASES[name]
    fun = through(fun)
    good, bad = tuple(map(jnp.asarray, good)), tuple(map(jnp.asarray, bad))
    for _ in range(3):
        fun(*bad)
    assert _noted() is None
    with error_checking_behavior(**{kind: "raise"}):
        fun(*good)
        assert _noted() is None
        for _ in range(3):
            fun(*bad)
            assert MESSAGES[kind] in (_noted() or "")
    with error_checking_behavior(all="raise", **{kind: "ignore"}):
        fun(*good)
        assert _noted() is None


def test_options_say_what_is_noted() -> None:
    kiln.config.update("jax_error_checking_behavior_nan", "raise")
    try:
        jnp.log(-1.0)
        assert _noted() == "NaN encountered"
    finally:
        kiln.config.update("jax_error_checking_behavior_nan", "ignore")
    jnp.log(-1.0)
    assert _noted() is None


def test_no_positions_are_in_bounds() -> None:
    with error_checking_behavior(oob="raise"):
        jnp.zeros(1)[None]
        jnp.zeros(0)[jnp.zeros(0, jnp.int32)]
        jnp.arange(3)[jnp.array([True, False, True])]
    assert _noted() is None
