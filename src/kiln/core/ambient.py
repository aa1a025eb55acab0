"""What a program depends on beside its function: all that is in force, and all that is registered.

Every option is part of it, whether it is known to change programs or not; so are the registries
that decide what a class is, to pytrees and to `isinstance`.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable

import numpy as np

from kiln.base.config import options
from kiln.base.tree_nodes import registrations
from kiln.ir.assumptions import names_in_scope


def ambient(*, numpy: bool) -> tuple[Hashable, Hashable]:
    """Return keys of what is in force in this thread: the options, and all else.

    With `numpy`, all else holds what is in force for NumPy's numbers.
    """
    here = (registrations(), abc.get_cache_token(), names_in_scope())
    if not numpy:
        return options(), here
    return options(), (here, tuple(np.geterr().values()), str(np.get_printoptions()))
