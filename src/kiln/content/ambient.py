"""Ambient state: everything that a program depends on besides its function.

It includes every option, whether or not it is known to affect programs; everything that may be
replaced (`base/caches/revisions.py`); and the registries that determine the result of `isinstance`.
"""

from __future__ import annotations

import abc
import itertools
from collections.abc import Hashable
from typing import Any

import numpy as np

from kiln.base.caches.revisions import revision
from kiln.base.options.config import options
from kiln.ir.sizes.assumptions import names_in_scope

Ambient = tuple[Hashable, Hashable]

CAPACITY = 256
_numbers: dict[Hashable, int] = {}
_made = itertools.count()
# The previous ambient state and its keys; replaced as a whole.
_last: tuple[Any, int, object, tuple[str, ...], Ambient] = (None, 0, 0, (), (0, 0))


def ambient(*, numpy: bool) -> Ambient:
    """Return two keys of this thread's ambient state: of the options, and of everything else.

    With `numpy`, the latter includes NumPy's error handling and print options.
    """
    global _last
    opts, count, token, names = options(), revision(), abc.get_cache_token(), names_in_scope()
    last = _last
    if last[0] is opts and last[1] == count and last[2] == token and last[3] == names:
        here = last[4]
    else:
        here = (_number(opts), _number((count, token, names)))
        _last = (opts, count, token, names, here)
    if not numpy:
        return here
    return here[0], (here[1], tuple(np.geterr().values()), str(np.get_printoptions()))


def _number(value: Hashable) -> int:
    """Return a number that identifies a value."""
    if len(_numbers) >= CAPACITY:
        _numbers.clear()
    return _numbers.setdefault(value, next(_made))
