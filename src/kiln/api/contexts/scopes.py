"""Contexts around tracing: names of scopes, user-defined contexts."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Self

from kiln import _runtime
from kiln.base.errors import three_lines
from kiln.base.options.config import options
from kiln.base.source import current_source, in_scope


class named_scope(in_scope, contextlib.ContextDecorator):
    """Name a part of a function; also a decorator.

    The equations of a program have the names around them in `source_info.name_stack`.
    Raises: TypeError if the name is not a string.
    Example:
        >>> with kiln.named_scope("layer"):
        ...     program = kiln.make_jaxpr(kiln.named_scope("sine")(jnp.sin))(1.0)
        >>> str(program.eqns[0].source_info.name_stack)
        'sine'
    """

    def __new__(cls, name: str) -> Self:
        """Check the name."""
        if not isinstance(name, str):
            raise TypeError(
                three_lines(
                    f"named_scope({name!r}) at {current_source()}",
                    f"named_scope name argument must be a string, got {type(name)}",
                    "write named_scope('layer')",
                )
            )
        return super().__new__(cls, name)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Return the function, called in a scope with its name.

    Example:
        >>> kiln.named_call(jnp.sin, name="wave")(0.0)
        Array(0., dtype=float32, weak_type=True)
    """
    scope = getattr(fun, "__name__", type(fun).__name__) if name is None else name

    @functools.wraps(fun, updated=())
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return fun(*args, **kwargs)

    return named


class _UserContext:
    """A user-defined setting, part of the key of each trace. Calling it gives a context."""

    def __init__(self, default: Any) -> None:
        self._default = default

    @property
    def value(self) -> Any:
        """The value in force on this thread."""
        return dict(options().user_contexts).get(id(self), (None, self._default))[1]

    def __call__(self, value: Any) -> AbstractContextManager[None]:
        return _UserContextEntered(self, value)


class _UserContextEntered(_runtime.Changed, contextlib.ContextDecorator):
    def __new__(cls, setting: _UserContext, value: Any) -> Self:
        def change(outer: dict[str, Any] | None) -> tuple[dict[str, Any], None]:
            # The object is kept with its id, so that the id is not reused.
            values = {**dict(options().user_contexts), id(setting): (setting, value)}
            return {**(outer or {}), "user_contexts": tuple(values.items())}, None

        return super().__new__(cls, _runtime.state, "overrides", change)


def make_user_context(default_value: Any = None) -> Any:
    """Return a user-defined context: `with context(value):`; functions are traced per value.

    `context.value` is the value in force. Values are hashable.

    Example:
        >>> scale = kiln.make_user_context(default_value=1.0)
        >>> f = kiln.jit(lambda x: x * scale.value)
        >>> with scale(3.0):
        ...     f(2.0)
        Array(6., dtype=float32, weak_type=True)
        >>> f(2.0)
        Array(2., dtype=float32, weak_type=True)
    """
    return _UserContext(default_value)
