"""How many threads compiled code runs on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kiln import _runtime
from kiln.base.options.config import config, override
from kiln.base.options.names import checked


def set_num_threads(number: int | None) -> None:
    """Set how many threads a program runs on, for every thread that calls one.

    The calling thread is one of them: with 1 no others are made. None, the default, stands for as
    many as the process may use: those of its affinity, and no more than the quota of its control
    groups. Results do not depend on it. `KILN_NUM_THREADS` sets it from outside; it is the option
    `num_threads`.

    Raises: ValueError for a number below 1.

    Example:
        >>> kiln.set_num_threads(1)
        >>> kiln.get_num_threads()
        1
        >>> kiln.set_num_threads(None)
    """
    config.update("num_threads", number)


def get_num_threads() -> int:
    """Return how many threads a program that this thread calls runs on."""
    return _runtime.num_threads()


def num_threads(number: int | None) -> AbstractContextManager[None]:
    """Set how many threads the programs called by this thread run on, until the context ends.

    Raises: ValueError for a number below 1.

    Example:
        >>> with kiln.num_threads(1):
        ...     kiln.get_num_threads()
        1
    """
    return override(num_threads=checked("num_threads", number))
