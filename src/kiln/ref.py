"""Mutable references to arrays: `new_ref`, and functions that read and change what they hold."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.control.references.refs import (
    addupdate,
    empty_ref,
    free_ref,
    freeze,
    get,
    new_ref,
    set,
    swap,
)
from kiln.core.ref import Ref
from kiln.ir.ref_type import AbstractRef

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]

_suggest_names(globals())
