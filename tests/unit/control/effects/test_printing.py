"""Printing from programs: formats, checked when recorded and applied when values are known."""

from __future__ import annotations

import numpy as np
import pytest

import kiln

X = np.array([1.0, 2.0, 3.0], np.float32)


@pytest.mark.parametrize(
    ("args", "kwargs", "error", "message"),
    [
        (("{} {}", 1), {}, IndexError, "range"),
        (("{}", 1, 2), {}, ValueError, "Unused positional arguments to debug.print: 1"),
        (
            ("{}", 1),
            {"a": 2},
            ValueError,
            "Unused keyword arguments .*: a. You may be passing an f-str",
        ),
        (("{a}",), {}, KeyError, "a"),
        ((3,), {}, TypeError, "format string"),
    ],
)
def test_formats_are_checked_when_recorded(args, kwargs, error, message):
    with pytest.raises(error, match=message):
        kiln.make_jaxpr(lambda: kiln.debug.print(*args, **kwargs))()


def test_formats_may_reach_into_arguments(printed):
    kiln.jit(lambda x: kiln.debug.print("{x.shape} {d[a]} {0!r}", 1.0, x=x, d={"a": x[0]}))(X)
    assert printed().startswith("(3,) 1.0 Array(1.")
