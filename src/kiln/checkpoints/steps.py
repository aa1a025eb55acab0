"""The last n checkpoints of a run, by step number."""

from __future__ import annotations

import contextlib
import operator
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.files.writing import PathLike
from kiln.base.process.identity import process_index
from kiln.base.source import api_boundary, current_source
from kiln.checkpoints.checkpoint import Checkpoint, Placement
from kiln.checkpoints.data_files import INDEX
from kiln.checkpoints.folders import remove_abandoned, remove_folder
from kiln.checkpoints.progress import Report
from kiln.checkpoints.saving import Saving, prepared, settle, started

_STEP = re.compile(r"step-([0-9]+)$")


class Checkpoints:
    """The checkpoints of a run in one folder; the last `keep` are kept (None: all).

    A checkpoint is removed only when a later one is complete on disk.

    Raises: ValueError if `keep` is less than 1.
    Example:
        >>> import tempfile
        >>> checkpoints = kiln.checkpoints.Checkpoints(tempfile.mkdtemp(), keep=2)
        >>> for step in range(4):
        ...     _ = checkpoints.save(step, {"w": jnp.ones(2) * step})
        >>> checkpoints.steps(), checkpoints.latest()
        ([2, 3], 3)
        >>> checkpoints.restore()
        {'w': Array([3., 3.], dtype=float32)}
    """

    def __init__(self, folder: PathLike, *, keep: int | None = None) -> None:
        if keep is not None and operator.index(keep) < 1:
            raise ValueError(
                three_lines(
                    f"Checkpoints({os.fspath(folder)!r}, keep={keep}) at {current_source()}",
                    "keep must be at least 1",
                    "pass the number of checkpoints to keep, or None to keep all",
                )
            )
        # A change of the working directory must not redirect the run.
        self.folder = Path(os.path.abspath(folder))
        self.keep = keep

    def path(self, step: int) -> Path:
        """Return the folder of a step."""
        return self.folder / f"step-{operator.index(step):08d}"

    def steps(self) -> list[int]:
        """Return the steps whose checkpoints are complete, in ascending order."""
        found = []
        with contextlib.suppress(FileNotFoundError):
            for path in self.folder.iterdir():
                name = _STEP.match(path.name)
                if name and (path / INDEX).exists():
                    found.append(int(name[1]))
        return sorted(found)

    def latest(self) -> int | None:
        """Return the last step, or None if there is none."""
        return max(self.steps(), default=None)

    @api_boundary
    def save(
        self,
        step: int,
        tree: Any,
        *,
        wait: bool = True,
        metadata: Any = None,
        progress: Report = None,
    ) -> Saving:
        """Save a tree as the checkpoint of a step, then remove all but the last `keep`.

        The arguments and errors are those of `kiln.checkpoints.save`.

        Raises: ValueError if `step` is negative.
        """
        if operator.index(step) < 0:
            raise ValueError(
                three_lines(
                    f"Checkpoints.save({step}, ...) at {current_source()}",
                    "steps are numbered from 0",
                    "pass the number of the step",
                )
            )
        settle()
        path = self.path(step)
        write: Callable[[], None] = prepared(path, tree, wait, metadata, progress)

        def work() -> None:
            if not process_index():
                # Left by any run: removed now, because this save may need the space.
                remove_abandoned(self.folder, "step-[0-9]+")
            write()
            if not process_index():
                self._remove_others(step)

        return started(path, work, wait)

    @api_boundary
    def restore(
        self,
        step: int | None = None,
        target: Any = None,
        *,
        sharding: Placement = None,
        strict: bool = True,
    ) -> Any:
        """Return the tree of a step, by default of the last one, as `kiln.checkpoints.restore`.

        Raises: FileNotFoundError that lists the existing steps, and the errors of `restore`.
        """
        with self.open(step) as checkpoint:
            return checkpoint.restore(target, sharding=sharding, strict=strict)

    @api_boundary
    def open(self, step: int | None = None) -> Checkpoint:
        """Open the checkpoint of a step, by default of the last one, to read parts of it.

        Raises: FileNotFoundError that lists the existing steps.
        """
        known = self.steps()
        if step not in known and (step is not None or not known):
            raise FileNotFoundError(
                three_lines(
                    f"the checkpoint of step {'(the last)' if step is None else step} in "
                    f"{self.folder} at {current_source()}",
                    f"there are checkpoints of the steps {known}"
                    if known
                    else "there is no checkpoint yet",
                    "call latest(), which is None for a new run",
                )
            )
        return Checkpoint(self.path(known[-1] if step is None else step))

    def __repr__(self) -> str:
        return f"Checkpoints({str(self.folder)!r}, keep={self.keep})"

    def _remove_others(self, saved: int) -> None:
        if self.keep is not None:
            others = [step for step in self.steps() if step != saved]
            for step in others[: max(0, len(others) + 1 - self.keep)]:
                with contextlib.suppress(FileNotFoundError):
                    remove_folder(self.path(step), INDEX)
