"""Saving, synchronously or in the background.

`save` first captures the values; then arrays may be donated, deleted and, with `wait=False`, NumPy
arrays modified. A save first waits for the previous one in the background, and raises its error.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import itertools
import os
import re
import threading
import uuid
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kiln.base.dtypes import is_extended
from kiln.base.errors import CheckpointError, three_lines
from kiln.base.files.writing import PathLike, sync_folder, write_atomically
from kiln.base.lazy import json
from kiln.base.process import forks
from kiln.base.process.identity import process_index
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_map
from kiln.checkpoints.blocks import Advance, write_blocks
from kiln.checkpoints.data_files import FILE, INDEX, file_name, open_inside
from kiln.checkpoints.folders import locked, new_folder, remove_abandoned
from kiln.checkpoints.index import index_bytes
from kiln.checkpoints.leaves import Held, held, structure_of
from kiln.checkpoints.plan import Plan
from kiln.checkpoints.progress import Report, reported
from kiln.checkpoints.together import Meeting, write_by_first, write_together
from kiln.core.arrays.array import ConcreteArray
from kiln.core.processes.peers import peers
from kiln.serialization.files import save as save_file
from kiln.serialization.state_dicts import to_state_dict

FILES = (".safetensors", ".npz")
"""The suffixes of single files, written by `kiln.serialization`."""

_PARTS = r"part-[0-9]+\.json"
"""What earlier releases wrote while several processes saved."""
_LEFT = re.compile(rf"{FILE.pattern}|{_PARTS}|\.({re.escape(INDEX)}|{_PARTS})\.[0-9a-f]{{32}}\.tmp")
"""Files that a killed save leaves in the folder of a checkpoint; others there are not kiln's."""


class Saving:
    """A save that may still be running in the background."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._process = os.getpid()
        self._finished = threading.Event()
        self._error: BaseException | None = None
        self._seen = False

    @property
    def done(self) -> bool:
        """Whether it has ended, with or without an error."""
        return self._finished.is_set()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until everything is on disk.

        Units: `timeout` in seconds.
        Raises: the error of the save; TimeoutError; RuntimeError in a forked child.
        """
        if self._process != os.getpid() and not self.done:
            raise RuntimeError(
                three_lines(
                    f"wait() for the save of {self.path} at {current_source()}",
                    "the saving thread runs in the parent of this forked process",
                    "wait there",
                )
            )
        if not self._finished.wait(timeout):
            raise TimeoutError(
                three_lines(
                    f"wait({timeout}) for the save of {self.path} at {current_source()}",
                    "it is still running",
                    "wait longer, or without a timeout",
                )
            )
        self._seen = True
        if self._error is not None:
            raise self._error

    def __repr__(self) -> str:
        state = "running" if not self.done else "failed" if self._error else "done"
        return f"Saving({str(self.path)!r}, {state})"

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised again by `wait`
            error.add_note(f"while {self.path} was saved")
            self._error = error
        finally:
            self._finished.set()


_unsettled: list[Saving] = []
_lock = forks.new_lock()


def settle() -> None:
    """Wait for the background save, and raise its error unless `wait` has raised it."""
    with _lock:
        before = list(_unsettled)
    for saving in before:
        try:
            if not saving._seen:
                saving.wait()
        finally:
            if saving.done:
                with _lock, contextlib.suppress(ValueError):
                    _unsettled.remove(saving)


def started(path: Path, work: Callable[[], None], wait: bool) -> Saving:
    """Do the work of a save, in the background unless `wait`.

    `path` appears in messages.
    Raises: with `wait`, what `Saving.wait` raises.
    """
    saving = Saving(path)
    if wait:
        saving._run(work)
        saving.wait()
        return saving
    with _lock:
        _unsettled.append(saving)
    threading.Thread(target=saving._run, args=(work,), name="kiln checkpoint").start()
    return saving


@forks.in_child
def _forget() -> None:
    _unsettled.clear()


@atexit.register
def _tell() -> None:
    # All threads have ended; report errors that no call has raised.
    for saving in _unsettled:
        if not saving._seen and saving._error is not None:
            text = f"{saving.path} was not saved: {saving._error!r}"
            warnings.warn(text, RuntimeWarning, stacklevel=1)


@api_boundary
def save(
    path: PathLike,
    tree: Any,
    *,
    wait: bool = True,
    metadata: Any = None,
    progress: Report = None,
) -> Saving:
    """Save a tree of arrays, numbers, strings and None as the folder `path`.

    Each process writes the shards on its devices. An existing checkpoint at `path` is replaced once
    the new one is on disk: a kill at any moment leaves one or the other. With `wait=False` it is
    written in the background; `wait()` of the result raises errors, and so does the next save.
    `metadata` is any value that JSON can represent. `progress`: whether to show a bar, by default
    (None) on a terminal; or a function of the bytes written and the total.

    A path with the suffix `.safetensors` or `.npz` is written as such a file, for nested dicts.

    Raises: TypeError and ValueError with the path of a leaf that cannot be saved; CheckpointError
        if `path` exists and is not a checkpoint.
    Example:
        >>> import tempfile
        >>> folder = tempfile.mkdtemp() + "/step"
        >>> _ = kiln.checkpoints.save(folder, {"w": jnp.ones(2), "step": 3})
        >>> kiln.checkpoints.restore(folder)
        {'step': 3, 'w': Array([1., 1.], dtype=float32)}
    """
    settle()
    return started(Path(path), prepared(path, tree, wait, metadata, progress), wait)


def prepared(
    path: PathLike, tree: Any, wait: bool, metadata: Any, progress: Report
) -> Callable[[], None]:
    """Capture the values to save, and return the function that writes them.

    The arguments are those of `checkpoints.save`.
    Raises: the errors of `checkpoints.save` before anything is written.
    """
    # A later change of the working directory must not redirect the save.
    final = Path(os.path.abspath(path))
    asked = f"checkpoints.save({str(path)!r})"
    others = peers()
    meeting = None if others is None else Meeting(others, f"checkpoint/{next(_saves)}", asked)
    if final.suffix in FILES:
        file = _file(final, tree, wait, metadata)
        return file if meeting is None else functools.partial(write_by_first, meeting, file)
    _require_writable(final, asked)
    metadata = _held_json(metadata, asked)
    leaves = held(tree, asked, copy=not wait)
    structure = None if process_index() else structure_of(tree)
    total = sum([part.nbytes for leaf in leaves for part in leaf.parts])
    entries = [leaf.entry for leaf in leaves]

    def write() -> None:
        save = uuid.uuid4().hex
        with reported(f"Saving {final.name}", total, progress) as advance:

            def blocks(folder: Path, save: str) -> None:
                _write_blocks(folder, save, leaves, advance)

            def commit(folder: Path, save: str) -> None:
                content = index_bytes(structure, entries, metadata, save)
                write_atomically(folder / INDEX, [content])

            if meeting is not None:
                write_together(meeting, final, save, entries, _folder, blocks, commit)
                return
            with _folder(final) as folder:
                blocks(folder, save)
                commit(folder, save)

    return write


_saves = itertools.count()


@contextlib.contextmanager
def _folder(final: Path) -> Iterator[Path]:
    """Yield the folder to write to: a new one, or the existing one."""
    remove_abandoned(final.parent, re.escape(final.name))
    with _replacing(final) if final.exists() else new_folder(final) as made:
        yield made or final


def _write_blocks(folder: Path, save: str, leaves: Sequence[Held], advance: Advance) -> None:
    process = process_index()
    data = folder / file_name(process, save)
    parts = [part for leaf in leaves for part in leaf.parts]
    plan = Plan(save, [leaf.entry for leaf in leaves])
    try:
        write_blocks(data, plan, process, parts, advance)
        # The directory entries of the files must reach the disk before the index that refers to
        # them.
        sync_folder(folder)
    except BaseException:
        with contextlib.suppress(OSError):
            data.unlink()
        raise


@contextlib.contextmanager
def _replacing(folder: Path) -> Iterator[None]:
    """Hold the lock of a checkpoint while it is overwritten.

    Unused files are removed before, to free space, and after, even after an error.
    """
    with locked(folder):
        _remove_unused(folder)
        try:
            yield
        finally:
            _remove_unused(folder)


def _remove_unused(folder: Path) -> None:
    """Remove files that the checkpoint in a folder does not use, and those of failed saves."""
    asked = f"checkpoints.save({str(folder)!r})"
    try:
        with open(open_inside(folder, INDEX, asked), "rb") as file:
            index = file.read()
    except FileNotFoundError:
        index = b""
    for path in folder.iterdir():
        if not _LEFT.fullmatch(path.name):
            continue
        # The random names of saves occur literally in an index, even in a damaged one.
        data = FILE.fullmatch(path.name)
        if data is None or data[1].encode() not in index:
            # A file that cannot be removed only wastes space.
            with contextlib.suppress(OSError):
                path.unlink()


def _require_writable(final: Path, asked: str) -> None:
    if not final.exists() or (final / INDEX).exists():
        return
    # The first save into an empty folder may have been killed.
    if final.is_dir() and all(_LEFT.fullmatch(path.name) for path in final.iterdir()):
        return
    raise CheckpointError(
        three_lines(
            f"{asked} at {current_source()}",
            f"{final} is {'a folder with other files' if final.is_dir() else 'a file'}, and no "
            "checkpoint",
            "name a folder that does not exist, or give a file the suffix .safetensors or .npz",
        )
    )


def _held_json(metadata: Any, asked: str) -> Any:
    """Return a copy of the metadata, which cannot change while it is written."""
    held = None
    try:
        held = json.loads(json.dumps(metadata))
        same = held == metadata
    except (TypeError, ValueError) as error:
        same, wrong = False, str(error)
    else:
        wrong = "JSON does not preserve it"
    if not same:
        raise TypeError(
            three_lines(
                f"{asked} with metadata={metadata!r:.80} at {current_source()}",
                f"metadata is written as JSON: {wrong}",
                "use dicts with string keys, lists, strings, numbers and None",
            )
        )
    return held


def _file(final: Path, tree: Any, wait: bool, metadata: Any) -> Callable[[], None]:
    state = to_state_dict(tree)

    def hold(leaf: Any) -> Any:
        if isinstance(leaf, ConcreteArray) and not is_extended(leaf.dtype):
            return np.asarray(leaf)
        return leaf.copy() if isinstance(leaf, np.ndarray) and not wait else leaf

    state = tree_map(hold, state)
    return lambda: save_file(final, state, metadata=metadata)
