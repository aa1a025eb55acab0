"""The state of this thread: the methods being run, and what captures and intercepts them."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from typing import Any, Self

from kiln._runtime import Assigned, Changed


@dataclasses.dataclass(frozen=True)
class InterceptorContext:
    """The method and module of a call, for `intercept_methods`."""

    module: Any
    method_name: str
    orig_method: Callable[..., Any]


class Context(threading.local):
    """Per thread: the modules whose methods are running, innermost last; capture; interceptors."""

    modules: tuple[Any, ...] = (None,)
    capture: Any = None
    interceptors: tuple[Callable[..., Any], ...] = ()
    named_calls: bool = True


context = Context()


class intercept_methods(Changed, ContextDecorator):
    """Run `interceptor(next_call, args, kwargs, context)` in place of every module method.

    The interceptor calls `next_call(*args, **kwargs)` to run the method; the outermost one runs
    first.

    Example:
        >>> def twice(next_call, args, kwargs, context):
        ...     return 2 * next_call(*args, **kwargs)
        >>> layer = linen.Dense(2, kernel_init=linen.initializers.ones)
        >>> variables = layer.init(random.key(0), jnp.ones((1, 3)))
        >>> with linen.intercept_methods(twice):
        ...     layer.apply(variables, jnp.ones((1, 3)))
        Array([[6., 6.]], dtype=float32)
    """

    def __new__(cls, interceptor: Callable[..., Any]) -> Self:
        """Take the interceptor."""
        return super().__new__(
            cls, context, "interceptors", lambda outer: ((*outer, interceptor), None)
        )


def intercepted(module: Any, name: str, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Run a method under the active interceptors.

    `args` and `kwargs` are those without `module`. The first interceptor is the outermost.
    """
    interceptors = context.interceptors
    described = InterceptorContext(module, name, functools.partial(method, module))

    def call(level: int, *args: Any, **kwargs: Any) -> Any:
        if level == len(interceptors):
            return method(module, *args, **kwargs)

        def following(*args: Any, **kwargs: Any) -> Any:
            return call(level + 1, *args, **kwargs)

        return interceptors[level](following, args, kwargs, described)

    return call(0, *args, **kwargs)


class override_named_call(Assigned, ContextDecorator):
    """Set what `enable_named_call` sets, inside the context.

    Example:
        >>> with linen.override_named_call(False):
        ...     linen.Dense(2).init_with_output(random.key(0), jnp.ones((1, 3)))[0].shape
        (1, 2)
    """

    def __new__(cls, enable: bool = True) -> Self:
        """Take the setting."""
        return super().__new__(cls, context, "named_calls", enable, None)


def enable_named_call() -> None:
    """Record the setting, which has no effect: kiln does not name operations after modules yet.

    Example:
        >>> linen.enable_named_call()
    """
    context.named_calls = True


def disable_named_call() -> None:
    """Record the setting, which has no effect: kiln does not name operations after modules yet.

    Example:
        >>> linen.disable_named_call()
    """
    context.named_calls = False
