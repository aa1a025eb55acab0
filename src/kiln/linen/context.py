"""The state of this thread: the methods being run, and what captures and intercepts them."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@dataclasses.dataclass(frozen=True)
class InterceptorContext:
    """The method and module of a call, for `intercept_methods`."""

    module: Any
    method_name: str
    orig_method: Callable[..., Any]


class Context(threading.local):
    """Per thread: the modules whose methods are running, innermost last; capture; interceptors."""

    modules: list[Any]
    captures: list[Any]
    interceptors: list[Callable[..., Any]]
    named_calls: bool

    def __init__(self) -> None:
        self.modules = [None]
        self.captures = [None]
        self.interceptors = []
        self.named_calls = True


context = Context()


@contextmanager
def intercept_methods(interceptor: Callable[..., Any]) -> Iterator[None]:
    """Run `interceptor(next_call, args, kwargs, context)` in place of every module method.

    The interceptor calls `next_call(*args, **kwargs)` to run the method; the outermost one runs
    first.
    """
    context.interceptors.append(interceptor)
    try:
        yield
    finally:
        context.interceptors.pop()


def intercepted(module: Any, name: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a method under the active interceptors."""
    interceptors = context.interceptors
    described = InterceptorContext(module, name, functools.partial(method, module))

    def call(level: int, *args: Any, **kwargs: Any) -> Any:
        if level == len(interceptors):
            return method(module, *args, **kwargs)

        def following(*args: Any, **kwargs: Any) -> Any:
            return call(level + 1, *args, **kwargs)

        return interceptors[level](following, args, kwargs, described)

    return call(0, *args, **kwargs)


@contextmanager
def override_named_call(enable: bool = True) -> Iterator[None]:
    """Set what `enable_named_call` sets, inside the context."""
    before = context.named_calls
    context.named_calls = enable
    try:
        yield
    finally:
        context.named_calls = before


def enable_named_call() -> None:
    """Record the setting, which has no effect: kiln does not name operations after modules yet."""
    context.named_calls = True


def disable_named_call() -> None:
    """Record the setting, which has no effect: kiln does not name operations after modules yet."""
    context.named_calls = False
