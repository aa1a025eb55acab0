"""A full disk in the midst of every kind of writing: nothing of it remains, and less fits later.

Each kind of file is written while everything fails from the n-th call on that needs room, for every
n, and while files may have no more than this many bytes, for many numbers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import kiln.numpy as jnp
from kiln import checkpoints, profiler, serialization
from kiln.base.options.config import override
from kiln.execution import dumping
from kiln.execution.disk_cache import Entry, folder
from tests.contract.marks import contract


class Kind(NamedTuple):
    """A kind of writing: it writes so many numbers below a folder, and gives back how many are."""

    name: str
    write: Callable[[Path, int], None]
    count: Callable[[Path], int]


def _tree(size: int) -> Any:
    return {"w": jnp.ones(size, jnp.uint8), "n": size}


def _checkpoint(folder: Path, size: int) -> None:
    checkpoints.save(folder / "c", _tree(size), metadata="x" * (size // 8))


def _in_background(folder: Path, size: int) -> None:
    checkpoints.save(folder / "c", _tree(size), wait=False).wait()


def _step(folder: Path, size: int) -> None:
    run = checkpoints.Checkpoints(folder / "run", keep=1)
    run.save((run.latest() or 0) + 1, _tree(size))


def _file(suffix: str) -> Kind:
    return Kind(
        f"serialization {suffix}",
        lambda folder, size: serialization.save(folder / f"a{suffix}", {"w": np.ones(size, "u1")}),
        lambda folder: len(serialization.load(folder / f"a{suffix}")["w"]),
    )


def _trace(folder: Path, size: int) -> None:
    with profiler.trace(folder / "t"), profiler.TraceAnnotation(os.urandom(size).hex()):
        pass


def _dump(folder: Path, size: int) -> None:
    with override(dump="jaxpr", dump_dir=str(folder / "dumps"), dump_only=""):
        dumping.dump("f", "jaxpr", lambda: "x" * size)


def _cached(place: Path, size: int) -> None:
    with override(cache_dir=str(place / "cache")):
        found = folder()
        assert found is not None
        if not found.put("a", Entry("native", "", "f", 0.0, bytes(size))):
            raise OSError("it was not kept")


def _cached_bytes(place: Path) -> int:
    with override(cache_dir=str(place / "cache")):
        found = folder()
        assert found is not None
        entry = found.get("a")
        return 0 if entry is None else len(entry.code)


def _bytes_below(folder: Path) -> int:
    return max(path.stat().st_size for path in folder.rglob("*") if path.is_file())


KINDS = [
    Kind("checkpoint", _checkpoint, lambda f: len(checkpoints.restore(f / "c")["w"])),
    Kind("in the background", _in_background, lambda f: len(checkpoints.restore(f / "c")["w"])),
    Kind("step", _step, lambda f: len(checkpoints.Checkpoints(f / "run").restore()["w"])),
    Kind(
        "checkpoint .npz",
        lambda f, size: (checkpoints.save(f / "c.npz", {"w": np.ones(size, "u1")}), None)[1],
        lambda f: len(checkpoints.restore(f / "c.npz")["w"]),
    ),
    *map(_file, (".msgpack", ".npz", ".safetensors")),
    Kind(
        "numpy.save",
        lambda f, size: jnp.save(f / "a", jnp.ones(size, "u1")),
        lambda f: len(jnp.load(f / "a.npy")),
    ),
    Kind(
        "numpy.savez",
        lambda f, size: jnp.savez(f / "a.npz", w=jnp.ones(size, "u1")),
        lambda f: len(jnp.load(f / "a.npz")["w"]),
    ),
    Kind("trace", _trace, _bytes_below),
    Kind("dump", _dump, _bytes_below),
    Kind("cache", _cached, _cached_bytes),
]
FAILURES = re.compile("File too large|No space left|not kept|requested and [0-9]+ written")
BIG, SMALL, LEAST = 40_000, 30_000, 1_000


class _Disk:
    """Counts the calls that need room, and fails from the n-th on."""

    left: int | None = None
    failed = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.left is None or not self._needs_room(event, arguments):
            return
        if not self.left:
            self.failed = True
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1

    @staticmethod
    def _needs_room(event: str, arguments: tuple[Any, ...]) -> bool:
        if event == "open":
            return isinstance(arguments[2], int) and bool(arguments[2] & os.O_CREAT)
        return event in ("os.mkdir", "os.rename", "os.link", "os.symlink")


_disk = _Disk()
sys.addaudithook(_disk)


@contextlib.contextmanager
def full_after(calls: int) -> Iterator[_Disk]:
    """Let all calls that need room fail but the first ones."""
    _disk.left, _disk.failed = calls, False
    try:
        yield _disk
    finally:
        _disk.left = None


@contextlib.contextmanager
def files_of(size: int) -> Iterator[None]:
    """Let files have no more bytes than `size`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def state_of(folder: Path) -> dict[str, bytes | None]:
    """Return all that is below a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


def written_on_a_full_disk(kind: Kind, folder: Path) -> int:
    """Write with every call failing in turn; return how many failed."""
    for calls in range(100):
        before = state_of(folder)
        with full_after(calls) as disk:
            try:
                kind.write(folder, BIG)
            except OSError:
                assert disk.failed
                assert state_of(folder) == before
            else:
                # Some calls can be done without.
                if not disk.failed:
                    return calls
    raise AssertionError("it needs more calls than it may")


@contract("18.4")
@pytest.mark.filterwarnings("ignore:.*a compiled program is not kept")
@pytest.mark.parametrize("is_new", [True, False])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_call_that_needs_room_may_fail(kind: Kind, is_new: bool, tmp_path: Path) -> None:
    if kind.name == "cache":
        # The folder itself is made before anything is written.
        _cached_bytes(tmp_path)
    if not is_new:
        kind.write(tmp_path, SMALL)
    assert written_on_a_full_disk(kind, tmp_path) >= 2
    assert kind.count(tmp_path) >= BIG
    kind.write(tmp_path, LEAST)
    if "trace" not in kind.name and "dump" not in kind.name:
        assert kind.count(tmp_path) == LEAST


@contract("18.4")
@pytest.mark.filterwarnings("ignore:.*a compiled program is not kept")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_every_write_may_fail(kind: Kind, tmp_path: Path) -> None:
    _cached_bytes(tmp_path)
    kind.write(tmp_path, SMALL)
    before = state_of(tmp_path)
    for size in (0, 1, 100, 5_000, 8_192, 20_000, 39_900):
        with files_of(size), pytest.raises(OSError, match=FAILURES):
            kind.write(tmp_path, BIG)
        assert state_of(tmp_path) == before, size
    with files_of(20_000):
        # What fits is written.
        kind.write(tmp_path, LEAST)


@contract("18.4")
@pytest.mark.parametrize("name", ["checkpoint", "step", "serialization .npz"])
def test_bytes_may_fail_to_reach_the_disk(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (kind,) = [kind for kind in KINDS if kind.name == name]
    kind.write(tmp_path, SMALL)
    before = state_of(tmp_path)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="Input/output"):
            kind.write(tmp_path, BIG)
    assert state_of(tmp_path) == before


@contract("18.4")
def test_what_killed_writers_left_makes_room(tmp_path: Path) -> None:
    run = checkpoints.Checkpoints(tmp_path / "run")
    checkpoints.save(tmp_path / "c", _tree(SMALL))
    run.save(1, _tree(SMALL))
    serialization.save(tmp_path / "a.npz", {"w": np.ones(3)})
    before, drawn = state_of(tmp_path), "0" * 32
    left = [tmp_path / "c" / f"data-0-{drawn}.bin", tmp_path / "c" / f".index.json.{drawn}.tmp"]
    left += [tmp_path / f".a.npz.{drawn}.tmp", tmp_path / "run" / f".step-00000007.{drawn}.tmp"]
    left[-1].mkdir()
    for path in left[:-1]:
        path.write_bytes(bytes(BIG))
    with full_after(0):
        for write in (
            lambda: checkpoints.save(tmp_path / "c", _tree(BIG)),
            lambda: run.save(2, _tree(BIG)),
            lambda: serialization.save(tmp_path / "a.npz", {"w": np.ones(3)}),
        ):
            with pytest.raises(OSError, match="No space left"):
                write()
    assert state_of(tmp_path) == before


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a disk of 200 kB."""
    place = tmp_path / "disk"
    place.mkdir(0o700)
    made = ["mount", "-t", "tmpfs", "-o", "size=200k,mode=0700", "tmpfs", str(place)]
    can_mount = os.geteuid() == 0 and shutil.which("mount") is not None
    if not can_mount or subprocess.run(made, check=False, capture_output=True).returncode:
        pytest.skip("a disk can be mounted by root alone, where the system lets it")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contract("18.4")
@pytest.mark.filterwarnings("ignore:.*a compiled program is not kept")
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_on_a_disk_that_is_full(kind: Kind, small_disk: Path) -> None:
    _cached_bytes(small_disk)
    kind.write(small_disk, SMALL)
    before, free = state_of(small_disk), os.statvfs(small_disk).f_bfree
    for _ in range(3):
        with pytest.raises(OSError, match=FAILURES):
            kind.write(small_disk, 400_000)
        assert state_of(small_disk) == before
        assert os.statvfs(small_disk).f_bfree == free
    kind.write(small_disk, BIG)
    assert kind.count(small_disk) >= BIG
