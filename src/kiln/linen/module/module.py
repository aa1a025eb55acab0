"""Modules: dataclasses whose fields are hyper-parameters and whose methods use named variables.

A module is a value: modules with equal classes and fields are equal. Bound to a scope it may read
and write variables and draw keys; `setup` or a compact method creates its submodules and
parameters.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, ClassVar, Self, dataclass_transform

from kiln.base.class_annotations import own_annotations
from kiln.base.source import current_source
from kiln.linen.errors import (
    AssignSubModuleError,
    CallCompactUnboundModuleError,
    CallSetupUnboundModuleError,
    CallShareScopeOnUnboundModuleError,
    CallUnbindOnUnboundModuleError,
    NameInUseError,
    ReservedModuleAttributeError,
    SetAttributeFrozenModuleError,
    SetAttributeInModuleSetupError,
)
from kiln.linen.module.application import application_scope, check_instance
from kiln.linen.module.fields import PLAIN, frozen, map_modules
from kiln.linen.module.methods import compact, name_scope_methods, wrap_methods
from kiln.linen.module.printing import module_text
from kiln.linen.module.pure import PureFunctions
from kiln.linen.scopes.context import context, intercepted
from kiln.linen.scopes.filters import CollectionFilter
from kiln.linen.scopes.scope import Scope
from kiln.linen.scopes.variables import HasVariables
from kiln.linen.scopes.variables import merge_param as merge_param


class _Unspecified:
    """The parent of a module created without `parent=`: the module whose method is running."""

    def __repr__(self) -> str:
        return "<the module being run>"

    def __reduce__(self) -> str:
        return "UNSPECIFIED_PARENT"


UNSPECIFIED_PARENT = _Unspecified()
# Python looks these up when copying and pickling; they are unrelated to `setup`.
_NEVER_SET_UP = frozenset({"__deepcopy__", "__copy__", "__getstate__", "__setstate__", "_state"})


class SetupState(enum.Enum):
    """Whether the `setup` of an instance has run."""

    NEW = 0
    TRANSFORMED = 1
    DONE = 2


class ModuleState:
    """The run-time state of one instance; not part of its value."""

    __slots__ = (
        "autonames",
        "children",
        "in_compact",
        "in_setup",
        "initialized",
        "made",
        "name_scopes",
        "set_up",
    )

    def __init__(self) -> None:
        self.made = False
        self.initialized = False
        self.in_setup = False
        self.set_up = False
        self.in_compact = False
        self.autonames: dict[str, int] = {}
        self.children: dict[str, Module] = {}
        self.name_scopes: dict[str, Module] = {}

    @property
    def setup_called(self) -> SetupState:
        """Whether `setup` has run; lifted copies run it anew, and are never TRANSFORMED."""
        return SetupState.DONE if self.set_up else SetupState.NEW


@dataclass_transform(field_specifiers=(dataclasses.field,))
@dataclasses.dataclass(repr=False, eq=False)
class Module(HasVariables, PureFunctions):
    """A function with named parameters, submodules and state.

    Subclasses are dataclasses: annotate hyperparameters as fields, and write `__call__` with
    `@compact`, or create submodules in `setup`.

    Example:
        >>> class Mlp(linen.Module):
        ...     width: int
        ...
        ...     @linen.compact
        ...     def __call__(self, x):
        ...         return linen.Dense(1)(linen.relu(linen.Dense(self.width)(x)))
        >>> model = Mlp(width=8)
        >>> variables = model.init(random.key(0), jnp.ones((5, 2)))
        >>> model.apply(variables, jnp.ones((5, 2))).shape
        (5, 1)
        >>> model.bind(variables).width
        8
    """

    parent: Any = dataclasses.field(
        default=UNSPECIFIED_PARENT, repr=False, compare=False, kw_only=True
    )
    name: str | None = dataclasses.field(default=None, compare=False, kw_only=True)

    _state: ClassVar[ModuleState]
    _hyperparameters: ClassVar[tuple[str, ...]] = ()
    _compact_name_scope_methods: ClassVar[dict[str, Callable[..., Any]]] = {}

    def __init_subclass__(cls, kw_only: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        own = own_annotations(cls)
        reserved: list[str] = [name for name in ("parent", "name") if name in own]
        if reserved:
            raise ReservedModuleAttributeError(cls.__name__, reserved)
        has_hash = "__hash__" in vars(cls)
        dataclasses.dataclass(
            repr=False, eq="__eq__" not in vars(cls), unsafe_hash=not has_hash, kw_only=kw_only
        )(cls)
        fields: dict[str, Any] = cls.__dataclass_fields__
        for name in ("_state", "_hyperparameters", "_compact_name_scope_methods"):
            fields.pop(name, None)
        # Those of the user come first, as in the signature.
        for name in ("parent", "name"):
            fields[name] = fields.pop(name)
        if not has_hash:
            cls.__hash__ = _unbound_hash(cls.__hash__)  # type: ignore[method-assign,assignment]
        # Only now are the fields known: a function may be a default.
        wrap_methods(cls)
        cls._compact_name_scope_methods = name_scope_methods(cls)
        cls._hyperparameters = tuple(
            f.name for f in dataclasses.fields(cls) if f.init and f.name not in ("parent", "name")
        )

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create an instance with its run-time state."""
        module = super().__new__(cls)
        module.__dict__["_state"] = ModuleState()
        return module

    def __post_init__(self) -> None:
        self._state.made = True
        if self.parent is UNSPECIFIED_PARENT:
            object.__setattr__(self, "parent", context.modules[-1])
        parent = self.parent
        if isinstance(parent, Module):
            if parent._state.in_setup and self.name is None:
                # Named when `setup` assigns it.
                return
            object.__setattr__(self, "scope", self._place_under(parent))
        elif isinstance(parent, Scope):
            object.__setattr__(self, "scope", parent)
        elif parent is not None:
            raise ValueError(
                f"{type(self).__name__}(parent={parent!r}) at {current_source()}\n"
                "parent must be None, Module or Scope\nleave it out"
            )
        if self.scope is not None:
            own = self.__dict__
            for name in self._hyperparameters:
                value = own[name]
                if type(value) not in PLAIN:
                    self._attach(name, frozen(value))
            self._state.initialized = True

    def _place_under(self, parent: Module) -> Scope:
        kind = type(self).__name__
        if not parent._may_initialize or parent.scope is None:
            raise AssignSubModuleError(kind, type(parent).__name__)
        if self.name is None:
            used = parent._state.autonames
            count = used.get(kind, 0)
            used[kind] = count + 1
            object.__setattr__(self, "name", f"{kind}_{count}")
        assert self.name is not None
        if parent.scope.name_reserved(self.name):
            raise NameInUseError("submodule", self.name, type(parent).__name__)
        parent._state.children[self.name] = self
        return parent.scope.push(self.name)

    # ---- attributes

    def __setattr__(self, name: str, value: Any) -> None:
        state = self._state
        if not state.in_setup:
            if state.initialized:
                raise SetAttributeFrozenModuleError(type(self).__name__, name, value)
            object.__setattr__(self, name, value)
        elif name in self._hyperparameters or name in ("parent", "name"):
            raise SetAttributeInModuleSetupError(type(self).__name__, name)
        else:
            self._attach(name, frozen(value))

    def __delattr__(self, name: str) -> None:
        if self._state.initialized and not self._state.in_setup:
            raise SetAttributeFrozenModuleError(type(self).__name__, name, None)
        object.__delattr__(self, name)

    def __getattr__(self, name: str) -> Any:
        if name in _NEVER_SET_UP:
            raise AttributeError(name)
        self._set_up()
        if name in self.__dict__:
            return self.__dict__[name]
        kind = type(self).__name__
        hint = f"assign it in setup of {kind}"
        if self.scope is None:
            hint += "; what setup assigns is there inside init, apply and bind only"
        raise AttributeError(
            f"{kind}.{name} at {current_source()}\n"
            f'"{kind}" object has no attribute "{name}"\n{hint}'
        )

    def __dir__(self) -> list[str]:
        self._set_up()
        return sorted({*object.__dir__(self), *self.__dict__})

    def __repr__(self) -> str:
        return module_text(self)

    def __reduce__(self) -> Any:
        values = {name: getattr(self, name) for name in self._hyperparameters}
        return _made_again, (type(self), {**values, "name": self.name})

    def _attach(self, attribute: str, value: Any) -> None:
        """Set an attribute; modules inside it become submodules named after it."""
        named: list[Module] = []
        scope = self.scope
        if scope is None:
            object.__setattr__(self, attribute, value)
            return
        # A module passed from outside is copied, once for all its uses in the application.
        adopted = scope.shared.adopted
        keeps_names = getattr(type(self), "preserve_adopted_names", False)

        def adopt(suffix: str, module: Module) -> Module:
            name = f"{attribute}{suffix}"
            if module.parent is None:
                if keeps_names and module.name is not None:
                    name = module.name
                known = adopted.get(id(module))
                if known is None:
                    known = adopted[id(module)] = (module, module.clone(name=None))
                module = known[1]
            if module.name is None:
                object.__setattr__(module, "parent", self)
                object.__setattr__(module, "name", name)
                named.append(module)
            return module

        object.__setattr__(self, attribute, map_modules(adopt, value))
        for module in named:
            module.__post_init__()

    # ---- running

    @property
    def _may_initialize(self) -> bool:
        state = self._state
        return state.in_setup or state.in_compact or not state.initialized

    def _set_up(self) -> None:
        """Run `setup`, once, when it is first needed."""
        state = self._state
        if state.set_up or state.in_setup or self.scope is None:
            return
        state.in_setup = True
        try:
            self.setup()
            for name, method in type(self)._compact_name_scope_methods.items():
                state.name_scopes[name] = CompactNameScope(
                    method, lambda: self, parent=self, name=name
                )
        finally:
            state.in_setup = False
            state.set_up = True
            if not state.in_compact:
                state.autonames.clear()

    def _run_method(
        self,
        method: Callable[..., Any],
        name: str,
        is_compact: bool,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Run a method as the current module: `setup` first, with interceptors and capture."""
        state = self._state
        scope = self.scope
        if name == "setup":
            if scope is None:
                raise CallSetupUnboundModuleError(type(self).__name__)
        elif not state.set_up:
            self._set_up()
        outermost = is_compact and not state.in_compact
        if is_compact:
            if scope is None:
                raise CallCompactUnboundModuleError(type(self).__name__, name)
            state.in_compact = True
        outer = context.modules
        context.modules = (*outer, self)
        try:
            if context.interceptors:
                result = intercepted(self, name, method, args, kwargs)
            else:
                result = method(self, *args, **kwargs)
            capture = context.capture
            if capture and scope is not None and capture(self, name):
                self.sow("intermediates", name, result)
            return result
        finally:
            context.modules = outer
            if is_compact:
                assert self.scope is not None
                object.__setattr__(self, "scope", self.scope.rewound())
                if outermost:
                    state.in_compact = False
                    state.autonames.clear()

    def setup(self) -> None:
        """Create submodules and variables; runs first once the module is bound."""

    # ---- copies

    def clone(
        self,
        *,
        parent: Any = None,
        _deep_clone: bool | dict[int, Any] = False,
        _reset_names: bool = False,
        **updates: Any,
    ) -> Self:
        """Return an unbound module of the same class and fields, with some fields changed."""
        own = self.__dict__
        values = {name: own[name] for name in self._hyperparameters}
        if _deep_clone is not False:
            seen: dict[int, Any] = {} if _deep_clone is True else _deep_clone

            def fresh(suffix: str, module: Module) -> Module:
                if id(module) not in seen:
                    names = {"name": None} if _reset_names else {}
                    copy = module.clone(_deep_clone=seen, _reset_names=_reset_names, **names)
                    seen[id(module)] = copy
                return seen[id(module)]  # type: ignore[no-any-return]

            for name, value in values.items():
                if type(value) not in PLAIN:
                    values[name] = map_modules(fresh, value)
        values["name"] = self.name
        values["parent"] = parent
        values.update(updates)
        return type(self)(**values)

    def copy(
        self, *, parent: Any = UNSPECIFIED_PARENT, name: str | None = None, **updates: Any
    ) -> Self:
        """Return a module with the same fields as a new submodule of the running module."""
        return self.clone(parent=parent, name=name, _deep_clone=True, _reset_names=False, **updates)

    def bind(
        self, variables: Any, *args: Any, rngs: Any = None, mutable: CollectionFilter = False
    ) -> Self:
        """Return a module bound to these variables and keys, for interactive use."""
        check_instance(self, "bind")
        scope = application_scope(self, variables, rngs, mutable)
        return self.clone(parent=scope, _deep_clone=True)

    def unbind(self) -> tuple[Self, dict[str, Any]]:
        """Return the module without variables, and its variables.

        Raises: CallUnbindOnUnboundModuleError if it has none.
        """
        if self.scope is None:
            raise CallUnbindOnUnboundModuleError(type(self).__name__)
        variables = self.variables
        return self.clone(_deep_clone=True, _reset_names=True, name=None), variables


def _unbound_hash(of_fields: Callable[[Any], int]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        if self.scope is not None:
            raise TypeError(
                f"hash of {type(self).__name__} at {current_source()}\n"
                "Can't call __hash__ on modules that hold variables.\n"
                "use the module that it is a bound copy of"
            )
        return of_fields(self)

    return __hash__


def _made_again(cls: type[Module], values: dict[str, Any]) -> Module:
    return cls(parent=None, **values)


def share_scope(module: Module, other: Module, /) -> None:
    """Make two modules share one scope; called in `setup` of the first.

    It is the scope of the first module if the second is created inside it, otherwise of the second.
    Raises: CallShareScopeOnUnboundModuleError unless both are bound.
    Example:
        >>> class Outer(linen.Module):
        ...     def setup(self):
        ...         self.inner = linen.Dense(2)
        ...         linen.share_scope(self, self.inner)
        ...
        ...     def __call__(self, x):
        ...         return self.inner(x)
        >>> sorted(Outer().init(random.key(0), jnp.ones((1, 3)))["params"])
        ['bias', 'kernel']
    """
    if module.scope is None or other.scope is None:
        which = module if module.scope is None else other
        raise CallShareScopeOnUnboundModuleError(type(which).__name__)
    if other.scope.inner[: len(module.scope.inner)] == module.scope.inner:
        _move(other, module.scope)
    else:
        _move(module, other.scope)


def _move(module: Module, scope: Scope) -> None:
    assert module.scope is not None
    before = module.scope.inner
    object.__setattr__(module, "scope", scope)
    for name, child in module._state.children.items():
        if child.scope is not None and child.scope.inner == (*before, name):
            scope.reserve(name)
            _move(child, scope.child(name, child.scope.counts, child.scope.drawing))


class CompactNameScope(Module):
    """The submodule, named after it, in which a `compact_name_scope` method runs."""

    fun: Callable[..., Any]
    owner: Callable[[], Module]

    @compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the method."""
        return self.fun(self.owner(), *args, **kwargs)
