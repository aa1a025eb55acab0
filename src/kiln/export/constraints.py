"""Constraints on named sizes, as text: `b >= 2`, `max(a, b) <= 64`, `mod(b, 4) == 0`."""

from __future__ import annotations

from collections.abc import Sequence

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.export.size_expressions import shape_of_text
from kiln.ir.sizes.facts import Fact, Facts
from kiln.ir.sizes.polynomial import bounds
from kiln.ir.sizes.size import Dim, Size

_RELATIONS = ("==", ">=", "<=")


def facts_of_text(constraints: Sequence[str]) -> Facts | None:
    """Return constraints on named sizes as facts; None if there are none.

    Raises: ValueError for text that is not a constraint, and for constraints that no sizes satisfy.
    """
    if isinstance(constraints, str):
        raise _refused(
            repr(constraints),
            "The symbolic constraints should be a sequence of strings",
            f"write constraints=[{constraints!r}]",
        )
    facts: list[Fact] = []
    for text in constraints:
        fact = _fact(text)
        if _is_impossible(fact, facts):
            raise _refused(
                repr(text),
                f"Unsatisfiable explicit constraint: {text}"
                + ("" if not facts else f", after {', '.join(each.text for each in facts)}"),
                "state only what holds for the sizes of calls; every size is at least 1",
            )
        if type(fact.difference) is Size:
            facts.append(fact)
    return Facts(facts) if facts else None


def _fact(text: str) -> Fact:
    if not isinstance(text, str):
        raise _refused(repr(text), "a constraint must be a string", "write 'b >= 2'")
    # The '=' in '<=' must not match a '==' elsewhere.
    relation = next((each for each in _RELATIONS if each in text), None)
    if relation is None:
        raise _refused(
            repr(text),
            "Constraint parsing error: must contain one of '==' or '>=' or '<='",
            "write 'b >= 2' for b > 1, since sizes are integers",
        )
    left, right = (_side(each, text) for each in text.split(relation, 1))
    difference = right - left if relation == "<=" else left - right
    return Fact(text, difference, relation == "==")


def _side(part: str, text: str) -> Dim:
    dims = shape_of_text(part, None, f"the constraint {text!r:.100}")
    if len(dims) != 1:
        raise _refused(
            repr(text),
            f"Constraint parsing error: {part.strip()!r} has {len(dims)} sizes",
            "write one size on each side, as in 'b >= 2'",
        )
    return dims[0]


def _is_impossible(fact: Fact, known: Sequence[Fact]) -> bool:
    """Tell whether a constraint contradicts those before it for all sizes."""
    low, high = bounds(fact.difference, facts=Facts(known) if known else None)
    return (high is not None and high < 0) or (fact.is_equality and low is not None and low > 0)


def _refused(what: str, wrong: str, instead: str) -> ValueError:
    return ValueError(
        three_lines(f"a symbolic constraint {what:.100} at {current_source()}", wrong, instead)
    )
