"""Named axes: a function is traced once for all sizes.

The program for a new signature is specialized from the one for all sizes, which the native engine
compiles once (`execution/sized_programs.py`): calls with other sizes then run without coming here.
On other engines a signature is like any other: names play no part in a hit.
"""

from __future__ import annotations

from collections.abc import Iterable

from kiln.base.errors import CheckError, InconclusiveSizeError
from kiln.ir.assumptions import collecting, names_in_scope
from kiln.ir.checker import check
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes import Dim, Size, names
from kiln.ir.specialise import specialise, specialise_later
from kiln.jit.cache import Recordings, recordings_of
from kiln.jit.entry import Recording
from kiln.jit.named_axes import NamedAxes, fresh_names, numbered, with_names
from kiln.jit.recorder import PlainRecorder
from kiln.jit.signature import Arguments, Signature, Subject


class SizedRecorder:
    """Traces a function for all sizes of its named axes, and specializes the program to each.

    The programs for all sizes are kept in a table of their own.
    """

    def __init__(self, plain: PlainRecorder, axes: NamedAxes) -> None:
        self._plain = plain
        self._axes = axes
        self._general: dict[Signature, Recording] = {}

    def record(
        self, subject: Subject, signature: Signature, call: Arguments, table: Recordings
    ) -> Recording:
        """Return the recording for a signature that is not in the function's table."""
        axes = self._axes.of_leaves(call.positional, signature.tree)
        env = self._axes.sizes(signature.avals, axes, call.names)
        spelled = fresh_names(self._axes.names, names_in_scope())
        constant: set[str] = set()
        while True:
            called = {name: s for name, s in spelled.items() if name in env.keys() - constant}
            avals = with_names(signature.avals, axes, called)
            written = signature._replace(avals=avals)
            general = self._for_all(subject, written, called.values(), call, table)
            given = {s: env[name] for name, s in called.items()}
            # A size of 0 may take another branch of the function: it gets a program of its own.
            wrong = {name for name, s in called.items() if not _fits(s, given, general)}
            jaxpr = None if wrong else _specialised(general.jaxpr, given)
            if jaxpr is not None:
                break
            constant |= wrong or {name for name in called if env[name] == 0}
        made = Recording(jaxpr, general.consts, general.out_tree, general.name, general.static)
        made.general = general.jaxpr
        if not any(type(size) is Size for size in given.values()):
            made.sizes = {name: int(size) for name, size in given.items()}
            made.named_axes = numbered(signature.avals, axes, [*called])
        made.assumed = general.assumed - given.keys()
        made.assumed |= set(names(*[given[s] for s in general.assumed & given.keys()]))
        return made

    def _for_all(
        self,
        subject: Subject,
        signature: Signature,
        named: Iterable[str],
        call: Arguments,
        table: Recordings,
    ) -> Recording:
        general = recordings_of(subject.fun, (subject.options, "all sizes"))
        found = self._general.get(signature) or general.get(signature)
        if found is None:
            with collecting(named):
                found = self._plain.record(subject, signature, call, table, seen=general)
            if not found.is_temporary:
                found = general.keep(subject.fun, signature, found)
        if not found.is_temporary:
            self._general[signature.settled()] = found
        return found

    def forget(self) -> None:
        """Forget the programs for all sizes."""
        self._general.clear()
        self._plain.forget()

    def count(self, entries: int) -> int:
        """Return how many programs for all sizes there are."""
        return len(self._general)


def _fits(name: str, given: dict[str, Dim], general: Recording) -> bool:
    """Tell whether the program recorded for all sizes holds for the given size of one axis."""
    size = given[name]
    if name not in general.assumed:
        return True
    try:
        return bool(size >= 1)
    except InconclusiveSizeError:
        return False


def _specialised(general: Jaxpr, given: dict[str, Dim]) -> Jaxpr | None:
    """Return the program for the given sizes; None if it is not valid for a size of 0."""
    doubtful = any(type(size) is not Size and size == 0 for size in given.values())
    if not doubtful:
        if any(type(size) is Size for size in given.values()):
            return specialise(general, given)
        return specialise_later(general, given)  # type: ignore[arg-type]
    try:
        jaxpr = specialise(general, given)
        check(jaxpr, "substitution of sizes")
    except (CheckError, TypeError, ValueError):
        return None
    return jaxpr
