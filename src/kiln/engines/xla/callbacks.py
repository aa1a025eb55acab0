"""Python functions that compiled programs call: what is checked between XLA and the user.

XLA lends operands for the length of the call only and does not look at results, so operands are
copied and results checked here. What an exception says is kept, under a number that travels in
XLA's error text, until the failure surfaces in whoever waits for the program.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import re
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.forks import in_child, new_lock
from kiln.control.callback import as_declared
from kiln.core import trace
from kiln.engines.xla.text import host_dtype
from kiln.ir.types import ShapedArray

KEPT = 256
TEXT = 1 << 14
"""The characters that are kept of a failure's text: the first and the last of them."""

_SMALL = (bool, int, float, complex, type(None))


def _is_small(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return len(value) <= TEXT
    return type(value) in _SMALL or (type(value) is tuple and all(map(_is_small, value)))


def _shortened(text: str) -> str:
    return text if len(text) <= TEXT else f"{text[: TEXT // 2]}\n...\n{text[-TEXT // 2 :]}"


@dataclasses.dataclass(frozen=True)
class Failure:
    """What a callback raised: an exception's class and text, and nothing that it refers to."""

    kind: type[BaseException]
    args: tuple[Any, ...]
    attributes: dict[str, Any]
    text: str
    """With the traceback."""

    def error(self) -> BaseException:
        """Return an exception of the class and with the text of the one that was raised."""
        try:
            made = self.kind.__new__(self.kind, *self.args)
            if not isinstance(made, OSError):
                made.args = self.args
            made.__dict__.update(self.attributes)
        except Exception:  # noqa: BLE001, a class of the user's
            return RuntimeError(f"{self.kind.__name__}: {self.args}")
        return made


def _described(error: BaseException) -> Failure:
    inner = error.__traceback__.tb_next if error.__traceback__ else None
    try:
        message = str(error)
        text = "".join(traceback.format_exception(type(error), error, inner)).rstrip()
    except Exception as other:  # noqa: BLE001, a class of the user's
        message = text = f"{type(error).__name__}, whose text cannot be had: {type(other).__name__}"
    # An OSError keeps the names of files beside its arguments.
    args: Any = error.__reduce__()[1] if isinstance(error, OSError) else error.args
    if not all(map(_is_small, args)):
        args = (_shortened(message),)
    attributes = {k: v for k, v in vars(error).items() if _is_small(v)}
    return Failure(type(error), args, attributes, _shortened(text))


_failures: collections.OrderedDict[int, Failure] = collections.OrderedDict()
_numbers = itertools.count(1)
_lock = new_lock()
_MARK = re.compile(r"kiln callback failure #(\d+)")
_are_refused = False


class _CallbackFailed(Exception):
    """Carries a failure's number through XLA."""


def refuse() -> None:
    """Let all callbacks fail from now on: the interpreter ends."""
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
    """Return the callback failure that one of XLA's error texts speaks of."""
    found = _MARK.search(text)
    if found is None:
        # It struck before the call was guarded, or after.
        return _INTERRUPTED if "KeyboardInterrupt" in text else None
    with _lock:
        return _failures.get(int(found.group(1)))


_INTERRUPTED = Failure(KeyboardInterrupt, (), {}, "KeyboardInterrupt")


class Run:
    """One run of a program over several devices; its first failure, if a callback has failed."""

    __slots__ = ("failure",)

    def __init__(self) -> None:
        self.failure: Failure | None = None


class HostCallback:
    """What XLA calls: `fn(*arrays) -> sequence of arrays`, guarded.

    With `token`, operand 0 and result 0 are a token, which is None in Python.

    On several devices a failure must not reach XLA: the others would wait for the one that failed,
    and XLA ends the process when that has lasted 40 seconds. So `runs` holds the runs under way;
    they note the failure, the callback returns zeros, and the run raises when it has ended.
    """

    def __init__(
        self, fn: Callable[..., Any], results: Sequence[ShapedArray], *, token: bool
    ) -> None:
        self.fn = fn
        self.results = [host_dtype(aval) for aval in results]
        self.token = token
        self.runs: list[Run] | None = None

    def __call__(self, *operands: Any) -> tuple[Any, ...]:
        """Call the function on copies of the operands and return checked results."""
        try:
            _runtime.enter_callback()
            outs = self._called(operands)
        except BaseException as error:  # noqa: BLE001, whatever it is must not cross C++
            outs = self._failed(_described(error))
        finally:
            _runtime.leave_callback()
        return (None, *outs) if self.token else outs

    def _called(self, operands: Sequence[Any]) -> tuple[np.ndarray, ...]:
        if _are_refused:
            raise RuntimeError(
                three_lines(
                    "a call of a Python function by a program",
                    "the interpreter ends",
                    "wait for programs with kiln.effects_barrier() before the end",
                )
            )
        if self.runs and all(run.failure for run in self.runs):
            return self._zeros()
        arrays = [np.array(x) for x in operands[self.token :]]
        # Small programs run on the caller's thread, which may be tracing.
        with trace.in_force(trace.state.root):
            returned = self.fn(*arrays)
        return tuple(self._checked(returned))

    def _failed(self, failure: Failure) -> tuple[np.ndarray, ...]:
        if not self.runs:
            raise _CallbackFailed(f"kiln callback failure #{_keep(failure)}") from None
        for run in list(self.runs):
            run.failure = run.failure or failure
        return self._zeros()

    def _zeros(self) -> tuple[np.ndarray, ...]:
        return tuple([np.zeros(shape, dtype) for shape, dtype in self.results])

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
