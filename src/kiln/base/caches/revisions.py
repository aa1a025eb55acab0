"""One count of what was replaced: rules of primitives, lowerings, what a class is for pytrees.

Whatever may be set again after a program was traced moves it, and what keeps programs for others
has it in its key. It is never the same twice.
"""

from __future__ import annotations

import itertools

_numbers = itertools.count(1)
_last = 0


def revise() -> int:
    """Move the count, after something was replaced; return where it is now."""
    global _last
    _last = found = next(_numbers)
    return found


def revision() -> int:
    """Return where the count is."""
    return _last
