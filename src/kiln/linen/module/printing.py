"""A module as text: its class, its fields, and the submodules that `setup` created."""

from __future__ import annotations

from typing import Any

from kiln.linen.module.fields import is_module

_INDENT = "    "


def module_text(module: Any) -> str:
    """Return the class, the fields and the existing submodules of a module, one per line."""
    lines = []
    fields = module.__dataclass_fields__
    shown = [name for name in module._hyperparameters if fields[name].repr]
    if shown:
        lines.append("# attributes")
        lines += [f"{name} = {_value_text(module, name)}" for name in shown]
    children = module._state.children
    if children:
        lines.append("# children")
        lines += [f"{name} = {_indented(repr(child))}" for name, child in children.items()]
    kind = type(module).__name__
    if not lines:
        return f"{kind}()"
    return "\n".join([f"{kind}(", *(_INDENT + line for line in lines), ")"])


def _value_text(module: Any, name: str) -> str:
    value = getattr(module, name)
    # Asking a module for an attribute that it lacks would set it up.
    if not is_module(value) and callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    return _indented(repr(value))


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + _INDENT)
