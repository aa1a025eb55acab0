"""`expand` computes what the primitive means."""

from __future__ import annotations

from typing import Any

from kiln.core.arrays.array import from_host
from kiln.core.trace import Trace, in_force, state
from tests.cases.case import Case
from tests.cases.collection import CASES, applied, assert_close, drawn, each


class Expanding(Trace):
    """Replaces one primitive by its expansion."""

    __slots__ = ("count", "primitive")

    def __init__(self, primitive: Any) -> None:
        super().__init__(state.trace)
        self.primitive = primitive
        self.count = 0

    def process(self, primitive: Any, args: Any, params: Any) -> Any:
        assert self.parent is not None
        with in_force(self.parent):
            if primitive is not self.primitive:
                return primitive.bind(*args, **params)
            self.count += 1
            return primitive.expand(*args, **params)


@each([case for case in CASES if case.primitive.has("expand")], "expand")
def test_expand_is_the_meaning(case: Case) -> None:
    operands = list(map(from_host, drawn(case)))
    expected = applied(case, operands)
    with in_force(Expanding(case.primitive)) as trace:
        found = applied(case, operands)
    assert trace.count
    for a, b in zip(found, expected, strict=True):
        assert_close(a, b, case.tolerance)
