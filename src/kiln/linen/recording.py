"""Recording the method calls of an init, with the types of their inputs and outputs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kiln.api.make_jaxpr import eval_shape
from kiln.linen.context import InterceptorContext, intercept_methods

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
        if about.method_name == "setup" or module.scope is None:
            return following(*args, **kwargs)
        path = module.scope.path
        unbound = module.clone(_deep_clone=True, _reset_names=True, name=None)
        call = Call(path, unbound, about.method_name, args, kwargs, repeated=path in seen)
        seen.add(path)
        calls.append(call)
        call.result = following(*args, **kwargs)
        return call.result

    with intercept_methods(note):
        types = eval_shape(init)
    return calls, types


def paths_of(init: Callable[[], Any], last: bool = False) -> dict[str, Any]:
    """Return the modules that an init calls, by path: at the first call of each, or the last."""
    calls, _ = recorded(init)
    modules: dict[str, Any] = {}
    for call in calls:
        if last or not call.repeated:
            modules["/".join(call.path)] = call.module
    return modules
