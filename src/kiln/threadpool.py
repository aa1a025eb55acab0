"""kiln's threads for threadpoolctl: import this module, and its limits hold for kiln too.

`threadpoolctl.threadpool_limits(2)` then limits the programs of kiln beside BLAS and OpenMP;
`user_api="kiln"` names them. Needs the package threadpoolctl.
"""

from __future__ import annotations

import threadpoolctl  # type: ignore[import-untyped, import-not-found, unused-ignore]

from kiln.api.threads import get_num_threads, set_num_threads
from kiln.base.lazy import suggest_names as _suggest_names

__all__ = ["KilnController"]


class KilnController(threadpoolctl.LibController):  # type: ignore[misc]
    """What threadpoolctl asks about the threads of kiln."""

    user_api = "kiln"
    internal_api = "kiln"
    filename_prefixes = ("_runtime.",)
    check_symbols = ("kiln_num_threads",)

    def get_version(self) -> None:
        """Return None: the extension has no version of its own."""

    def get_num_threads(self) -> int:
        """Return how many threads the programs of kiln run on."""
        return get_num_threads()

    def set_num_threads(self, num_threads: int) -> None:
        """Set how many threads the programs of kiln run on, in all threads that call them."""
        set_num_threads(num_threads)


threadpoolctl.register(KilnController)

_suggest_names(globals())
