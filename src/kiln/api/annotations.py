"""Annotations of jaxtyping, such as `Float[Array, "n m"]`, checked while a function is traced.

Names of axes are bound within a call: the first array with an axis `n` says what `n` is.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import typing
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

from kiln.base.errors import three_lines
from kiln.base.lazy import jaxtyping
from kiln.base.source import api_boundary, current_source, definition_of
from kiln.base.wrapping import wraps
from kiln.core.array_type import Array
from kiln.core.trace import aval_of

P = ParamSpec("P")
R = TypeVar("R")


def checked(fun: Callable[P, R]) -> Callable[P, R]:
    """Check jaxtyping's annotations of a function, those of its parameters and of its result.

    Under `jit` they are checked while the function is traced, and cost nothing afterwards; under
    `vmap` they are those of one example. Other annotations are not looked at. Containers are
    checked item by item: tuples, lists and dicts; of unions one member suffices.

    Raises: TypeError if an argument or the result does not have the dtype or shape of its
        annotation.
    Example:
        >>> from jaxtyping import Float
        >>> @kiln.jit
        ... @kiln.typing.checked
        ... def product(
        ...     x: Float[kiln.Array, "n m"], y: Float[kiln.Array, "m k"]
        ... ) -> Float[kiln.Array, "n k"]:
        ...     return x @ y
        >>> product(jnp.ones((2, 3)), jnp.ones((3, 4))).shape
        (2, 4)
    """
    signature = inspect.signature(fun)

    @wraps(fun)
    @api_boundary
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        # At each call, which under `jit` is a trace: names may be defined after the function.
        found = typing.get_type_hints(fun)
        hints = {name: hint for name, hint in found.items() if _is_checked(hint)}
        if not hints:
            return fun(*args, **kwargs)
        given = signature.bind(*args, **kwargs).arguments
        with jaxtyping.jaxtyped("context"):
            for name, value in given.items():
                if name in hints:
                    each = _several(signature.parameters[name], value)
                    for path, item in each:
                        _check(fun, f"argument {name}{path}", item, hints[name], "pass")
            result = fun(*args, **kwargs)
            if "return" in hints:
                _check(fun, "the result", result, hints["return"], "return")
        return result

    return wrapper


def _is_array(hint: Any) -> bool:
    # Only who has imported jaxtyping has such classes.
    if not type(hint).__module__.startswith("jaxtyping."):
        return False
    return isinstance(hint, type) and issubclass(hint, jaxtyping.AbstractArray)


def _is_checked(hint: Any) -> bool:
    return _is_array(hint) or any(map(_is_checked, typing.get_args(hint)))


def _several(parameter: inspect.Parameter, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the values of a parameter: several for `*args` and `**kwargs`."""
    if parameter.kind is parameter.VAR_POSITIONAL:
        yield from ((f"[{i}]", item) for i, item in enumerate(value))
    elif parameter.kind is parameter.VAR_KEYWORD:
        yield from ((f"[{key!r}]", item) for key, item in value.items())
    else:
        yield "", value


def _check(fun: Any, what: str, value: Any, hint: Any, verb: str) -> None:
    """Raise TypeError if a value, or an item in it, is not what its annotation says."""
    for path, item, wanted in _mistakes("", value, hint):
        raise TypeError(_message(fun, what + path, item, wanted, verb))


def _mistakes(path: str, value: Any, hint: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what does not have its annotation: its path, the value, the annotation."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if not _is_checked(hint):
        return
    if _is_array(hint):
        if not isinstance(value, hint):
            yield path, value, hint
    elif origin is tuple and isinstance(value, tuple):
        hints = [args[0]] * len(value) if args[1:] == (...,) else args
        if len(hints) != len(value):
            yield path, value, hint
        for i, (item, wanted) in enumerate(zip(value, hints, strict=False)):
            yield from _mistakes(f"{path}[{i}]", item, wanted)
    elif origin is list and isinstance(value, list):
        for i, item in enumerate(value):
            yield from _mistakes(f"{path}[{i}]", item, args[0])
    elif origin is dict and isinstance(value, dict):
        for key, item in value.items():
            yield from _mistakes(f"{path}[{key!r}]", item, args[1])
    elif not any(_fits(value, member) for member in args):
        yield path, value, hint


def _fits(value: Any, member: Any) -> bool:
    """Tell whether a value is of a member of a union."""
    if _is_checked(member):
        return not any(True for _ in _mistakes("", value, member))
    plain = typing.get_origin(member) or member
    return not isinstance(plain, type) or isinstance(value, plain)


def _message(fun: Any, what: str, value: Any, hint: Any, verb: str) -> str:
    name = getattr(hint, "__name__", None) if _is_array(hint) else None
    sizes = _bound()
    known = f" where {', '.join(f'{k}={v}' for k, v in sizes.items())}" if sizes else ""
    return three_lines(
        f"call of {definition_of(fun)} at {current_source()}",
        f"{what} is {_shown(value)}, but it is annotated as {name or hint}{known}",
        _remedy(value, hint, sizes, verb)
        if _is_array(hint)
        else f"{verb} what the annotation says",
    )


def _shown(value: Any) -> str:
    if isinstance(value, Array):
        return str(aval_of(value))
    kind = f"a {type(value).__name__}"
    return f"{kind} of {value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else kind


def _remedy(value: Any, hint: Any, sizes: dict[str, str], verb: str) -> str:
    if not isinstance(value, hint.array_type):
        return f"{verb} an array: kiln.numpy.asarray(...)"
    # Of any dtype, it is an object that is not a tuple.
    if isinstance(hint.dtypes, tuple) and str(value.dtype) not in hint.dtypes:
        usual = [name for name in ("float32", "int32", "complex64") if name in hint.dtypes]
        return f"{verb} another dtype: .astype({(usual or hint.dtypes)[0]!r})"
    axes = [sizes.get(axis, axis) for axis in hint.dim_str.split()]
    comma = "," if len(axes) == 1 else ""
    return f"{verb} an array of shape ({', '.join(axes)}{comma}), or change the annotation"


def _bound() -> dict[str, str]:
    """Return the sizes that the names of axes have in this call."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        jaxtyping.print_bindings()
    found = [line.partition("=") for line in said.getvalue().splitlines() if "=" in line]
    return {name.strip(): size for name, _, size in found if name.strip().isidentifier()}
