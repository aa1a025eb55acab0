"""The jitted callable with named axes: traced once for all sizes, compiled once for each.

A signature met for the first time is made of the program for all sizes by replacing the names. From
then on it is a signature like any other: a hit knows nothing of names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kiln.base.errors import CheckError, InconclusiveSizeError
from kiln.ir.assumptions import collecting, names_in_scope
from kiln.ir.checker import check
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes import Dim, Size, names
from kiln.ir.specialise import specialise
from kiln.jit.cache import Entries, Entry, entries_of
from kiln.jit.call import JitFunction
from kiln.jit.named_axes import NamedAxes, fresh_names, with_names
from kiln.jit.placement_options import PlacementOptions
from kiln.jit.signature import Chosen


class SizedJitFunction(JitFunction):
    """A function traced once for all sizes of its named axes."""

    def __init__(
        self,
        fun: Callable[..., Any],
        static: Chosen,
        axes: NamedAxes,
        placement: PlacementOptions,
        **settings: Any,
    ) -> None:
        super().__init__(fun, static, sharing=axes.key, placement=placement, **settings)
        self._axes = axes
        shared = tuple((k, v) for k, v in settings.items() if k != "max_traces")
        self._options_for_all = (static, shared, axes.key, "all")
        self._general: dict[Any, Entry] = {}

    def _make(
        self, key: Any, args: Sequence[Any], kwargs: dict[str, Any], shared: Entries
    ) -> Entry:
        tree, avals = key[0], key[1]
        axes = self._axes.of_leaves(len(args), tree)
        env = self._axes.sizes(avals, axes, lambda: self._names(args, kwargs))
        spelled = fresh_names(self._axes.names, names_in_scope())
        constant: set[str] = set()
        while True:
            called = {name: s for name, s in spelled.items() if name in env.keys() - constant}
            written = (tree, with_names(avals, axes, called), *key[2:])
            general = self._for_all(written, called.values(), args, kwargs)
            given = {s: env[name] for name, s in called.items()}
            # Where a size of 0 would have led elsewhere, it gets a program of its own.
            wrong = {name for name, s in called.items() if not _fits(s, given, general)}
            jaxpr = None if wrong else _specialised(general.jaxpr, given)
            if jaxpr is not None:
                break
            constant |= wrong or {name for name in called if env[name] == 0}
        entry = Entry(
            jaxpr, general.consts, general.in_tree, general.out_tree, general.name, general.static
        )
        entry.general = general.jaxpr
        entry.assumed = general.assumed - given.keys()
        entry.assumed |= set(names(*[given[s] for s in general.assumed & given.keys()]))
        return self._keep(key, entry, shared, args, kwargs)

    def _for_all(
        self, key: Any, named: Iterable[str], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> Entry:
        shared = self._shared_for_all()
        entry = self._general.get(key) or shared.get(key)
        if entry is None:
            with collecting(named):
                entry = self._trace(key, args, kwargs)
            if not self._is_temporary(entry):
                entry = shared.setdefault(key, entry)
        if not self._is_temporary(entry):
            self._general[key] = entry
        return entry

    def _shared_for_all(self) -> Entries:
        return entries_of(self._fun, self._options_for_all)

    def _traced(self) -> Iterable[Any]:
        return self._shared_for_all()

    def forget_entries(self) -> None:
        """Forget this wrapper's programs."""
        super().forget_entries()
        self._general.clear()

    def _cache_size(self) -> int:
        return len(self._general)


def _fits(name: str, given: dict[str, Dim], general: Entry) -> bool:
    """Tell whether the program recorded for all sizes holds for the given size of one axis."""
    size = given[name]
    if name not in general.assumed:
        return True
    try:
        return bool(size >= 1)
    except InconclusiveSizeError:
        return False


def _specialised(general: Jaxpr, given: dict[str, Dim]) -> Jaxpr | None:
    """Return the program for the given sizes; None if for a size of 0 it has no meaning."""
    doubtful = any(type(size) is not Size and size == 0 for size in given.values())
    if not doubtful:
        return specialise(general, given)
    try:
        jaxpr = specialise(general, given)
        check(jaxpr, "substitution of sizes")
    except (CheckError, TypeError, ValueError):
        return None
    return jaxpr
