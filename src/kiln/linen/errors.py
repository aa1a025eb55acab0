"""Mistakes in programs with modules: one class each, every message in three lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source


class LinenError(Exception):
    """The base class of all errors in programs with modules."""

    def __init__(self, asked: str, wrong: str, remedy: str) -> None:
        super().__init__(three_lines(f"{asked} at {current_source()}", wrong, remedy))


FlaxError = LinenError


def _listed(names: Sequence[str]) -> str:
    return f"the collections {list(names)}" if names else "no collections"


class LazyInitError(LinenError):
    """A variable's initial value depends on an input of which only the shape is given."""

    def __init__(self, dependent: str) -> None:
        super().__init__(
            f"lazy_init of {dependent}",
            "its first value depends on an input that has a shape and no values",
            "give lazy_init an array for that input",
        )


class InvalidRngError(LinenError, ValueError):
    """A random key is missing, or an argument is not a key."""


class ApplyScopeInvalidVariablesTypeError(LinenError):
    """The variables are not a dictionary."""

    def __init__(self, variables: Any) -> None:
        super().__init__(
            f"apply with variables of type {type(variables).__name__}",
            "The first argument passed to an apply function should be a dictionary of "
            "collections, each with string keys",
            "write apply({'params': params}, ...)",
        )


class ApplyScopeInvalidVariablesStructureError(LinenError):
    """A collection lies inside one of the same name."""

    def __init__(self, variables: Any) -> None:
        super().__init__(
            f"apply with variables {sorted(variables)}, where 'params' holds {['params']}",
            "Expect the variables to have a 'params' key at the top level once, not twice",
            "write apply(variables, ...) in place of apply({'params': variables}, ...)",
        )


class ScopeParamNotFoundError(LinenError):
    """A parameter is read that was not passed."""

    def __init__(self, name: str, path: str, there: str) -> None:
        super().__init__(
            f"param {name!r} in {path!r}",
            f'Could not find parameter named "{name}" in scope "{path}": {there}',
            "pass the variables that init of the same module returned",
        )


class ScopeCollectionNotFound(LinenError):
    """A variable is read from a collection that is missing or empty."""

    def __init__(self, collection: str, name: str, path: str, given: Sequence[str]) -> None:
        super().__init__(
            f"variable {name!r} in {path!r}",
            f'Tried to access "{name}" from collection "{collection}" in "{path}" but the '
            f"collection is empty: the variables hold {_listed(given)}",
            f"pass variables that hold {collection!r}, as in apply({{{collection!r}: ...}}, ...), "
            "or lift it into the transformation",
        )


class ScopeParamShapeError(LinenError):
    """A parameter has another shape than its initializer returns."""

    def __init__(self, name: str, path: str, given: Any, made: Any) -> None:
        super().__init__(
            f"param {name!r} in {path!r} of shape {given}",
            f'For parameter "{name}" in "{path}", the given initializer is expected to generate '
            f"shape {made}, but the existing parameter it received has shape {given}",
            "give inputs like those the parameters were initialized with, or initialize them again",
        )


class ScopeVariableNotFoundError(LinenError):
    """A variable is read that was not passed."""

    def __init__(self, name: str, collection: str, path: str, there: str) -> None:
        super().__init__(
            f"variable {name!r} of {collection!r} in {path!r}",
            f'No Variable named "{name}" for collection "{collection}" exists in "{path}": {there}',
            f"pass variables that hold it, or make it with mutable={[collection]}",
        )


class InvalidFilterError(LinenError):
    """A filter is not a bool, a name, a collection of names or a DenyList."""

    def __init__(self, given: Any) -> None:
        super().__init__(
            f"filter {given!r}",
            f'Invalid Filter: "{given}"',
            "use True, False, a name, a list of names, or DenyList(names)",
        )


class InvalidScopeError(LinenError):
    """A module is used after the init or apply that it belongs to."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"use of the module at {path!r}",
            f'The scope "{path}" is no longer valid: its init or apply has returned',
            "use modules inside the call that binds them, or bind(variables) for longer",
        )


class ModifyScopeVariableError(LinenError):
    """A variable of an immutable collection is written."""

    def __init__(self, collection: str, name: str, path: str) -> None:
        super().__init__(
            f"write of {name!r} in {path!r}",
            f'Cannot update variable "{name}" in "{path}" because collection "{collection}" is '
            "immutable",
            f"write apply(..., mutable={[collection]}) and take the new variables it returns",
        )


class JaxTransformError(LinenError):
    """A variable is assigned a value that belongs to a transformation inside the module."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"write in {path!r} under a transformation",
            "Jax transforms and Flax models cannot be mixed: the value belongs to a transformation "
            "that began inside the module, and would outlive it",
            "use kiln.linen's jit, vmap, scan, grad, ... inside modules, or transform apply itself",
        )


class PartitioningUnspecifiedError(LinenError):
    """A lifted transformation adds an unnamed axis to boxed variables."""

    def __init__(self, target: Any) -> None:
        super().__init__(
            f"a new axis of {target}",
            'Trying to transform a Partitioned variable but "partition_name" is not specified in '
            "metadata_params",
            'write metadata_params={"partition_name": name of the axis, or None}',
        )


class NameInUseError(LinenError):
    """Two parts of a module have the same name."""

    def __init__(self, kind: str, name: str, module: str) -> None:
        super().__init__(
            f"{kind} {name!r} of {module}",
            f'Could not create {kind} "{name}" in Module {module}: Name in use',
            "give one of the two another name",
        )


class AssignSubModuleError(LinenError):
    """A submodule is created outside `setup` and compact methods."""

    def __init__(self, submodule: str, parent: str) -> None:
        super().__init__(
            f"{submodule} made in a method of {parent}",
            f"Submodule {submodule} must be defined in `setup()` or in a method wrapped in "
            "`@compact`",
            f"make it in setup of {parent}, or decorate the method with @compact",
        )


class SetAttributeInModuleSetupError(LinenError):
    """A field is assigned in `setup`."""

    def __init__(self, module: str, name: str) -> None:
        super().__init__(
            f"{module}.{name} = ... in setup",
            "Module construction attributes are frozen",
            f"assign to another name, or change {name} in __post_init__ before super()'s",
        )


class SetAttributeFrozenModuleError(LinenError):
    """An attribute is assigned outside `setup`."""

    def __init__(self, module: str, name: str, value: Any) -> None:
        super().__init__(
            f"{module}.{name} = {value!r}",
            f"Can't set {name}={value} for Module of type {module}: Module instance is frozen "
            "outside of setup method.",
            f"assign in setup, use clone({name}=...), or keep state in self.variable",
        )


class ReservedModuleAttributeError(LinenError):
    """A class declares a field that every module has."""

    def __init__(self, module: str, names: list[str]) -> None:
        super().__init__(
            f"class {module} with fields {names}",
            "properties `parent` and `name` are reserved: every module has them",
            "call the field something else",
        )


class ApplyModuleInvalidMethodError(LinenError):
    """`method=` is not a function of a module."""

    def __init__(self, method: Any) -> None:
        super().__init__(
            f"method={method!r}",
            "Cannot call apply(): it is not a valid method of a module",
            "pass a method's name, Class.method, or a function whose first argument is the module",
        )


class CallCompactUnboundModuleError(LinenError):
    """A compact method is called on a module without variables."""

    def __init__(self, module: str, method: str) -> None:
        super().__init__(
            f"{module}.{method}(...)",
            "Can't call compact methods on unbound modules",
            "call it through init or apply: module.apply(variables, ...)",
        )


class CallSetupUnboundModuleError(LinenError):
    """`setup` is called on a module without variables."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"{module}.setup()",
            "Can't call compact methods on unbound modules: `setup` runs by itself once bound",
            "use init, apply or bind",
        )


class CallUnbindOnUnboundModuleError(LinenError):
    """`unbind` is called on a module without variables."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"{module}.unbind()",
            "Can't call `unbind()` on unbound modules",
            "bind the module first: module.bind(variables)",
        )


class CallShareScopeOnUnboundModuleError(LinenError):
    """`share_scope` is called on a module without variables."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"share_scope with {module}",
            "Can't call `share_scope` on unbound modules",
            "call it in setup, on modules that are bound there",
        )


class InvalidInstanceModuleError(LinenError):
    """A method is called on a module class instead of an instance."""

    def __init__(self, method: str) -> None:
        super().__init__(
            f"{method} without a module",
            "Can only call init, init_with_output or apply methods on an instance of the Module "
            "class, not on the Module class itself",
            f"make an instance first: Class(...).{method}(...)",
        )


class IncorrectPostInitOverrideError(LinenError):
    """An overriding `__post_init__` does not call that of Module."""

    def __init__(self, module: str) -> None:
        super().__init__(
            f"use of a {module}",
            "Overrode `.__post_init__()` without calling `super().__post_init__()`",
            "call super().__post_init__() at the end of it",
        )


class DescriptorAttributeError(LinenError):
    """A property of a module raised AttributeError."""

    def __init__(self, module: str, name: str, error: Exception) -> None:
        super().__init__(
            f"{module}.{name}",
            f"Trying to access a property that is accessing a non-existent attribute: {error}",
            "assign the attribute in setup, or declare it as a field",
        )


class TransformedMethodReturnValueError(LinenError):
    """A transformed method returns a module or a variable."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"result of {name}",
            f"Transformed module method {name} cannot return Modules or Variables",
            "return arrays, and find the module or variable by name outside",
        )


class TransformTargetError(LinenError):
    """The target of a transformation is neither a module class nor a function of a module."""

    def __init__(self, target: Any) -> None:
        super().__init__(
            f"transformation of {target!r}",
            "Linen transformations must be applied to Modules classes or functions taking a "
            "Module instance as the first argument",
            "pass the class, not an instance; call instances inside a function of the module",
        )
