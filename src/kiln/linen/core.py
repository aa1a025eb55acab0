"""What modules stand on, by the names of `flax.core`: scopes, frozen dictionaries, boxes, filters.

`apply`, `init` and `bind` take functions of a scope. The transformations of kiln.linen take modules
and functions of modules, and there are none for functions of scopes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from kiln.core.array_type import Array as Array
from kiln.linen import frozen_dict as frozen_dict
from kiln.linen.errors import (
    ApplyScopeInvalidVariablesStructureError,
    ApplyScopeInvalidVariablesTypeError,
)
from kiln.linen.frozen_dict import FrozenDict as FrozenDict
from kiln.linen.frozen_dict import copy as copy
from kiln.linen.frozen_dict import freeze as freeze
from kiln.linen.frozen_dict import pop as pop
from kiln.linen.frozen_dict import pretty_repr as pretty_repr
from kiln.linen.frozen_dict import unfreeze as unfreeze
from kiln.linen.metadata import AxisMetadata as AxisMetadata
from kiln.linen.metadata import map_axis_meta as map_axis_meta
from kiln.linen.metadata import unbox as unbox
from kiln.linen.module.lazy import lazily
from kiln.linen.scopes.filters import NOT_INTERMEDIATES as _NOT_INTERMEDIATES
from kiln.linen.scopes.filters import CollectionFilter as CollectionFilter
from kiln.linen.scopes.filters import DenyList as DenyList
from kiln.linen.scopes.filters import PRNGSequenceFilter as PRNGSequenceFilter
from kiln.linen.scopes.filters import in_filter as in_filter
from kiln.linen.scopes.filters import intersect_filters as intersect_filters
from kiln.linen.scopes.filters import is_filter_empty as is_filter_empty
from kiln.linen.scopes.filters import subtract_filters as subtract_filters
from kiln.linen.scopes.filters import union_filters as union_filters
from kiln.linen.scopes.scope import Scope as Scope
from kiln.linen.scopes.scope import Variable as Variable
from kiln.linen.transforms.axes import broadcast as broadcast

Collection = Mapping[str, Any]
VariableDict = Mapping[str, Collection]
FrozenVariableDict = FrozenDict[str, Collection]
MutableVariableDict = dict[str, dict[str, Any]]


def bind(
    variables: Any,
    rngs: Any = None,
    mutable: CollectionFilter = False,
    flags: Mapping[str, Any] | None = None,
) -> Scope:
    """Return a root scope of these variables and keys.

    Raises: ApplyScopeInvalidVariablesTypeError, ApplyScopeInvalidVariablesStructureError,
        InvalidRngError.
    """
    if not isinstance(variables, Mapping) or not all(isinstance(name, str) for name in variables):
        raise ApplyScopeInvalidVariablesTypeError(variables)
    params = variables.get("params")
    if isinstance(params, Mapping) and "params" in params:
        raise ApplyScopeInvalidVariablesStructureError(variables)
    return Scope(variables, rngs, mutable=mutable, flags=flags or {})


def apply(
    fn: Callable[..., Any],
    mutable: CollectionFilter = False,
    flags: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a pure function of `(variables, *args, rngs=None, **kwargs)` that runs `fn`.

    Unless `mutable` is False it returns a pair: the result, and the mutable collections.
    """

    @functools.wraps(fn)
    def pure(variables: Any, *args: Any, rngs: Any = None, **kwargs: Any) -> Any:
        root = bind(variables, rngs, mutable, flags)
        try:
            result = fn(root, *args, **kwargs)
        finally:
            root.invalidate()
        return result if mutable is False else (result, root.mutable_variables())

    return pure


def init(
    fn: Callable[..., Any],
    mutable: CollectionFilter = True,
    flags: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a pure function `(rngs, *args, **kwargs) -> (result of fn, variables)`.

    `mutable` says which collections `fn(scope, ...)` may write; `flags` are those of the scope.
    """
    given = {"initializing": True, **(flags or {})}

    @functools.wraps(fn)
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        run = apply(fn, mutable, given)
        return run({}, *args, rngs=rngs, **kwargs)

    return pure


def lazy_init(
    fn: Callable[..., Any],
    mutable: CollectionFilter = _NOT_INTERMEDIATES,
    flags: Mapping[str, Any] | None = None,
) -> Callable[..., Any]:
    """Return a function of `(rngs, *args)` that creates variables from shapes of arguments.

    Raises: LazyInitError if a variable depends on the values of such an argument.
    """

    @functools.wraps(fn)
    def pure(rngs: Any, *args: Any, **kwargs: Any) -> Any:
        started = init(fn, mutable, flags)
        return lazily(lambda *all_args, **k: started(*all_args, **k)[1], (rngs, *args), kwargs)

    return pure
