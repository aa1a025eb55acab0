"""Dataclasses with keyword-only fields that stay so in subclasses, as in Flax.

The fields are those of the standard library, which already sorts keyword-only fields to the end of
the parameters. What is added: a subclass that gives such a field another default need not mark it
again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, dataclass_transform

from kiln.base.class_annotations import own_annotations
from kiln.base.errors import three_lines
from kiln.base.source import current_source

KW_ONLY = dataclasses.KW_ONLY


def field(*, kw_only: Any = dataclasses.MISSING, **kwargs: Any) -> Any:
    """Return a field; `kw_only` sorts it behind the others, and lets it be passed by name only.

    Raises: ValueError for a keyword-only field without a default.
    """
    if kw_only is True and not {"default", "default_factory"} & kwargs.keys():
        raise ValueError(
            three_lines(
                f"field(kw_only=True) at {current_source()}",
                "Keyword-only fields with no default are not supported.",
                "give it a default",
            )
        )
    return dataclasses.field(kw_only=kw_only, **kwargs)


@dataclass_transform(field_specifiers=(field,))
def dataclass(
    cls: type | None = None,
    extra_fields: Sequence[tuple[str, Any, Any]] | None = None,
    **kwargs: Any,
) -> Any:
    """Make a class a dataclass; fields that a base class made keyword-only are so here, too.

    `extra_fields` are (name, type, field) of further fields; the rest is passed to
    `dataclasses.dataclass`.
    """

    def made(cls: type) -> type:
        annotations = own_annotations(cls)
        for name, annotation, extra in extra_fields or ():
            setattr(cls, name, extra)
            annotations[name] = annotation
        for name, annotation in annotations.items():
            # The standard library recognizes the text of its own marker only.
            if isinstance(annotation, str) and annotation.rpartition(".")[2] == "KW_ONLY":
                annotations[name] = KW_ONLY
        cls.__annotations__ = annotations
        inherited = {f.name for f in _inherited(cls) if f.kw_only}
        for name in inherited & annotations.keys():
            default = cls.__dict__.get(name, dataclasses.MISSING)
            if isinstance(default, dataclasses.Field):
                default.kw_only = True
            else:
                setattr(cls, name, dataclasses.field(default=default, kw_only=True))
        return dataclasses.dataclass(**kwargs)(cls)

    wrap: Callable[[type], type] = made
    return wrap if cls is None else wrap(cls)


def _inherited(cls: type) -> list[dataclasses.Field[Any]]:
    bases = [base for base in reversed(cls.__mro__[1:]) if dataclasses.is_dataclass(base)]
    return [field for base in bases for field in dataclasses.fields(base)]
