"""Recordings found again by evidence: a faster way to what level (b) of the caches finds.

The latest recordings for functions with the same code are tried first. A function for which the
evidence holds has the content of the recording, which therefore need not be computed. Recordings
are referred to weakly: their cache decides how long they live.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable

from kiln.base.named_tuples import NamedTuple
from kiln.base.process.forks import new_lock
from kiln.content.ambient import Ambient, ambient
from kiln.content.by_content import is_plain
from kiln.content.evidence import Evidence, place_of
from kiln.content.fingerprint import Content
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import Named
from kiln.jit.signatures.signature import Kind, Signature, Subject

MOST = 4
"""How many recordings are tried for functions with the same code."""
CAPACITY = 1024


class _Recollection(NamedTuple):
    evidence: Evidence
    ambient: Ambient
    kind: Kind
    recording: weakref.ref[Recording]


_known: dict[Hashable, tuple[_Recollection, ...]] = {}
_lock = new_lock()


def recollect(subject: Subject, signature: Signature) -> Recording | None:
    """Return the recording for a signature, if evidence tells which it is."""
    found = _known.get(place_of(subject.fun))
    if found is None or subject.static_result or signature.statics != ():
        return None
    here, kind, tree = ambient(numpy=False), subject.kind_of(signature), signature.tree
    for each in found:
        if each.ambient != here or each.kind != kind:
            continue
        # Structures that are not plain may differ although they compare equal.
        if each.kind[0] is not tree and not is_plain(tree, Named):
            continue
        if each.evidence.holds_for(subject.fun):
            return each.recording()
    return None


def note(kind: Kind, content: Content, recording: Recording) -> None:
    """Register a recording, without arrays, for functions with the evidence of a content."""
    evidence = content.evidence
    if evidence is None or recording.consts:
        return
    made = _Recollection(evidence, content.ambient, kind, weakref.ref(recording))
    with _lock:
        others = [x for x in _known.pop(evidence.place, ()) if x.recording() is not recording]
        _known[evidence.place] = (made, *others[: MOST - 1])
        while len(_known) > CAPACITY:
            del _known[next(iter(_known))]


def clear() -> None:
    """Forget all."""
    with _lock:
        _known.clear()
