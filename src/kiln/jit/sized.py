"""Named axes: a function is traced once for all sizes.

The program for a new signature is specialized from the one for all sizes, which the native engine
compiles once (`execution/sized_programs.py`): calls with other sizes then do not get here. On other
engines a signature is like any other: names play no part in a hit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping

from kiln.base.errors import CheckError, InconclusiveSizeError
from kiln.base.lazy import checker
from kiln.ir.jaxpr import Jaxpr
from kiln.ir.sizes.assumptions import collecting, names_in_scope
from kiln.ir.sizes.size import Dim, Size, names
from kiln.ir.sizes.values import is_nonzero, substitute
from kiln.ir.specialize import specialize, specialize_later
from kiln.jit.cache import Recordings, recordings_of
from kiln.jit.entry import Recording
from kiln.jit.named_axes import NamedAxes, fresh_names, numbered, with_names
from kiln.jit.recorder import PlainRecorder
from kiln.jit.signatures.signature import Arguments, Signature, Subject


class SizedRecorder:
    """Traces a function for all sizes of its named axes, and specializes the program to each.

    The programs for all sizes are kept in a separate table.
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
            given = {s: env[name] for name, s in called.items()}
            # Such sizes may take another branch of the function, so they get a separate program.
            with collecting(called.values()) as assumed:
                try:
                    general = self._for_all(subject, written, call, table)
                except Exception:
                    # The error may come from a question that named sizes cannot answer: then it is
                    # an assumption.
                    wrong = _broken_names(frozenset(assumed), called, given)
                    if not wrong:
                        raise
                    constant |= wrong
                    continue
            wrong = _broken_names(general.assumed, called, given)
            jaxpr = None if wrong else _specialized(general.jaxpr, given)
            if jaxpr is not None:
                break
            constant |= wrong or {name for name in called if env[name] == 0}
        made = Recording(jaxpr, general.consts, general.out_tree, general.name, general.static)
        made.general = general.jaxpr
        if not any(type(size) is Size for size in given.values()):
            made.sizes = {name: int(size) for name, size in given.items()}
            made.named_axes = numbered(signature.avals, axes, [*called])
        made.assumed = frozenset(_assumed_of_others(general.assumed, given))
        made.conditions = _conditions(general.assumed)
        return made

    def _for_all(
        self,
        subject: Subject,
        signature: Signature,
        call: Arguments,
        table: Recordings,
    ) -> Recording:
        general = recordings_of(subject.fun, (subject.options, "all sizes"))
        found = self._general.get(signature) or general.get(signature)
        if found is None:
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


def _broken_names(
    assumed: Iterable[Hashable], called: Mapping[str, str], given: Mapping[str, Dim]
) -> set[str]:
    """Return the axes, by their user-given names, whose sizes a program does not hold for."""
    broken = _broken(assumed, given)
    return {name for name, spelled in called.items() if spelled in broken}


def _broken(assumed: Iterable[Hashable], given: Mapping[str, Dim]) -> set[str]:
    """Return the names of axes whose sizes the program for all sizes does not hold for."""
    found: set[str] = set()
    for each in assumed:
        if isinstance(each, str) and each in given:
            try:
                holds = bool(given[each] >= 1)
            except InconclusiveSizeError:
                holds = False
            if not holds:
                found.add(each)
        elif type(each) is Size and not is_nonzero(each, given):
            found.update(names(each))
    return found


def _assumed_of_others(assumed: Iterable[Hashable], given: Mapping[str, Dim]) -> Iterator[Hashable]:
    """Yield the assumptions about sizes that are named in the calling program."""
    for each in assumed:
        if isinstance(each, str):
            yield from names(given[each]) if each in given else (each,)
        elif type(each) is Size:
            there = substitute(each, given)
            if type(there) is Size:
                yield there


def _conditions(assumed: Iterable[Hashable]) -> tuple[Size, ...]:
    """Return the sizes that must not be 0, besides those of axes."""
    return tuple([each for each in assumed if type(each) is Size])


def _specialized(general: Jaxpr, given: dict[str, Dim]) -> Jaxpr | None:
    """Return the program for the given sizes; None if it is not valid for a size of 0."""
    doubtful = any(type(size) is not Size and size == 0 for size in given.values())
    if not doubtful:
        if any(type(size) is Size for size in given.values()):
            return specialize(general, given)
        return specialize_later(general, given)  # type: ignore[arg-type]
    try:
        jaxpr = specialize(general, given)
        checker.check(jaxpr, "substitution of sizes")
    except (CheckError, TypeError, ValueError):
        return None
    return jaxpr
