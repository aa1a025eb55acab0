"""One checkpoint written by several processes, in a folder on a shared file system.

Process 0 creates the folder; each process writes the blocks on its devices and reports success or
failure; process 0 merges the parts into one index, which commits the checkpoint. A failure in one
process is raised in all.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from kiln.base.errors import CheckpointError, one_line, three_lines
from kiln.base.files.writing import write_atomically
from kiln.base.lazy import json
from kiln.base.source import current_source
from kiln.checkpoints.index import NAME, Index, index_bytes, part_bytes, read_part
from kiln.core.processes.exchanges import OTHERS
from kiln.core.processes.peers import Peers

PART = re.compile(r"part-[0-9]+\.json")
"""The names of the files that list for process 0 what each process wrote."""


def part_name(index: int) -> str:
    """Return the name of the list of one process.

    `index` is the number of the process.
    """
    return f"part-{index}.json"


LONGEST_ERROR = 2000
"""How much of an error other processes are told, in characters."""
MOST_LISTED = 10
"""How many errors of other processes an error lists."""


class Meeting:
    """Exchanges among the processes about one save, stage by stage."""

    def __init__(self, others: Peers, topic: str, asked: str) -> None:
        self.others = others
        self._topic, self.asked = topic, asked

    def exchange(
        self, stage: str, text: str = "", error: BaseException | None = None
    ) -> dict[str, tuple[int, ...]]:
        """Publish a string to all processes and return those of all, each with its ranks.

        Raises: the error; CheckpointError if another process has one.
        """
        wrong = None if error is None else one_line(error)[:LONGEST_ERROR]
        said = str(json.dumps([text, wrong], ensure_ascii=False))
        found = self.others.exchange(f"{self._topic}/{stage}", said, self.asked)
        if error is not None:
            raise error
        read = [(json.loads(said), ranks) for said, ranks in found.items() if said != OTHERS]
        failed = [
            f"process {rank}: {wrong}" for (_, wrong), ranks in read for rank in ranks if wrong
        ]
        if failed:
            more = len(failed) - MOST_LISTED
            listed = "; ".join(failed[:MOST_LISTED]) + (f"; and {more} more" if more > 0 else "")
            raise CheckpointError(
                three_lines(
                    f"{self.asked} at {current_source()}",
                    f"it was not saved: {listed}",
                    "the previous checkpoint is unchanged",
                )
            )
        return {text: ranks for (text, _), ranks in read}


def write_together(
    meeting: Meeting,
    final: Path,
    folder: Callable[[Path], contextlib.AbstractContextManager[Path]],
    write: Callable[[Path], Index],
) -> None:
    """Write a checkpoint with the other processes.

    `folder` is the context in which process 0 has a folder to write to; on an error it removes what
    was written. `write` writes the blocks of this process to it.

    Raises: CheckpointError, in all processes, if one of them has failed.
    """
    if meeting.others.index:
        place = _agreed_place(meeting, final, meeting.exchange("folder", str(final)))
        _write_part(meeting, place, write)
        meeting.exchange("index")
        return
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(folder(final))
        except Exception as error:
            meeting.exchange("folder", error=error)
            raise
        place = _agreed_place(meeting, final, meeting.exchange("folder", f"{final}\n{made}"))
        own = _write_part(meeting, place, write)
        try:
            _join(meeting, place, own)
            stack.close()
        except Exception as error:
            meeting.exchange("index", error=error)
            raise
    meeting.exchange("index")


def write_by_first(meeting: Meeting, write: Callable[[], None]) -> None:
    """Write a file in process 0, and wait for that in all processes.

    Raises: CheckpointError, in all processes, if that failed.
    """
    try:
        if not meeting.others.index:
            write()
    except Exception as error:
        meeting.exchange("file", error=error)
        raise
    meeting.exchange("file")


def _agreed_place(meeting: Meeting, final: Path, said: Mapping[str, tuple[int, ...]]) -> Path:
    """Return the folder that process 0 created, after checking that all save to the same path."""
    first, *rest = said.items()
    wanted, _, place = first[0].partition("\n")
    others = [f"process {ranks[0]} to {each}" for each, ranks in rest if each != wanted]
    if others:
        raise CheckpointError(
            three_lines(
                f"{meeting.asked} at {current_source()}",
                f"process 0 saves to {wanted}, {', '.join(others)}",
                "pass the same folder, on a shared file system, in all processes",
            )
        )
    return Path(place)


def _write_part(meeting: Meeting, place: Path, write: Callable[[Path], Index]) -> Index:
    """Write the blocks of this process and return their index; others than process 0 store it."""
    try:
        if not place.is_dir():
            raise CheckpointError(
                f"there is no folder {place} here: the processes do not share a file system"
            )
        own = write(place)
        if meeting.others.index:
            write_atomically(place / part_name(meeting.others.index), [part_bytes(own)])
    except Exception as error:
        meeting.exchange("blocks", error=error)
        raise
    meeting.exchange("blocks")
    return own


def _join(meeting: Meeting, place: Path, own: Index) -> None:
    """Write the index of the blocks of all processes."""
    names = [part_name(i) for i in range(1, meeting.others.count)]
    parts = [read_part(place, name, meeting.asked) for name in names]
    paths = [entry.path for entry in own.entries]
    for i, part in enumerate(parts, 1):
        if part.paths != paths:
            differing = sorted(set(part.paths) ^ set(paths)) or part.paths
            raise CheckpointError(
                three_lines(
                    f"{meeting.asked} at {current_source()}",
                    f"the trees of the processes 0 and {i} differ: {', '.join(differing[:5])}",
                    "save the same tree in all processes",
                )
            )
    write_atomically(place / NAME, [index_bytes(own, parts)])
    for name in names:
        (place / name).unlink()
