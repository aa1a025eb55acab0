"""Functions of modules made pure: `apply`, `init` and `init_with_output` of any of them."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kiln.linen.context import capturing
from kiln.linen.errors import (
    ApplyModuleInvalidMethodError,
    ApplyScopeInvalidVariablesStructureError,
    ApplyScopeInvalidVariablesTypeError,
    IncorrectPostInitOverrideError,
    InvalidInstanceModuleError,
)
from kiln.linen.filters import CollectionFilter, DenyList, union_filters
from kiln.linen.rng import FoldedKeys, streams
from kiln.linen.scope import Scope

Capture = bool | Callable[[Any, str], bool]
NOT_INTERMEDIATES = DenyList("intermediates")
_INITIALIZING = {"initializing": True}


def _is_call(module: Any, method_name: str) -> bool:
    return method_name == "__call__"


def apply(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = False,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function `(variables, *args, rngs=None, **kwargs)` that runs `fn(module, ...)`.

    Unless `mutable` is False it returns a pair: the result, and the collections that are mutable.
    """
    check_instance(module, "apply")
    capture = _is_call if capture_intermediates is True else capture_intermediates
    if capture:
        mutable = union_filters(mutable, "intermediates")

    @functools.wraps(fn, updated=())
    def pure(variables: Mapping[str, Any], *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        scope = application_scope(module, variables, rngs, mutable)
        try:
            with capturing(capture):
                result = fn(module.clone(parent=scope, _deep_clone=True), *args, **kwargs)
        finally:
            scope.invalidate()
        return result if mutable is False else (result, scope.mutable_variables())

    return pure


def init_with_output(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = NOT_INTERMEDIATES,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function `(rngs, *args, **kwargs)`: the result of `fn`, and its variables."""
    check_instance(module, "init_with_output")
    capture = _is_call if capture_intermediates is True else capture_intermediates
    if capture:
        mutable = union_filters(mutable, "intermediates")

    @functools.wraps(fn, updated=())
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        keys = FoldedKeys(streams(rngs, f"init of {type(module).__name__}"))
        scope = Scope.root({}, keys, mutable, _INITIALIZING)
        try:
            with capturing(capture):
                result = fn(module.clone(parent=scope, _deep_clone=True), *args, **kwargs)
        finally:
            scope.invalidate()
        return result, scope.mutable_variables()

    return pure


def init(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = NOT_INTERMEDIATES,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function `(rngs, *args, **kwargs)` that makes the variables `fn` needs."""
    run = init_with_output(fn, module, mutable, capture_intermediates)

    @functools.wraps(fn, updated=())
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        return run(rngs, *args, **kwargs)[1]

    return pure


def application_scope(module: Any, variables: Any, rngs: Any, mutable: CollectionFilter) -> Scope:
    """Return the root scope of variables that a user gave.

    Raises: ApplyScopeInvalidVariablesTypeError, ApplyScopeInvalidVariablesStructureError,
        InvalidRngError.
    """
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        raise ApplyScopeInvalidVariablesTypeError(variables)
    params = variables.get("params")
    if isinstance(params, Mapping) and "params" in params:
        raise ApplyScopeInvalidVariablesStructureError(variables)
    roots = streams(rngs, f"apply of {type(module).__name__}") if rngs is not None else {}
    return Scope.root(variables, FoldedKeys(roots), mutable)


def method_of(module: Any, method: Any) -> Callable[..., Any]:
    """Return the function of a module that `method=` names: a name, a function, a bound method.

    Raises: ApplyModuleInvalidMethodError, TypeError for a name that is no method.
    """
    if method is None:
        return type(module).__call__
    if isinstance(method, str):
        found = getattr(module, method)
        if not callable(found):
            raise TypeError(
                f"method={method!r} of {type(module).__name__}\n"
                f"'{type(module).__name__}.{method}' must be a callable, got {type(found)}\n"
                "name a method of the module"
            )
        method = found
    if not callable(method):
        raise ApplyModuleInvalidMethodError(method)
    bound = getattr(method, "__func__", None)
    if bound is not None:
        return bound  # type: ignore[no-any-return]
    try:
        takes_module = bool(inspect.signature(method).parameters)
    except (TypeError, ValueError):
        takes_module = True
    if not takes_module:
        raise ApplyModuleInvalidMethodError(method)
    return method  # type: ignore[no-any-return]


def check_instance(module: Any, method: str) -> None:
    """Raise unless `module` is a module whose `__post_init__` ran."""
    state = getattr(module, "_state", None)
    if state is None or isinstance(module, type):
        raise InvalidInstanceModuleError(method)
    if not state.made:
        raise IncorrectPostInitOverrideError(type(module).__name__)
