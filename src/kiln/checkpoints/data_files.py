"""The data files of a checkpoint: their names, and those that a reader has opened.

A data file holds the blocks that one process wrote. A reader keeps files open, so that it can read
a checkpoint after another was saved under its name.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np

from kiln.base.errors import CorruptCheckpointError, three_lines
from kiln.base.source import current_source

INDEX = "index.json"
"""The name of the index file."""
FILE = re.compile(r"data-[0-9]{1,9}-([0-9a-f]{32})\.bin")
"""The names of data files; the group is the name of the save."""
MOST_HELD = 128
"""How many files a reader keeps open. Systems often allow a process 1,024."""
REMEDY = "restore another checkpoint: kiln.checkpoints.Checkpoints(folder).steps() lists them"


class Damage(Exception):
    """What is wrong with data files; readers add the path of the leaf that they read."""


def file_name(process: int, save: str) -> str:
    """Return the name of the file that a process writes in a save."""
    return f"data-{process}-{save}.bin"


def refuse_index(folder: Path, asked: str, wrong: str, remedy: str = REMEDY) -> NoReturn:
    """Raise CorruptCheckpointError for the index of a checkpoint."""
    raise CorruptCheckpointError(
        three_lines(
            f"{asked} at {current_source()}",
            f"the index {folder / INDEX} is damaged: {wrong}",
            remedy,
        )
    )


def open_inside(folder: Path, name: str, asked: str) -> int:
    """Open a file in the folder of a checkpoint for reading.

    Raises: FileNotFoundError; CorruptCheckpointError if it is a link or not a regular file.
    """
    try:
        # Opening a pipe must not block.
        opened = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
            refuse_index(
                folder, asked, f"{name} is a link, or not a file", "copy it without links: cp -rL"
            )
        raise
    if not stat.S_ISREG(os.fstat(opened).st_mode):
        os.close(opened)
        refuse_index(folder, asked, f"{name} is not a file")
    return opened


class DataFiles:
    """The data files of a checkpoint that is open for reading.

    `open_file(name)` opens one. The first `MOST_HELD` stay open until `close`, others as long as
    they are read.
    """

    def __init__(self, open_file: Callable[[str], int]) -> None:
        self._open = open_file
        self._held: dict[str, int] = {}
        self.is_closed = False
        self.tables: dict[str, np.ndarray] = {}
        """The checksums of the blocks of each file that has been asked for them."""

    def hold(self, names: Collection[str]) -> bool:
        """Open these files now, unless they are too many; return whether all exist.

        Others are closed.
        """
        self._release()
        if len(names) > MOST_HELD:
            return True
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                self._held[name] = self._open(name)
        return len(self._held) == len(names)

    @contextlib.contextmanager
    def opened(self, name: str) -> Iterator[int]:
        """Yield the descriptor of a file.

        Raises: Damage if it is missing.
        """
        found = self._held.get(name)
        if found is not None:
            yield found
            return
        try:
            found = self._open(name)
        except FileNotFoundError:
            raise Damage(f"its file {name} is missing") from None
        if len(self._held) < MOST_HELD and self._held.setdefault(name, found) == found:
            yield found
            return
        try:
            yield found
        finally:
            os.close(found)

    def close(self) -> None:
        """Close the files; none is opened any more."""
        self.is_closed = True
        self._release()

    def _release(self) -> None:
        while self._held:
            os.close(self._held.popitem()[1])
