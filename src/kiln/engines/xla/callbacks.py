"""Python functions that compiled programs call: what is checked between XLA and the user.

XLA lends operands for the length of the call only and does not look at results, so operands are
copied and results checked here. An exception is kept, under a number that travels in XLA's error
text, until the failure surfaces in whoever waits for the program.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln.control.callback import as_declared
from kiln.core import trace
from kiln.engines.xla.text import host_dtype
from kiln.ir.types import ShapedArray


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a callback raised, with its traceback as text."""

    error: BaseException
    text: str


KEPT = 256
_failures: collections.OrderedDict[int, Failure] = collections.OrderedDict()
_numbers = itertools.count(1)
_lock = threading.Lock()
_MARK = re.compile(r"kiln callback failure #(\d+)")


class _CallbackFailed(Exception):
    """Carries a failure's number through XLA."""


def _keep(error: BaseException) -> int:
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    text = "".join(traceback.format_exception(type(error), error, inner)).rstrip()
    with _lock:
        number = next(_numbers)
        _failures[number] = Failure(error, text)
        while len(_failures) > KEPT:
            _failures.popitem(last=False)
    return number


def failure_in(text: str) -> Failure | None:
    """Return the callback failure that one of XLA's error texts speaks of."""
    found = _MARK.search(text)
    if found is None:
        return None
    with _lock:
        return _failures.get(int(found.group(1)))


class HostCallback:
    """What XLA calls: `fn(*arrays) -> sequence of arrays`, guarded.

    With `token`, operand 0 and result 0 are a token, which is None in Python.
    """

    def __init__(
        self, fn: Callable[..., Any], results: Sequence[ShapedArray], *, token: bool
    ) -> None:
        self.fn = fn
        self.results = [host_dtype(aval) for aval in results]
        self.token = token

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Call the function on copies of the operands and return checked results."""
        try:
            arrays = [np.array(x) for x in operands[self.token :]]
            # Small programs run on the caller's thread, which may be tracing.
            with trace.in_force(trace.state.root):
                returned = self.fn(*arrays)
            outs = tuple(self._checked(returned))
        except Exception as error:  # noqa: BLE001, whatever it is must not cross C++
            raise _CallbackFailed(f"kiln callback failure #{_keep(error)}") from None
        return (None, *outs) if self.token else outs

    def _checked(self, returned: Any) -> list[np.ndarray]:
        values = list(returned) if returned is not None else []
        if len(values) != len(self.results):
            raise RuntimeError(
                f"callback returned {len(values)} values\n"
                f"the program expects {len(self.results)}\n"
                "return one value for each declared result"
            )
        return [
            as_declared(i, value, shape, dtype)
            for i, (value, (shape, dtype)) in enumerate(zip(values, self.results, strict=True))
        ]
