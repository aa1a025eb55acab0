"""Turning functions of modules into pure functions: `apply`, `init` and `init_with_output`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from kiln.base.source import current_source
from kiln.linen.errors import (
    ApplyModuleInvalidMethodError,
    ApplyScopeInvalidVariablesStructureError,
    ApplyScopeInvalidVariablesTypeError,
    IncorrectPostInitOverrideError,
    InvalidInstanceModuleError,
)
from kiln.linen.module.fields import is_module
from kiln.linen.scopes.context import context
from kiln.linen.scopes.filters import NOT_INTERMEDIATES, CollectionFilter, union_filters
from kiln.linen.scopes.rng import FoldedKeys, streams
from kiln.linen.scopes.scope import Scope

Capture = bool | Callable[[Any, str], bool]
_INITIALIZING = {"initializing": True}


def _is_call(module: Any, method_name: str) -> bool:
    return method_name == "__call__"


def run_applied(
    fn: Callable[..., Any],
    module: Any,
    variables: Any,
    rngs: Any,
    mutable: CollectionFilter,
    capture_intermediates: Capture,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Run `fn(module, *args)` with variables; return its result, and mutable collections if any.

    `rngs` are the keys of random streams by name. With `capture_intermediates` results of calls are
    stored in the collection `intermediates`.
    Raises: the errors of `check_instance`.
    """
    check_instance(module, "apply")
    capture: Any = _is_call if capture_intermediates is True else capture_intermediates
    if capture:
        mutable = union_filters(mutable, "intermediates")
    scope = application_scope(module, variables, rngs, mutable)
    result = _run_in(scope, fn, module, capture, args, kwargs)
    return result if mutable is False else (result, scope.mutable_variables())


def run_initialized(
    fn: Callable[..., Any],
    module: Any,
    rngs: Any,
    mutable: CollectionFilter,
    capture_intermediates: Capture,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Any, dict[str, Any]]:
    """Run `fn(module, *args)`, creating its variables; return its result and the variables.

    `rngs` is a key, or keys of random streams by name; `mutable` says which collections may be
    written. With `capture_intermediates` results of calls are stored in the collection
    `intermediates`.
    Raises: the errors of `check_instance`.
    """
    check_instance(module, "init")
    capture: Any = _is_call if capture_intermediates is True else capture_intermediates
    if capture:
        mutable = union_filters(mutable, "intermediates")
    keys = FoldedKeys(streams(rngs, f"init of {type(module).__name__}"))
    scope = Scope.root({}, keys, mutable, _INITIALIZING)
    result = _run_in(scope, fn, module, capture, args, kwargs)
    return result, scope.mutable_variables()


def _run_in(
    scope: Scope, fn: Any, module: Any, capture: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    outer = context.capture
    context.capture = capture
    try:
        return fn(module.clone(parent=scope, _deep_clone=True), *args, **kwargs)
    finally:
        context.capture = outer
        scope.invalidate()


def apply(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = False,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function of `(variables, *args, rngs=None, **kwargs)` that runs `fn`.

    Unless `mutable` is False it returns a pair: the result, and the mutable collections.

    Example:
        >>> layer = linen.Dense(2)
        >>> variables = layer.init(random.key(0), jnp.ones((1, 3)))
        >>> twice = linen.apply(lambda layer, x: layer(layer(x)[:, :1] * jnp.ones(3)), layer)
        >>> twice(variables, jnp.ones((1, 3))).shape
        (1, 2)
    """

    @functools.wraps(fn, updated=())
    def pure(variables: Mapping[str, Any], *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        return run_applied(
            fn, module, variables, rngs, mutable, capture_intermediates, args, kwargs
        )

    return pure


def init_with_output(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = NOT_INTERMEDIATES,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function `(rngs, *args, **kwargs) -> (result of fn, variables)`.

    `mutable` says which collections may be written, `capture_intermediates` which calls' results
    are stored. `fn` is called with a bound copy of `module`.
    Raises: the function returned raises what `check_instance` raises.
    Example:
        >>> make = linen.init_with_output(lambda layer, x: layer(x), linen.Dense(2))
        >>> out, variables = make(random.key(0), jnp.ones((1, 3)))
        >>> out.shape
        (1, 2)
    """

    @functools.wraps(fn, updated=())
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        return run_initialized(fn, module, rngs, mutable, capture_intermediates, args, kwargs)

    return pure


def init(
    fn: Callable[..., Any],
    module: Any,
    mutable: CollectionFilter = NOT_INTERMEDIATES,
    capture_intermediates: Capture = False,
) -> Callable[..., Any]:
    """Return a pure function of `(rngs, *args, **kwargs)` that creates the variables `fn` needs.

    `mutable` says which collections may be written, `capture_intermediates` which calls' results
    are stored. `fn` is called with a bound copy of `module`.
    Raises: the function returned raises what `check_instance` raises.
    Example:
        >>> make = linen.init(lambda layer, x: layer(x), linen.Dense(2))
        >>> kiln.tree.map(jnp.shape, make(random.key(0), jnp.ones((1, 3))))
        {'params': {'bias': (2,), 'kernel': (3, 2)}}
    """

    @functools.wraps(fn, updated=())
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        return run_initialized(fn, module, rngs, mutable, capture_intermediates, args, kwargs)[1]

    return pure


def _is_name(name: Any) -> bool:
    return isinstance(name, str)


def application_scope(module: Any, variables: Any, rngs: Any, mutable: CollectionFilter) -> Scope:
    """Return the root scope for variables passed by the user.

    Raises: ApplyScopeInvalidVariablesTypeError, ApplyScopeInvalidVariablesStructureError,
        InvalidRngError.
    """
    if not isinstance(variables, (dict, Mapping)) or not all(map(_is_name, variables)):
        raise ApplyScopeInvalidVariablesTypeError(variables)
    params = variables.get("params")
    if isinstance(params, (dict, Mapping)) and "params" in params:
        raise ApplyScopeInvalidVariablesStructureError(variables)
    roots = streams(rngs, f"apply of {type(module).__name__}") if rngs is not None else {}
    return Scope.root(variables, FoldedKeys(roots), mutable)


def method_of(module: Any, method: Any) -> Callable[..., Any]:
    """Return the function of a module that `method=` gives by name, function or bound method.

    The name may be that of a field that holds a submodule, which is then called.

    Raises: ApplyModuleInvalidMethodError, TypeError for a name that is not a method.
    """
    if method is None:
        # Of a class without `__call__` this attribute is that of its metaclass: it makes instances.
        if not any("__call__" in vars(base) for base in type(module).__mro__):
            raise AttributeError(
                f"call of {type(module).__name__} at {current_source()}\n"
                f'"{type(module).__name__}" object has no attribute "__call__"\n'
                "define it, or name another method: method='...'"
            )
        return type(module).__call__
    if isinstance(method, str):
        name = method
        found = getattr(module, name)
        if not callable(found):
            raise TypeError(
                f"method={method!r} of {type(module).__name__} at {current_source()}\n"
                f"'{type(module).__name__}.{method}' must be a callable, got {type(found)}\n"
                "name a method of the module"
            )
        if is_module(found):

            def of_submodule(module: Any, *args: Any, **kwargs: Any) -> Any:
                return getattr(module, name)(*args, **kwargs)

            return of_submodule
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
    """Raise unless `module` is a module whose `__post_init__` has run.

    `method` is what was called, for the message.
    Raises: InvalidInstanceModuleError, IncorrectPostInitOverrideError.
    """
    state = getattr(module, "_state", None)
    if state is None or isinstance(module, type):
        raise InvalidInstanceModuleError(method)
    if not state.made:
        raise IncorrectPostInitOverrideError(type(module).__name__)
