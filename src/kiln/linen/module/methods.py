"""Methods of modules: marking them, and wrapping those that a class defines.

Every method of a module class runs `setup` first and makes its module the current one, so that
submodules created inside know their parent. `nowrap` leaves a method unwrapped.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

from kiln.linen.errors import DescriptorAttributeError

F = TypeVar("F", bound=Callable[..., Any])

_PLAIN = frozenset(
    {
        *dir(object),
        "__annotate__",
        "__annotate_func__",
        "__class_getitem__",
        "__copy__",
        "__deepcopy__",
        "__getattr__",
        "__post_init__",
        "__replace__",
        "__set_name__",
    }
)


def compact(fun: F) -> F:
    """Allow a method to create submodules and parameters where it uses them.

    Submodules are named by class and count unless `name=` is given. Compact methods that are called
    one after another use the same names; one that is called by another continues its numbering.

    Example:
        >>> class Scale(linen.Module):
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return x * self.param("scale", linen.initializers.ones, ())
        >>> Scale().init(random.key(0), jnp.ones(3))
        {'params': {'scale': Array(1., dtype=float32)}}
        >>> Scale().init_with_output(random.key(0), jnp.ones(3))[0]
        Array([1., 1., 1.], dtype=float32)
    """
    fun.compact = True  # type: ignore[attr-defined]
    return fun


def compact_name_scope(fun: F) -> F:
    """Allow a method to create submodules, in a scope that has the method's name.

    Example:
        >>> class Net(linen.Module):
        ...     @linen.compact_name_scope
        ...     def part(self, x):
        ...         return linen.Dense(2)(x)
        ...
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return self.part(x)
        >>> list(Net().init(random.key(0), jnp.ones((1, 3)))["params"])
        ['part']
    """

    @functools.wraps(fun)
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self._set_up()
        return self._state.name_scopes[fun.__name__](*args, **kwargs)

    method.compact_name_scope = True  # type: ignore[attr-defined]
    return cast("F", method)


def nowrap(fun: F) -> F:
    """Leave a method unwrapped: it neither runs `setup` nor becomes the parent of submodules.

    Example:
        >>> class Net(linen.Module):
        ...     @linen.nowrap
        ...     def new_layer(self):
        ...         return linen.Dense(2)
        ...
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return self.new_layer()(x)
        >>> Net().init_with_output(random.key(0), jnp.ones((1, 3)))[0].shape
        (1, 2)
    """
    fun.nowrap = True  # type: ignore[attr-defined]
    return fun


def wrap_methods(cls: type) -> None:
    """Wrap the methods and properties that a class itself defines, once."""
    fields: dict[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    for name, value in list(vars(cls).items()):
        if name in _PLAIN or name in fields or hasattr(value, "nowrap"):
            continue
        if isinstance(value, (staticmethod, classmethod, type)):
            continue
        if _is_descriptor(value) and not name.startswith("__"):
            setattr(cls, name, _Property(value, name))
        elif callable(value) and hasattr(type(value), "__get__") and not _is_ready(value):
            setattr(cls, name, _wrapped(value, name))


def _is_descriptor(value: Any) -> bool:
    return hasattr(type(value), "__get__") and not callable(value)


def _is_ready(value: Any) -> bool:
    return hasattr(value, "method_of_module") or hasattr(value, "compact_name_scope")


def name_scope_methods(cls: type) -> dict[str, Callable[..., Any]]:
    """Return the methods of a class that run in their own submodule."""
    found = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if hasattr(value, "compact_name_scope"):
                found[name] = value.__wrapped__
            else:
                found.pop(name, None)
    return found


def _wrapped(fun: Callable[..., Any], name: str) -> Callable[..., Any]:
    is_compact = hasattr(fun, "compact")

    @functools.wraps(fun)
    def method(*args: Any, **kwargs: Any) -> Any:
        if args and hasattr(args[0], "_run_method"):
            return args[0]._run_method(fun, name, is_compact, args[1:], kwargs)
        return fun(*args, **kwargs)

    method.method_of_module = True  # type: ignore[attr-defined]
    return method


class _Property:
    """A property whose AttributeError is not mistaken for a missing property."""

    def __init__(self, wrapped: Any, name: str) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__
        self.name = name

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, module: Any, owner: type | None = None) -> Any:
        if module is None:
            return self.wrapped
        module._set_up()
        try:
            return self.wrapped.__get__(module, owner)
        except AttributeError as error:
            raise DescriptorAttributeError(type(module).__name__, self.name, error) from error

    def __set__(self, module: Any, value: Any) -> None:
        if not hasattr(self.wrapped, "__set__"):
            object.__setattr__(module, self.name, value)
        else:
            self.wrapped.__set__(module, value)
