"""The meaning of a program: each primitive's NumPy rule, equation by equation."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from kiln.ir.jaxpr import Eqn, Jaxpr


class Observer(Protocol):
    """Evaluates the equations of programs in place of the NumPy rules, and so sees all values."""

    def evaluate(self, eqn: Eqn, values: Sequence[np.ndarray]) -> Any:
        """Return the result of an equation, as its primitive's `numpy` does."""

    def begin_iteration(self, iteration: int) -> None:
        """Record that an iteration of the innermost loop begins."""


_observers: dict[int, Observer] = {}
"""Per thread; empty unless a program is being searched."""


@contextlib.contextmanager
def observed(observer: Observer | None) -> Iterator[None]:
    """Set the observer, or None, that evaluates this thread's programs until the context ends."""
    thread = threading.get_ident()
    previous = _observers.pop(thread, None)
    if observer is not None:
        _observers[thread] = observer
    try:
        yield
    finally:
        _observers.pop(thread, None)
        if previous is not None:
            _observers[thread] = previous


def _observer_here() -> Observer | None:
    return _observers.get(threading.get_ident()) if _observers else None


def begin_iteration(iteration: int) -> None:
    """Tell the observer which iteration of a loop begins."""
    observer = _observer_here()
    if observer is not None:
        observer.begin_iteration(iteration)


def meaning(jaxpr: Jaxpr, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Run a jaxpr without constants on NumPy arrays."""
    env: dict[Any, Any] = dict(zip(jaxpr.invars, args, strict=True))
    observer = _observer_here()

    def read(atom: Any) -> np.ndarray:
        return np.asarray(atom.val, atom.aval.dtype) if atom.is_literal else env[atom]

    for eqn in jaxpr.eqns:
        values = [read(v) for v in eqn.invars]
        if observer is None:
            result = eqn.primitive.numpy(*values, **eqn.params)
        else:
            result = observer.evaluate(eqn, values)
        results = result if eqn.primitive.multiple else [result]
        for var, value in zip(eqn.outvars, results, strict=True):
            env[var] = _frozen(value, var.aval)
    return [_frozen(read(v), v.aval) for v in jaxpr.outvars]


def _frozen(value: Any, aval: Any) -> np.ndarray:
    out = np.asarray(value, aval.physical().dtype)
    if out.flags.writeable:
        out = out.view()
        out.flags.writeable = False
    return out
