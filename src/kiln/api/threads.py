"""The number of threads that compiled code runs on."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kiln import _runtime
from kiln.base.options.config import config, override
from kiln.base.options.names import checked


def set_num_threads(number: int | None) -> None:
    """Set the number of threads that programs run on, whichever thread calls them.

    The calling thread is one of them: with 1 no others are created. None, the default, stands for
    as many as the process may use: the CPUs of its affinity, limited by the quota of its control
    groups. Results do not depend on it. The environment variable `KILN_NUM_THREADS` sets it, too;
    it is the option `num_threads`.

    Raises: ValueError for a number below 1.

    Example:
        >>> kiln.set_num_threads(1)
        >>> kiln.get_num_threads()
        1
        >>> kiln.set_num_threads(None)
    """
    config.update("num_threads", number)


def get_num_threads() -> int:
    """Return the number of threads that programs called by this thread run on.

    Example:
        >>> kiln.get_num_threads() >= 1
        True
    """
    return _runtime.num_threads()


def num_threads(number: int | None) -> AbstractContextManager[None]:
    """Set the number of threads of programs called by this thread, until the context ends.

    Raises: ValueError for a number below 1.

    Example:
        >>> with kiln.num_threads(1):
        ...     kiln.get_num_threads()
        1
    """
    return override(num_threads=checked("num_threads", number))
