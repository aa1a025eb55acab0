"""Rules of primitives as tables, which other libraries read and write.

A table is a view: it keeps nothing. A rule that is set becomes a method of that one primitive, in
the form that kiln's own have; `present` turns kiln's into the form that the table promises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from kiln.core.primitive import Primitive, primitives

Rule = Callable[..., Any]


class Given:
    """A rule that a library set in a table: `given`, brought to kiln's form by `adapted`."""

    def __init__(self, table: RuleTable, given: Rule, adapted: Rule) -> None:
        self.table = table
        self.given = given
        self._adapted = adapted

    def __call__(self, *args: Any, **params: Any) -> Any:
        """Apply the rule, in kiln's form."""
        return self._adapted(*args, **params)


class RuleTable(MutableMapping[Any, Rule]):
    """One kind of rule of all primitives; `adapt(primitive, rule)` and `present` convert it.

    Iteration yields the primitives, of kiln and of others, that have such a rule now.
    """

    def __init__(
        self,
        rule: str,
        adapt: Callable[[Primitive, Rule], Rule],
        present: Callable[[Primitive], Rule],
    ) -> None:
        self._rule = rule
        self._adapt = adapt
        self._present = present

    def __getitem__(self, primitive: Any) -> Rule:
        found = vars(primitive).get(self._rule)
        if isinstance(found, Given) and found.table is self:
            return found.given
        if not self._has(primitive):
            raise KeyError(primitive)
        return self._present(primitive)

    def __setitem__(self, primitive: Any, rule: Rule) -> None:
        setattr(primitive, self._rule, Given(self, rule, self._adapt(primitive, rule)))

    def __delitem__(self, primitive: Any) -> None:
        if self._rule not in vars(primitive):
            raise KeyError(primitive)
        delattr(primitive, self._rule)

    def __contains__(self, primitive: object) -> bool:
        return isinstance(primitive, Primitive) and self._has(primitive)

    def __iter__(self) -> Iterator[Primitive]:
        return filter(self._has, primitives())

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _has(self, primitive: Primitive) -> bool:
        return primitive.has(self._rule)

    def __repr__(self) -> str:
        return f"<the {self._rule} rules of primitives>"
