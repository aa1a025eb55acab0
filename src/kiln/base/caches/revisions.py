"""A revision count of everything that may be replaced: rules, lowerings, pytree registrations.

Replacing anything after a program was traced increments it, and caches of shared programs have it
in their keys. It never returns to an earlier value.
"""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)
_last = 0


def revise() -> int:
    """Increment the count after something was replaced; return it."""
    global _last
    _last = found = next(_numbers)
    return found


def revision() -> int:
    """Return the count."""
    return _last
