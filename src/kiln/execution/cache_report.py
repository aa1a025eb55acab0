"""Statistics of the caches of compiled programs, in memory and on disk."""

from __future__ import annotations

from kiln.base.named_tuples import NamedTuple
from kiln.execution.compilation import kept_in_memory
from kiln.execution.disk_cache import chosen_path, counts, folder


class DiskCacheInfo(NamedTuple):
    """The disk cache: its location, its contents, and its activity in this process.

    `folder` is None if the cache is off. `stored`, `rejected` and `evicted` are entries that this
    process wrote, found corrupted, and evicted for lack of space.
    """

    folder: str | None
    entries: int
    bytes: int
    hits: int
    misses: int
    stored: int
    rejected: int
    evicted: int


class ProgramCacheInfo(NamedTuple):
    """Compiled programs: how many are in memory, their bytes there, and those on disk.

    The bytes include what programs keep for the arrays that functions close over.
    """

    programs: int
    program_bytes: int
    disk: DiskCacheInfo


def cache_info() -> ProgramCacheInfo:
    """Return statistics of the caches of compiled programs; see `docs/cache.md`.

    Example:
        >>> kiln.cache_info().programs >= 0
        True
    """
    place = folder()
    listed = [] if place is None else place.entries()
    c = counts
    disk = DiskCacheInfo(
        None if place is None else chosen_path(),
        len(listed),
        sum(each.size for each in listed),
        *(c.hits, c.misses, c.stored, c.rejected, c.evicted),
    )
    kept = kept_in_memory()
    return ProgramCacheInfo(len(kept), sum(program.nbytes for program in kept), disk)
