"""Objects that are never freed outlive all references."""

from __future__ import annotations

import gc
import weakref

from kiln.base.process.lifetimes import never_freed


class Made:
    """An object that may be in a cycle."""

    other: Made | None = None


def test_an_object_outlives_its_references() -> None:
    kept, freed = never_freed(Made()), Made()
    references = weakref.ref(kept), weakref.ref(freed)
    kept.other, freed.other = kept, freed
    del kept, freed
    gc.collect()
    assert [reference() is not None for reference in references] == [True, False]
