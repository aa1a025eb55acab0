"""Effects that other libraries declare by their own classes, and where programs may have them.

A library derives a class from `OwnEffect`, and adds it to the sets of classes that may be lowered,
keep their order, or be in loops and branches, in functions with custom derivatives, and in
checkpointed functions. kiln's own effects are allowed everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source


class OwnEffect:
    """The base of effects of other libraries; equations with them are never dropped."""

    keep = True

    @property
    def ordered(self) -> bool:
        """Whether equations with the effect run in the order of the program."""
        return ordered_effects.contains(self)


class EffectTypeSet:
    """Classes of effects."""

    def __init__(self) -> None:
        self._types: set[type] = set()

    def add_type(self, effect_type: type) -> None:
        """Add a class."""
        self._types.add(effect_type)

    def contains(self, effect: Any) -> bool:
        """Tell whether an effect is of one of the classes."""
        return isinstance(effect, tuple(self._types))

    def filter_in(self, effects: Iterable[Any]) -> list[Any]:
        """Return the effects that are of one of the classes."""
        return [effect for effect in effects if self.contains(effect)]

    def filter_not_in(self, effects: Iterable[Any]) -> list[Any]:
        """Return the effects that are of none of the classes."""
        return [effect for effect in effects if not self.contains(effect)]

    def __repr__(self) -> str:
        return f"EffectTypeSet({sorted(kind.__name__ for kind in self._types)})"


lowerable_effects = EffectTypeSet()
"""What compiled programs may have."""
ordered_effects = EffectTypeSet()
"""What keeps the order of the program."""
control_flow_allowed_effects = EffectTypeSet()
"""What bodies of loops and branches may have."""
custom_derivatives_allowed_effects = EffectTypeSet()
"""What functions with custom derivatives may have."""
remat_allowed_effects = EffectTypeSet()
"""What checkpointed functions may have when they are differentiated."""


def _others(effects: Iterable[Any], allowed: EffectTypeSet) -> list[Any]:
    return [e for e in effects if isinstance(e, OwnEffect) and not allowed.contains(e)]


def check_allowed(construct: str, effects: Iterable[Any], allowed: EffectTypeSet) -> None:
    """Raise NotImplementedError if other libraries' effects may not be in a construct."""
    if found := _others(effects, allowed):
        name = type(found[0]).__name__
        raise NotImplementedError(
            three_lines(
                f"{construct} of a function with effects at {current_source()}",
                f"Effects not supported in `{construct}`: {found}",
                f"add the class {name} to the set of those that may be there, with add_type",
            )
        )


def check_lowerable(name: str, effects: Iterable[Any], devices: int) -> None:
    """Raise ValueError if a program has other libraries' effects that cannot be lowered.

    Ordered ones cannot for several devices.
    """
    if found := _others(effects, lowerable_effects):
        raise ValueError(
            three_lines(
                f"compilation of {name} at {current_source()}",
                f"Cannot lower jaxpr with effects: {found}",
                f"say that they can be: lowerable_effects.add_type({type(found[0]).__name__})",
            )
        )
    if devices > 1 and (found := [e for e in effects if isinstance(e, OwnEffect) and e.ordered]):
        raise ValueError(
            three_lines(
                f"compilation of {name} for {devices} devices at {current_source()}",
                f"The following ordered effects are not supported for more than 1 device: {found}",
                "let the effect be unordered, or run the program on one device",
            )
        )
