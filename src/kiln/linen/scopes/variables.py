"""The operations of a bound module on its scope: reading and writing variables, drawing keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from kiln.base.source import current_source
from kiln.base.tree import tree_map
from kiln.linen.errors import NameInUseError
from kiln.linen.scopes.scope import Scope, Variable
from kiln.numpy.creation.filling import zeros_like

_NO_KEYS = "Can't use RNGs"


def _append(values: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    return (*values, value)


class HasVariables:
    """The methods of a module that need a scope; without one, all of them raise ValueError."""

    scope: ClassVar[Scope | None] = None

    @property
    def _may_initialize(self) -> bool:
        raise NotImplementedError

    def _bound(self, asked: str, wrong: str = "Can't access variables") -> Scope:
        if self.scope is None:
            raise ValueError(
                f"{type(self).__name__}.{asked} at {current_source()}\n"
                f"{wrong} on unbound modules\n"
                "use init, apply or bind"
            )
        return self.scope

    def param(
        self,
        name: str,
        init_fn: Callable[..., Any],
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Any:
        """Return a parameter, created by `init_fn(key, *init_args)` if it does not exist.

        Raises: NameInUseError; ScopeParamNotFoundError, ScopeCollectionNotFound if it does not
            exist and cannot be created; ScopeParamShapeError if it has another shape.
        """
        scope = self._initializing_scope(f"param({name!r})", "Parameters", name, "params")
        return scope.param(name, init_fn, *init_args, unbox=unbox, **init_kwargs)

    def variable(
        self,
        col: str,
        name: str,
        init_fn: Callable[..., Any] | None = None,
        *init_args: Any,
        unbox: bool = True,
        **init_kwargs: Any,
    ) -> Variable[Any]:
        """Return a variable of a collection, created by `init_fn(*init_args)` if it does not exist.

        Raises: NameInUseError; ScopeVariableNotFoundError, ScopeCollectionNotFound if it does not
            exist and cannot be created.
        """
        scope = self._initializing_scope(f"variable({col!r}, {name!r})", "Variables", name, col)
        return scope.variable(col, name, init_fn, *init_args, unbox=unbox, **init_kwargs)

    def _initializing_scope(self, asked: str, what: str, name: str, collection: str) -> Scope:
        if not self._may_initialize:
            raise ValueError(
                f"{type(self).__name__}.{asked} at {current_source()}\n"
                f"{what} must be initialized in `setup()` or in a method wrapped in `@compact`\n"
                "make it there, and use it here"
            )
        scope = self._bound(asked)
        if scope.name_reserved(name, collection):
            kind = "param" if collection == "params" else "variable"
            raise NameInUseError(kind, name, type(self).__name__)
        return scope

    def has_variable(self, col: str, name: str) -> bool:
        """Tell whether the module has a variable of that collection and name."""
        return self._bound("has_variable").has_variable(col, name)

    def get_variable(self, col: str, name: str, default: Any = None) -> Any:
        """Return the value of a variable, or the default."""
        return self._bound("get_variable").get_variable(col, name, default)

    def put_variable(self, col: str, name: str, value: Any) -> None:
        """Write a variable.

        Raises: ModifyScopeVariableError if the collection is immutable.
        """
        self._bound("put_variable").put_variable(col, name, value)

    def is_mutable_collection(self, col: str) -> bool:
        """Tell whether the variables of a collection may be written."""
        return self._bound("is_mutable_collection").is_mutable_collection(col)

    def has_rng(self, name: str) -> bool:
        """Tell whether there is a stream of keys of that name."""
        return self._bound("has_rng", _NO_KEYS).has_rng(name)

    def make_rng(self, name: str = "params") -> Any:
        """Draw a key from a stream, or from `params` if there is none of that name.

        Raises: InvalidRngError if there is neither.
        """
        return self._bound(f"make_rng({name!r})", _NO_KEYS).make_rng(name)

    def is_initializing(self) -> bool:
        """Tell whether the module runs inside `init`."""
        return bool(self._bound("is_initializing").get_flag("initializing", False))

    @property
    def variables(self) -> dict[str, Any]:
        """The variables of this module and those below, by collection."""
        return self._bound("variables").variables()

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the path from the outermost module to this one."""
        return self._bound("path").path

    def sow(
        self,
        col: str,
        name: str,
        value: Any,
        reduce_fn: Callable[[Any, Any], Any] = _append,
        init_fn: Callable[[], Any] = tuple,
    ) -> bool:
        """Add a value to a variable, if its collection is mutable; return whether it is."""
        scope = self._bound(f"sow({col!r}, {name!r})")
        if not scope.is_mutable_collection(col):
            return False
        if scope.has_variable(col, name):
            before = scope.get_variable(col, name)
        else:
            scope.reserve(name, col)
            before = init_fn()
        scope.put_variable(col, name, reduce_fn(before, value))
        return True

    def perturb(self, name: str, value: Any, collection: str = "perturbations") -> Any:
        """Add a variable of zeros to a value, to differentiate with respect to the value.

        Without the collection, the value is returned unchanged.
        Raises: ValueError if the collection exists but has no such variable.
        """
        scope = self._bound(f"perturb({name!r})")
        if scope.is_mutable_collection(collection):
            if not scope.has_variable(collection, name):
                scope.reserve(name, collection)
                scope.put_variable(collection, name, tree_map(zeros_like, value))
        elif collection not in scope.shared.collections:
            return value
        elif not scope.has_variable(collection, name):
            raise ValueError(
                f"{type(self).__name__}.perturb({name!r}) in {scope.path_text!r}"
                f" at {current_source()}\n"
                f"Perturbation collection {collection} present, but missing perturbation variable "
                f"{name}\ninitialize it with the same perturbations, or leave the collection out"
            )
        return tree_map(lambda x, d: x + d, value, scope.get_variable(collection, name))


def merge_param(name: str, a: Any, b: Any) -> Any:
    """Return the one of two settings, a field and an argument, that is not None.

    Raises: ValueError if both or neither are given.
    Example:
        >>> linen.merge_param("deterministic", None, True)
        True
    """
    if a is None and b is None:
        raise ValueError(
            f"merge_param({name!r}, None, None) at {current_source()}\n"
            f'Parameter "{name}" must be passed to the constructor or at call time\n'
            f"give {name}="
        )
    if a is not None and b is not None:
        raise ValueError(
            f"merge_param({name!r}, {a!r}, {b!r}) at {current_source()}\n"
            f'Parameter "{name}" was passed to the constructor and at call time. '
            "Should be passed just once\n"
            f"leave {name} out of one of the two"
        )
    return b if a is None else a
