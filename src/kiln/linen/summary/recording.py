"""Recording the method calls of an init, with the types of their inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kiln.api.make_jaxpr import eval_shape
from kiln.base.tree import tree_map
from kiln.jit.signatures.struct import ShapeDtypeStruct
from kiln.linen.scopes.context import InterceptorContext, intercept_methods

Path = tuple[str, ...]


@dataclasses.dataclass
class Call:
    """One call of a method: its path, module, arguments. `module` is unbound and has no name."""

    path: Path
    module: Any
    method: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any = None
    repeated: bool = False


def recorded(init: Callable[[], Any]) -> tuple[list[Call], Any]:
    """Run an init on types only; return the calls in order, and the types of the result.

    A call is a repetition if the same module was called before.
    """
    calls: list[Call] = []
    seen: set[Path] = set()

    def note(
        following: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        about: InterceptorContext,
    ) -> Any:
        module = about.module
        # Lifted functions of a module are intercepted like its methods, but are not methods.
        is_method = hasattr(type(module), about.method_name)
        if about.method_name == "setup" or module.scope is None or not is_method:
            return following(*args, **kwargs)
        path = module.scope.path
        unbound = module.clone(_deep_clone=True, _reset_names=True, name=None)
        given, named = _types((args, kwargs))
        call = Call(path, unbound, about.method_name, given, named, repeated=path in seen)
        seen.add(path)
        calls.append(call)
        result = following(*args, **kwargs)
        call.result = _types(result)
        return result

    with intercept_methods(note):
        types = eval_shape(init)
    return calls, types


def _types(values: Any) -> Any:
    """Replace arrays by their types: the tracers of the init must not outlive it."""

    def of_leaf(x: Any) -> Any:
        if hasattr(x, "shape") and hasattr(x, "dtype"):
            return ShapeDtypeStruct(x.shape, x.dtype)
        return x

    return tree_map(of_leaf, values)


def paths_of(init: Callable[[], Any], last: bool = False) -> dict[str, Any]:
    """Return the modules that an init calls, by path: at the first call of each, or the last."""
    calls, _ = recorded(init)
    modules: dict[str, Any] = {}
    for call in calls:
        if last or not call.repeated:
            modules["/".join(call.path)] = call.module
    return modules
