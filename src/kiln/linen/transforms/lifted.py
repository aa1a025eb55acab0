"""Applying a transformation to functions of modules and to module classes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kiln.base.source import current_source
from kiln.linen.errors import (
    CallCompactUnboundModuleError,
    TransformTargetError,
)
from kiln.linen.module import Module
from kiln.linen.transforms.lift import Target

Apply = Callable[[Target, Module, tuple[Any, ...], dict[str, Any]], Any]
"""Runs a transformed method: `apply(target, module, args, kwargs)`."""


def lift_target(
    target: Any, make: Callable[[Target, dict[str, Any]], Apply], prefix: str, methods: Any = None
) -> Any:
    """Return a class with transformed methods, or a transformed function of a module.

    `make(target, options)` returns the replacement of a method; `options` are those given for it by
    `methods`, if that is a dictionary.

    Raises: TransformTargetError for anything else.
    """
    if isinstance(target, type) and issubclass(target, Module):
        return _lifted_class(target, make, prefix, methods)
    if isinstance(target, functools.partial) and isinstance(target.func, type):
        made = lift_target(target.func, make, prefix, methods)
        return functools.partial(made, *target.args, **target.keywords)
    if callable(target) and not isinstance(target, (Module, type)):
        return lifted_function(target, make(Target(target), {}))
    raise TransformTargetError(target)


def chosen_methods(methods: Any) -> dict[str, dict[str, Any]]:
    """Return the methods to transform, with the options of each.

    Raises: ValueError for anything but None, a list or tuple of names, and a dictionary.
    """
    if methods is None:
        return {"__call__": {}}
    if isinstance(methods, (list, tuple)):
        return {name: {} for name in methods}
    if isinstance(methods, Mapping):
        return {name: dict(options) for name, options in methods.items()}
    raise ValueError(
        f"methods={methods!r} at {current_source()}\n"
        "transform methods argument must be None, tuple, list, or dict\n"
        f"write methods=[{methods!r}]"
    )


def _lifted_class(
    cls: type[Module], make: Callable[[Target, dict[str, Any]], Apply], prefix: str, methods: Any
) -> type[Module]:
    members: dict[str, Any] = {
        "__module__": cls.__module__,
        "__doc__": cls.__doc__,
        "__qualname__": prefix + cls.__qualname__.rpartition(".")[2],
    }
    for name, options in chosen_methods(methods).items():
        fun = getattr(cls, name)
        members[name] = lifted_function(fun, make(Target(fun), options), of_class=True)
    made: type[Module] = type(prefix + cls.__name__, (cls,), members)
    return made


def required_module(module: Any) -> Module:
    """Return the module that a function is lifted over.

    Raises: TransformTargetError for anything else, CallCompactUnboundModuleError if it is unbound.
    """
    if not isinstance(module, Module):
        raise TransformTargetError(module)
    if module.scope is None:
        raise CallCompactUnboundModuleError(type(module).__name__, "__call__")
    return module


def lifted_function(
    fun: Callable[..., Any], apply: Apply, *, of_class: bool = False
) -> Callable[..., Any]:
    """Return a function of a module that runs a transformed one, keeping its name and marks.

    `apply(target, module, args, kwargs)` runs it; `of_class` is what `Target` takes.
    Raises: the function returned raises TransformTargetError if its first argument is not a module.
    """
    target = Target(fun, of_class=of_class)

    @functools.wraps(fun)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        if not args or not isinstance(args[0], Module):
            raise TransformTargetError(args[0] if args else fun)
        module = args[0]
        if module.scope is None:
            return target.run(module, args[1:], kwargs)
        return apply(target, module, args[1:], kwargs)

    lifted.method_of_module = True  # type: ignore[attr-defined]
    lifted.lifted = True  # type: ignore[attr-defined]
    return lifted
