"""Python functions called by XLA.

The description of an exception is stored under a number, which is part of XLA's error text, until a
wait for the program raises the failure. The part that engines share is
`control/effects/host_call.py`.
"""

from __future__ import annotations

import collections
import copy
import itertools
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.process.forks import in_child, new_lock
from kiln.control.effects.host_call import Failure, called, described
from kiln.engines.xla.stablehlo.text import host_dtype
from kiln.ir.types import ShapedArray

KEPT = 256
"""The maximum number of failures that are kept until they are queried."""

_failures: collections.OrderedDict[int, Failure] = collections.OrderedDict()
_numbers = itertools.count(1)
_lock = new_lock()
_MARK = re.compile(r"kiln callback failure #(\d+)")
_are_refused = False


class _CallbackFailed(Exception):
    """Carries a failure's number through XLA."""


def refuse() -> None:
    """Make all callbacks fail from now on: the interpreter is shutting down."""
    global _are_refused
    _are_refused = True


@in_child
def _forget() -> None:
    _failures.clear()


def _keep(failure: Failure) -> int:
    with _lock:
        number = next(_numbers)
        _failures[number] = failure
        while len(_failures) > KEPT:
            _failures.popitem(last=False)
    return number


def failure_in(text: str) -> Failure | None:
    """Return the callback failure that an error text of XLA refers to."""
    found = _MARK.search(text)
    if found is None:
        # It was raised outside the guarded part of the call.
        return _INTERRUPTED if "KeyboardInterrupt" in text else None
    with _lock:
        return _failures.get(int(found.group(1)))


_INTERRUPTED = Failure(KeyboardInterrupt, (), {}, "KeyboardInterrupt")


class _Here(threading.local):
    """The level of the callback that a thread is in."""

    level = 0


_here = _Here()


def level() -> int:
    """Return the number of nested callbacks that this thread is in."""
    return _here.level


def is_inside_call() -> bool:
    """Tell whether this thread is in a callback of a program."""
    return _here.level > 0


class Run:
    """One run of a program over several devices, with the first failure of a callback."""

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: Failure | None = None


class HostCallback:
    """The callable passed to XLA: `fn(*arrays) -> sequence of arrays`, guarded.

    With `token`, operand 0 and result 0 are a token, which is None in Python.

    On several devices a failure must not reach XLA: the others would wait for the one that failed,
    and XLA aborts the process after 40 seconds of that. So `runs` holds the current runs; they
    record the failure, the callback returns zeros, and the run raises when it has ended.
    """

    def __init__(
        self, fn: Callable[..., Any], results: Sequence[ShapedArray], *, token: bool
    ) -> None:
        self.fn = fn
        self.results = [host_dtype(aval) for aval in results]
        self.token = token
        self.level = 0
        self.runs: list[Run] | None = None

    def at(self, level: int) -> HostCallback:
        """Return the callable for a program that runs in `level` nested callbacks."""
        made = copy.copy(self)
        made.level, made.runs = level, None
        return made

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Call the function on copies of the operands and return checked results."""
        before, _here.level = _here.level, self.level + 1
        try:
            _runtime.enter_callback()
            outs = self._called(operands)
        except BaseException as error:  # noqa: BLE001, whatever it is must not cross C++
            outs = self._failed(described(error))
        finally:
            _runtime.leave_callback()
            _here.level = before
        return (None, *outs) if self.token else outs

    def _called(self, operands: Sequence[Any]) -> tuple[np.ndarray, ...]:
        if _are_refused:
            raise RuntimeError(
                three_lines(
                    "a call of a Python function by a program",
                    "the interpreter is shutting down",
                    "wait for programs with kiln.effects_barrier() before exiting",
                )
            )
        if self.runs and all(run.failure for run in self.runs):
            return self._zeros()
        return tuple(called(self.fn, operands[self.token :], self.results))

    def _failed(self, failure: Failure) -> tuple[np.ndarray, ...]:
        if not self.runs:
            raise _CallbackFailed(f"kiln callback failure #{_keep(failure)}") from None
        for run in list(self.runs):
            run.failure = run.failure or failure
        return self._zeros()

    def _zeros(self) -> tuple[np.ndarray, ...]:
        return tuple([np.zeros(shape, dtype) for shape, dtype in self.results])
