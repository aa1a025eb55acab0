"""One checkpoint written by several processes, in a folder on a shared file system.

Process 0 creates the folder; all compare what they save, of which each writes its blocks, and
reports success or failure; process 0 writes the index, which commits the checkpoint. A failure in
one process is raised in all.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from kiln.base.errors import CheckpointError, one_line, three_lines
from kiln.base.lazy import json
from kiln.base.source import current_source
from kiln.checkpoints.entries import Entry, Layout
from kiln.core.processes.exchanges import OTHERS
from kiln.core.processes.peers import Peers

LONGEST_ERROR = 2000
"""How much of an error other processes are told, in characters."""
LONGEST_LEAF = 200
"""How much of the description of a leaf others are told, in characters."""
MOST_SHOWN = 8
"""How many owners of blocks an error shows."""
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

    def refuse(self, wrong: str, remedy: str) -> NoReturn:
        """Raise CheckpointError."""
        raise CheckpointError(three_lines(f"{self.asked} at {current_source()}", wrong, remedy))


def write_together(
    meeting: Meeting,
    final: Path,
    save: str,
    entries: Sequence[Entry],
    folder: Callable[[Path], contextlib.AbstractContextManager[Path]],
    write: Callable[[Path, str], None],
    commit: Callable[[Path, str], None],
) -> None:
    """Write a checkpoint with the other processes.

    `save` is the name that process 0 gives the save, and `entries` are the leaves of this process.
    `folder` is the context in which process 0 has a folder to write to; on an error it removes what
    was written. `write` writes the blocks of this process to the folder, for a save of this name;
    `commit` the index, in process 0.

    Raises: CheckpointError, in all processes, if one of them has failed, or saves another tree.
    """
    leaves = compared(entries)
    if meeting.others.index:
        place, save = _agreed(meeting, final, leaves, None)
        _write_blocks(meeting, place, lambda: write(place, save))
        meeting.exchange("index")
        return
    with contextlib.ExitStack() as stack:
        try:
            made = stack.enter_context(folder(final))
        except Exception as error:
            meeting.exchange("folder", error=error)
            raise
        place, save = _agreed(meeting, final, leaves, (made, save))
        _write_blocks(meeting, place, lambda: write(place, save))
        try:
            commit(place, save)
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


def compared(entries: Sequence[Entry]) -> list[str]:
    """Return a text for each leaf, which must be equal in all processes.

    Of what process 0 writes alone, only the paths must be.
    """
    known: dict[int, str] = {}
    found = []
    for entry in entries:
        about = ""
        if entry.layout is not None:
            about = known.get(id(entry.layout), "?")
            if about == "?":
                about = known[id(entry.layout)] = _about(entry.layout)
        path = entry.path
        found.append(f"{path}: {entry.dtype}{list(entry.shape)} {about}" if about else path)
    return found


def _about(layout: Layout) -> str:
    """Return a text of a layout; "" if process 0 writes all of it."""
    if not any(layout.owners):
        return ""
    owners: object = list(layout.owners)
    if len(layout.owners) > MOST_SHOWN:
        owners = f"of hash {_digest(list(map(str, layout.owners)))[:16]}"
    return f"in blocks {list(layout.grid)} of processes {owners}"


def _agreed(
    meeting: Meeting, final: Path, leaves: Sequence[str], made: tuple[Path, str] | None
) -> tuple[Path, str]:
    """Return the folder that process 0 created, and the name of the save.

    Raises: CheckpointError, in all processes, if they save to different paths, or other leaves.
    """
    own = [str(final), _digest(leaves)]
    text = str(json.dumps([*own, *map(str, made or ())]))
    said = meeting.exchange("folder", text)
    read = [(json.loads(each), ranks) for each, ranks in said.items()]
    ((wanted, digest, place, save), _), *rest = read
    others = [f"process {ranks[0]} to {each[0]}" for each, ranks in rest if each[0] != wanted]
    if others:
        meeting.refuse(
            f"process 0 saves to {wanted}, {', '.join(others)}",
            "pass the same folder, on a shared file system, in all processes",
        )
    if any(each[1] != digest for each, _ in rest):
        _refuse_difference(meeting, leaves)
    return Path(place), save


def _refuse_difference(meeting: Meeting, leaves: Sequence[str]) -> NoReturn:
    """Find the first leaf that is not the same in all processes, by bisection, and name it.

    Raises: CheckpointError.
    """
    counts = meeting.exchange("leaves", str(len(leaves)))
    same, most = 0, min(map(int, counts))
    while same < most:
        middle = (same + most + 1) // 2
        if len(meeting.exchange(f"leaves/{middle}", _digest(leaves[:middle]))) == 1:
            same = middle
        else:
            most = middle - 1
    leaf = leaves[same] if same < len(leaves) else "no leaf"
    found = meeting.exchange("leaf", _encoded(leaf).decode(errors="replace")[:LONGEST_LEAF])
    (first, _), *rest = found.items()
    other, ranks = rest[0] if rest else (first, (meeting.others.count - 1,))
    meeting.refuse(
        f"the trees of the processes 0 and {ranks[0]} differ: {first} in process 0, {other} "
        f"in process {ranks[0]}",
        "save the same tree in all processes",
    )


def _digest(leaves: Sequence[str]) -> str:
    return hashlib.sha256(_encoded("\0".join(leaves))).hexdigest()


def _encoded(text: str) -> bytes:
    # Keys of dicts may have halves of surrogate pairs.
    return text.encode(errors="surrogatepass")


def _write_blocks(meeting: Meeting, place: Path, write: Callable[[], None]) -> None:
    """Write the blocks of this process, and wait for all."""
    try:
        if not place.is_dir():
            raise CheckpointError(
                f"there is no folder {place} here: the processes do not share a file system"
            )
        write()
    except Exception as error:
        meeting.exchange("blocks", error=error)
        raise
    meeting.exchange("blocks")
