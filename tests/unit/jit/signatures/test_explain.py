"""Why a signature is new."""

from __future__ import annotations

import dataclasses
import functools
import time
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln.base.options.config import Options, override
from kiln.base.tree import tree_structure
from kiln.ir.types import ShapedArray
from kiln.jit.signatures import explain
from kiln.jit.signatures.argument_binding import Named
from kiln.jit.signatures.explain import (
    Difference,
    Naming,
    Record,
    differences,
    explain_recompiles,
    only,
    static_text,
)
from kiln.jit.signatures.signature import Signature, Statics
from kiln.jit.signatures.static_values import static_key

F = np.dtype("float32")
SCALAR = ShapedArray((), F)


def f(x, y, n):
    return x


NAMING = Naming(f, [0, 1], ["x", "y"])


PLAIN = Options()


def key(*avals, statics: Any = (), options=PLAIN, axes=(), tree=(0, 0)):
    return Signature(tree_structure(tree), avals, statics, options.key(), axes)


def only_difference(old, new, naming=NAMING) -> Difference:
    (found,) = differences([old], new, naming)
    return found


def test_the_nearest_earlier_signature_explains() -> None:
    seen = [
        key(ShapedArray((3,), F), SCALAR),
        key(ShapedArray((9,), F), ShapedArray((), F, True)),
    ]
    (found,) = differences(seen, key(ShapedArray((4,), F), SCALAR), NAMING)
    assert found == ("x", "shape", "float32[3]", "float32[4]")
    assert str(found) == "argument x: float32[3] before, float32[4] now"


def test_of_equally_near_ones_the_latest_explains() -> None:
    seen = [key(ShapedArray((n,), F), SCALAR) for n in (1, 2, 3)]
    assert differences(seen, key(ShapedArray((4,), F), SCALAR), NAMING)[0].old == "float32[3]"


@pytest.mark.parametrize(
    ("reason", "aval"),
    [
        ("shape", ShapedArray((1,), F)),
        ("dtype", ShapedArray((), np.dtype("int32"))),
        ("dtype", ShapedArray((), np.dtype("int32"), True)),
        ("weak type", ShapedArray((), F, True)),
    ],
)
def test_types(reason, aval) -> None:
    found = only_difference(key(SCALAR, SCALAR), key(SCALAR, aval))
    assert (found.argument, found.reason, found.old) == ("y", reason, "float32[]")


def test_an_argument_may_differ_in_two_ways() -> None:
    new = key(SCALAR, ShapedArray((2,), np.dtype("int32")))
    found = differences([key(SCALAR, SCALAR)], new, NAMING)
    assert [d.reason for d in found] == ["shape", "dtype"]


def test_structures_differ_at_a_path() -> None:
    avals = (SCALAR, SCALAR)
    old, new = key(*avals, tree=({"a": [0]}, 0)), key(*avals, tree=({"a": (0,)}, 0))
    assert only_difference(old, new) == (
        "x['a']",
        "structure",
        "a list of length 1",
        "a tuple of length 1",
    )
    fewer = key(SCALAR, tree=(0,))
    assert only_difference(fewer, key(*avals)) == (
        "args",
        "structure",
        "a tuple of length 1",
        "a tuple of length 2",
    )
    named = key(*avals, tree=Named((0,), {"y": 0}))
    by_keyword = differences([key(*avals)], named, NAMING)
    assert [(d.argument, d.reason) for d in by_keyword] == [
        ("args", "structure"),
        ("kwargs", "structure"),
    ]
    other = key(*avals, tree=Named((0,), {"y": [0]}))
    assert only_difference(named, other).argument == "y"


def test_static_values() -> None:
    old = key(SCALAR, SCALAR, statics=Statics(3, ((2, static_key(1)),)))
    new = key(SCALAR, SCALAR, statics=Statics(3, ((2, static_key(2.5)),)))
    found = only_difference(old, new)
    assert found == ("n", "static value", "1", "2.5")
    assert str(found) == "static value n: 1 before, 2.5 now"
    without = key(SCALAR, SCALAR, statics=Statics(2, ()))
    assert only_difference(without, new) == ("n", "static value", "not given", "2.5")
    other = key(SCALAR, SCALAR, statics=Statics(2, ((2, static_key(1)),)))
    assert only_difference(old, other).reason == "positional arguments"


def test_options_and_mapped_axes() -> None:
    old = key(SCALAR, SCALAR)
    found = only_difference(old, key(SCALAR, SCALAR, options=Options(enable_x64=True)))
    assert found == ("enable_x64", "options", "False", "True")
    assert str(found) == "options enable_x64: False before, True now"
    found = only_difference(old, key(SCALAR, SCALAR, axes=("i",)))
    assert str(found) == "mapped axes: () before, ('i',) now"


def test_reasons_that_are_no_differences() -> None:
    assert differences([], key(SCALAR, SCALAR), NAMING) == only("first call")
    assert differences([key(SCALAR)], key(SCALAR), NAMING) == only("closure")


@dataclasses.dataclass(frozen=True)
class Setting:
    size: int
    name: str


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        ("mean", "'mean'"),
        (2.5, "2.5"),
        (float("nan"), "nan"),
        ((1, (2.0,)), "(1, (2.0))"),
        (np.float32(2), "float32(2.0)"),
        (np.timedelta64(3, "s"), "timedelta64(3 seconds)"),
        (np.longdouble(2), "np.longdouble('2.0')"),
        (Setting(3, "a"), "Setting(3, 'a')"),
        (frozenset([1]), "frozenset(1)"),
        (range(3), "range(0, 3)"),
        (functools.partial(max), "partial(<built-in function max>, (), ())"),
        ("x" * 80, "'" + "x" * 56 + "..."),
    ],
)
def test_static_values_as_text(value, text) -> None:
    assert static_text(static_key(value)) == text


def test_records_are_collected_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    why = Difference("x", "shape", "float32[3]", "float32[4]")
    assert explain.record(f, lambda: pytest.fail("nobody asked")) is None
    with explain_recompiles() as outer:
        with explain_recompiles() as inner:
            explain.record(f, lambda: (why,))
        with override(explain=True), caplog.at_level("WARNING", "kiln"):
            made = explain.record(f, lambda: (why, why))
    assert explain.record(f, lambda: pytest.fail("nobody asks any more")) is None
    assert (len(inner), len(outer)) == (1, 2)
    assert made is outer[1]
    assert made.function == "f"
    assert (made.argument, made.reason, made.old, made.new) == why
    assert made.source.startswith(__file__)
    made.trace_seconds, made.compile_seconds = 0.25, 0.5
    assert made.seconds == 0.75
    (message,) = [r.getMessage() for r in caplog.records]
    assert message.startswith(f"TRACING f at {__file__}:")
    assert "argument x: float32[3] before, float32[4] now" in message
    assert "never seen function" in str(Record("f", "f", only("first call"), "here"))


def test_records_know_when_they_began() -> None:
    begin = time.perf_counter()
    with kiln.explain_recompiles() as records:
        kiln.jit(lambda x: x * 3 + 1)(jnp.ones(3))
    end = time.perf_counter()
    (record,) = [each for each in records if each.function == "<lambda>"]
    assert begin <= record.traced_at <= record.traced_at + record.trace_seconds
    assert record.traced_at <= record.compiled_at
    assert record.compiled_at + record.compile_seconds <= end
