"""The miss path: from a signature that is new to a wrapper to the entry that it runs.

Control only goes forward: the table of the function, the recorder, the table again to keep the
recording, the options of the wrapper. A recording that closes over tracers is not kept.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from kiln.base.source import api_boundary
from kiln.content.fingerprint import content_of
from kiln.jit.cache import Recordings, recordings_of
from kiln.jit.compiler_options import Settings
from kiln.jit.entry import Entry, Recording
from kiln.jit.placement_options import PlacementOptions, request_for
from kiln.jit.recorder import Recorder
from kiln.jit.signature import Arguments, Signature


class Lookup:
    """The entries of one wrapper, and how new ones are made.

    `options` are those of the wrapper that affect programs: wrappers of one function with equal
    options share recordings.
    """

    def __init__(
        self,
        fun: Callable[..., Any],
        options: Hashable,
        recorder: Recorder,
        placement: PlacementOptions,
        *,
        keep_unused: bool = False,
        settings: Settings = (),
    ) -> None:
        self.fun = fun
        self.options = options
        self.placement = placement
        self.keep_unused = keep_unused
        self.settings = settings
        self.entries: dict[Signature, Entry] = {}
        self._recorder = recorder

    @api_boundary
    def miss(self, signature: Signature, call: Arguments) -> Entry:
        """Return the entry for a call that did not find one."""
        table = self.table()
        table.history.misses += 1
        recording = table.get(signature)
        if recording is None:
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
            recording = self._recorder.record(signature, call, table)
            if not recording.is_temporary:
                recording = table.keep(self.fun, signature, recording)
        request = request_for(self.placement, call, recording)
        placer = recording.placer_for(request, self.keep_unused, self.settings)
        entry = Entry(recording, placer, table.history)
        if not entry.is_temporary:
            self.entries[signature.settled()] = entry
        return entry

    def table(self) -> Recordings:
        """Return the recordings of the function as it is now, shared by its wrappers."""
        return recordings_of(self.fun, self.options)

    def is_stale(self) -> bool:
        """Tell whether a call may run another program than a new function of this content would.

        A function keeps its trace when a global or a closure of it changes.
        """
        found = [*(entry.recording for entry in self.entries.values()), *self.table().values()]
        if not found:
            return False
        now = content_of(self.fun, with_jitted=False)
        return now is None or not all(recording.follows_from(now) for recording in found)

    def forget(self) -> None:
        """Forget this wrapper's entries."""
        self.entries.clear()
        self._recorder.forget()

    def size(self) -> int:
        """Return how many programs the wrapper has."""
        return self._recorder.count(len(self.entries))
