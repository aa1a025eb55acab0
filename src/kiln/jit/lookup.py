"""The miss path: from a signature that is new to a wrapper to the entry that it runs.

Control only goes forward: the table of the function, the recorder, the table again to keep the
recording, the options of the wrapper. A recording that closes over tracers is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.base.options.config import override
from kiln.base.source import api_boundary
from kiln.content.fingerprint import content_of
from kiln.core.engines.engine import CHECKS
from kiln.execution.placement import NO_REQUEST, PlacementRequest
from kiln.jit.cache import Recordings, recordings_of
from kiln.jit.compiler_options import Settings
from kiln.jit.entry import Entry, Recording
from kiln.jit.placement_options import NO_PLACEMENT, PlacementOptions, request_for
from kiln.jit.recollection import recollect
from kiln.jit.recorder import UNLIMITED, Recorder
from kiln.jit.signatures.signature import Arguments, Signature, Subject


class Lookup:
    """The entries of one wrapper, and how new ones are made.

    Wrappers of one function with equal options in their subjects share recordings.
    """

    __slots__ = ("entries", "keep_unused", "placement", "recorder", "settings", "subject")

    def __init__(
        self,
        subject: Subject,
        recorder: Recorder,
        placement: PlacementOptions,
        keep_unused: bool = False,
        settings: Settings = (),
    ) -> None:
        self.subject = subject
        self.recorder = recorder
        self.placement = placement
        self.keep_unused = keep_unused
        self.settings = settings
        self.entries: dict[Signature, Entry] = {}

    @api_boundary
    def miss(
        self,
        signature: Signature,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        call: Arguments | None = None,
    ) -> Entry:
        """Return the entry for a call that did not find one.

        `call` holds the bound arguments, unless they are all arrays in memory.
        """
        table = self.table()
        table.history.misses += 1
        recording = table.get(signature) if table else None
        if recording is None and self.recorder is UNLIMITED:
            recording = recollect(self.subject, signature)
            if recording is not None:
                recording = table.setdefault(signature.settled(), recording)
        if recording is not None and self.placement is NO_PLACEMENT:
            return self._keep(signature, recording, NO_REQUEST, table)
        if call is None:
            call = self.subject.arguments(args, kwargs)
        elif recording is None:
            call.check()
        return self._entry(signature, call, table, recording)

    def entry(self, signature: Signature, call: Arguments) -> Entry:
        """Return the entry for a signature, whose arguments may be ShapeDtypeStructs."""
        known = self.entries.get(signature)
        if known is not None:
            return known
        table = self.table()
        return self._entry(signature, call, table, table.get(signature))

    def _entry(
        self, signature: Signature, call: Arguments, table: Recordings, recording: Recording | None
    ) -> Entry:
        if recording is None:
            recording = self._record(signature, call, table)
            if not recording.is_temporary:
                recording = table.keep(self.subject.fun, signature, recording)
        request = NO_REQUEST
        if self.placement is not NO_PLACEMENT:
            request = request_for(self.placement, call, recording)
        return self._keep(signature, recording, request, table)

    def _record(self, signature: Signature, call: Arguments, table: Recordings) -> Recording:
        if CHECKS not in dict(self.settings):
            return self.recorder.record(self.subject, signature, call, table)
        with override(checks_operations=True):
            return self.recorder.record(self.subject, signature, call, table)

    def _keep(
        self,
        signature: Signature,
        recording: Recording,
        request: PlacementRequest,
        table: Recordings,
    ) -> Entry:
        placer = recording.placer_for(request, self.keep_unused, self.settings)
        entry = Entry(recording, placer, table.history)
        if not recording.is_temporary:
            self.entries[signature.settled()] = entry
        return entry

    def table(self) -> Recordings:
        """Return the recordings of the function as it is now, shared by its wrappers."""
        return recordings_of(self.subject.fun, self.subject.options)

    def is_stale(self) -> bool:
        """Tell whether a call may run a different program than a new function of this content.

        A function keeps its trace when a global or a closure of it changes.
        """
        found = [*(entry.recording for entry in self.entries.values()), *self.table().values()]
        if not found:
            return False
        now = content_of(self.subject.fun, with_jitted=False)
        return now is None or not all(recording.follows_from(now) for recording in found)

    def forget(self) -> None:
        """Forget this wrapper's entries."""
        self.entries.clear()
        self.recorder.forget()

    def size(self) -> int:
        """Return how many programs the wrapper has."""
        return self.recorder.count(len(self.entries))
