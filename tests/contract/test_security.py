"""`docs/security.md`, sentence by sentence."""

from __future__ import annotations

import os
import pickle
import re
import stat
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import checkpoints, serialization
from kiln.base.options.config import override
from kiln.checkpoints.tables import head_bytes, head_nbytes
from kiln.engines.native.executables import perf_map
from kiln.errors import CheckpointError, CorruptCheckpointError
from kiln.execution import disk_cache, own_folder
from kiln.execution.disk_cache import Entry, Folder, folder
from kiln.execution.own_folder import Foreign, ForeignWay, OwnFolder
from tests.structure.source_tree import REPOSITORY
from tests.unit.checkpoints.crafted import content_of, first_version, leaf_of, write

PAGE = REPOSITORY / "docs" / "security.md"
SECTIONS = (
    "What is trusted",
    "Who may write what",
    "The cache on disk",
    "Checkpoints",
    "Other files",
)
ENTRY = Entry("native", "all of it", "f", 0.25, b"code")
STRANGER = 54321
Test = TypeVar("Test", bound=Callable[..., Any])
tested: list[str] = []


def says(sentence: str) -> Callable[[Test], Test]:
    """Mark a test as that of a sentence of the page."""
    tested.append(sentence)
    return lambda test: test


def sentences() -> list[str]:
    """Return what the page promises in the sections that this file tests."""
    parts = re.split(r"^## (.+)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    found = []
    for title, text in zip(parts[1::2], parts[2::2], strict=True):
        if title in SECTIONS:
            found += re.findall(r"^- ((?:.+\n)(?:  .+\n)*)", text, flags=re.MULTILINE)
    return [" ".join(each.split()) for each in found]


def test_every_sentence_has_a_test() -> None:
    assert sorted(tested) == sorted(sentences())


@pytest.fixture(autouse=True)
def _no_warning_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "_warned", set())


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Folder]:
    """Return a cache with an entry."""
    with override(cache_dir=str(tmp_path / "cache")):
        found = folder()
        assert found is not None
        found.put("a", ENTRY)
        yield found


def refused(place: Folder, match: str) -> None:
    """Check that an entry is not read, and the cache off from then on."""
    with pytest.warns(RuntimeWarning, match=match):
        assert place.get("a") is None
    assert folder() is None


@says(
    "A process with the rights of a user other than the one who started it does not use the cache"
    " on disk."
)
def test_rights_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with override(cache_dir=str(tmp_path / "cache")), pytest.warns(RuntimeWarning, match="rights"):
        assert folder() is None


@says("Files that other members of your group can write to are never used as code.")
def test_the_group(place: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folder, "_is_private", lambda *_: False)
    tmp_path.chmod(0o770)
    with pytest.raises(ForeignWay):
        OwnFolder(place.path)
    tmp_path.chmod(0o700)
    os.chmod(place.path, 0o770)
    with pytest.raises(Foreign):
        OwnFolder(place.path)
    os.chmod(place.path, 0o700)
    (tmp_path / "cache" / "a.program").chmod(0o660)
    refused(place, "others may open it")


@says("In a world-writable folder, files of other users are never used as code.")
def test_everybody(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    # An open folder that its owner closed afterwards, where the entry is another user's.
    real = own_folder._why_foreign
    monkeypatch.setattr(
        own_folder,
        "_why_foreign",
        lambda about: real(os.stat_result((*about[:4], STRANGER, *about[5:]))),
    )
    refused(place, f"belongs to the user with number {STRANGER}")


@says(
    "An attacker who creates the folder of the cache before you, in `/tmp`, can disable the "
    "cache, and nothing else."
)
def test_who_was_first(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_folder, "_require_closed", lambda _: None)
    disk_cache._folders.clear()
    me = os.geteuid() + 1
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: me)
    x = np.linspace(0, 1, 5, dtype=np.float32)
    with override(check=False), pytest.warns(RuntimeWarning, match="belongs to the user"):
        found = kiln.jit(lambda x: (((x + 1) * 2 - 3) * x + 4) * x - x * x * x + 5)(x)
    np.testing.assert_allclose(found, (((x + 1) * 2 - 3) * x + 4) * x - x * x * x + 5, rtol=1e-6)
    assert os.listdir(place.path) == ["a.program"]


@says("Files that contain code are created for you alone, whatever the umask.")
def test_modes(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with override(cache_dir=str(tmp_path / "way" / "cache")):
            found = folder()
            assert found is not None
            found.put("a", ENTRY)
    finally:
        os.umask(before)
    for path, mode in (("way", 0o700), ("way/cache", 0o700), ("way/cache/a.program", 0o600)):
        assert stat.S_IMODE((tmp_path / path).stat().st_mode) == mode


@says(
    "Only an entry that belongs to you, that no other user may open, and that has a single name "
    "is run."
)
def test_entries(place: Folder, tmp_path: Path) -> None:
    assert place.get("a") == ENTRY
    os.link(tmp_path / "cache" / "a.program", tmp_path / "another")
    refused(place, "2 names")


@says("A link, a pipe, a socket or a folder in place of an entry is rejected, and never blocks.")
@pytest.mark.parametrize("what", ["link", "pipe", "folder"])
def test_no_entries(place: Folder, tmp_path: Path, what: str) -> None:
    path = tmp_path / "cache" / "a.program"
    path.rename(tmp_path / "kept")
    if what == "link":
        path.symlink_to(tmp_path / "kept")
    else:
        (os.mkfifo if what == "pipe" else os.mkdir)(path, 0o600)
    refused(place, "it is not a file")


@says("A folder that belongs to another user, or that other users may enter, is not used.")
def test_the_folder(place: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    for mode in (0o710, 0o701, 0o704, 0o755, 0o777):
        os.chmod(place.path, mode)
        with pytest.raises(Foreign, match="others may enter it"):
            OwnFolder(place.path)
    os.chmod(place.path, 0o700)
    monkeypatch.setattr(own_folder, "_require_closed", lambda _: None)
    me = os.geteuid() + 1
    for name in ("getuid", "geteuid"):
        monkeypatch.setattr(os, name, lambda: me)
    with pytest.raises(Foreign, match="belongs to the user"):
        OwnFolder(place.path)


@says(
    "A folder that other users can replace is not used: all parent folders must belong to you or "
    "root, and only their owner may write to them."
)
def test_the_way(tmp_path: Path) -> None:
    OwnFolder(str(tmp_path / "way" / "inner" / "cache"))
    (tmp_path / "way").chmod(0o777)
    with (
        override(cache_dir=str(tmp_path / "way" / "inner" / "cache")),
        pytest.warns(RuntimeWarning, match="can be written by others.*set KILN_CACHE_DIR"),
    ):
        assert folder() is None
    (tmp_path / "way").chmod(0o700)
    if not os.geteuid():
        os.chown(tmp_path / "way", STRANGER, STRANGER)
        with pytest.raises(ForeignWay, match="belongs to the user"):
            OwnFolder(str(tmp_path / "way" / "inner" / "cache"))


@says("A sticky parent folder, such as `/tmp`, is accepted.")
def test_sticky_folders(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    OwnFolder(str(tmp_path / "shared" / "cache"))


@says(
    "A link on the path is followed if it belongs to you or root, and its target is checked in "
    "the same way."
)
def test_links(place: Folder, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("cache")
    assert Folder(str(tmp_path / "link")).get("a") == ENTRY
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "way").symlink_to("open")
    with pytest.raises(ForeignWay):
        OwnFolder(str(tmp_path / "way" / "cache"))
    if not os.geteuid():
        os.chown(tmp_path / "link", STRANGER, STRANGER, follow_symlinks=False)
        with pytest.raises(ForeignWay, match="the link link"):
            OwnFolder(str(tmp_path / "link"))


@says(
    "Renaming the folder, or putting another in its place, has no effect on a process that has it"
    " open."
)
def test_renaming(place: Folder, tmp_path: Path) -> None:
    (tmp_path / "cache").rename(tmp_path / "moved")
    Folder(place.path).put("a", ENTRY._replace(code=b"planted"))
    assert place.get("a") == ENTRY
    assert place.put("b", ENTRY)
    assert (tmp_path / "moved" / "b.program").exists()


@says("Anything unexpected disables the cache in the process, with one warning.")
def test_one_warning(place: Folder, tmp_path: Path) -> None:
    place.put("b", ENTRY)
    for name in "ab":
        (tmp_path / "cache" / f"{name}.program").chmod(0o666)
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        for name in "abc":
            assert place.get(name) is None
            assert not place.put(name, ENTRY)
        assert folder() is None
    assert len(records) == 1


@says(
    "The warning says what to remove, and never suggests changing modes: planted files would "
    "remain."
)
def test_remedies(place: Folder, tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        (tmp_path / "cache" / "a.program").chmod(0o666)
        place.get("a")
        disk_cache._warned.clear()
        disk_cache._folders.clear()
        (tmp_path / "cache").chmod(0o777)
        folder()
    texts = [str(each.message) for each in records]
    assert len(texts) == 2
    assert all(f"rm -r {place.path}" in text and "chmod" not in text for text in texts)


@says("A damaged entry, or that of another program, is removed and compiled again.")
def test_damage(place: Folder, tmp_path: Path) -> None:
    path = tmp_path / "cache" / "a.program"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(RuntimeWarning, match="compiled again"):
        assert place.get("a") is None
    assert place.put("b", ENTRY)
    (tmp_path / "cache" / "b.program").rename(path)
    assert place.get("a") is None
    assert not path.exists()
    assert folder() is place


@says("Clearing the cache does not affect concurrent writers, or files that are not the cache's.")
def test_clearing(place: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Folder(place.path)
    (tmp_path / "cache" / "mine.tmp").touch()
    replace = os.replace

    def cleared(*names: Any, **folders: Any) -> None:
        other.clear()
        replace(*names, **folders)

    monkeypatch.setattr(os, "replace", cleared)
    assert place.put("b", ENTRY)
    assert sorted(os.listdir(place.path)) == ["b.program", "mine.tmp"]


@says("Other files of the cache are checked in the same way.")
def test_notes(place: Folder, tmp_path: Path) -> None:
    place.put_note("n", b"text")
    assert place.note("n") == b"text"
    (tmp_path / "cache" / "n.note").chmod(0o606)
    with pytest.warns(RuntimeWarning, match="others may open it"):
        assert place.note("n") == b""
    assert folder() is None


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Return a checkpoint."""
    checkpoints.save(tmp_path / "c", {"w": np.arange(4.0)})
    return tmp_path / "c"


def rewrite(saved: Path, change: Callable[[Any], Any]) -> None:
    """Change the content of an index, with a right checksum."""
    content = content_of(saved)
    change(content)
    write(saved, content)


@says(
    "A checkpoint contains no code: classes are stored as names, and nothing is imported for them."
)
def test_no_code(saved: Path) -> None:
    rewrite(saved, lambda c: c["tree"].update({"class": "antigravity.Antigravity"}))
    assert type(checkpoints.restore(saved)) is dict
    assert "antigravity" not in sys.modules


@says(
    "Only files in the folder are read: an index that names anything else is rejected before it "
    "is opened."
)
@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "../c/index.json"])
@pytest.mark.parametrize("version", [1, 2])
def test_names_stay_inside(
    saved: Path, name: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if version == 1:
        saved = first_version(saved.parent / "first")
        rewrite(saved, lambda c: c["leaves"][0]["blocks"][0].update(file=name))
    else:
        rewrite(saved, lambda c: c.update(save=name))
    opened, real = [], os.open
    monkeypatch.setattr(os, "open", lambda *a, **k: opened.append(str(a[0])) or real(*a, **k))
    with pytest.raises(CorruptCheckpointError):
        checkpoints.restore(saved)
    assert opened == [str(saved / "index.json")]


@says("Links and pipes in place of its files are rejected, and never block.")
@pytest.mark.parametrize("pattern", ["index.json", "data-*.bin"])
@pytest.mark.parametrize("what", ["link", "pipe"])
def test_no_files(saved: Path, pattern: str, what: str) -> None:
    (path,) = saved.glob(pattern)
    path.rename(saved.parent / "kept")
    if what == "link":
        path.symlink_to(saved.parent / "kept")
    else:
        os.mkfifo(path)
    with pytest.raises(CorruptCheckpointError):
        checkpoints.restore(saved)


@says(
    "Whatever an index contains, reading returns the values that it describes or raises a "
    "CheckpointError, and no other error."
)
@pytest.mark.parametrize(
    "change",
    [
        lambda c: c.clear(),
        lambda c: c["leaves"].clear(),
        lambda c: c["leaves"].append(None),
        lambda c: c["leaves"][0].update(shape=[2**63]),
        lambda c: c["leaves"][0].update(shape=[-1]),
        lambda c: c["leaves"][0].update(layout=1),
        lambda c: c["layouts"][0].update(owners=[2**70]),
        lambda c: c["tree"].update(dict="text"),
    ],
)
def test_indices(saved: Path, change: Callable[[Any], Any]) -> None:
    # Thousands of others: tests/unit/checkpoints/test_index_checks.py.
    rewrite(saved, change)
    with pytest.raises(CheckpointError):
        checkpoints.restore(saved)


@says("Every returned element was read: blocks that overlap, or leave gaps, are rejected.")
@pytest.mark.parametrize("start", [[0, 0], [0, 1]])
def test_gaps(saved: Path, start: list[int]) -> None:
    # An index of version 2 has no places of blocks, which follow from their number.
    rewrite(saved, lambda c: c["layouts"][0].update(grid=[3], owners=[0, 0, 0]))
    with pytest.raises(CorruptCheckpointError, match="not equal"):
        checkpoints.restore(saved)
    first = first_version(saved.parent / "first")
    rewrite(first, lambda c: leaf_of(c, "both")["blocks"][1].update(start=start))
    with pytest.raises(CorruptCheckpointError, match="overlap"):
        checkpoints.Checkpoint(first).read("both")


@says("A data file of another save or process in place of one is rejected.")
def test_files_of_other_saves(saved: Path) -> None:
    checkpoints.save(saved.parent / "other", {"w": np.arange(4.0) + 1})
    (path,) = saved.glob("data-*.bin")
    (other,) = (saved.parent / "other").glob("data-*.bin")
    path.write_bytes(other.read_bytes())
    with pytest.raises(CorruptCheckpointError, match="is not the one that was written with"):
        checkpoints.restore(saved)


@says(
    "No memory is allocated for bytes that its files do not have. (A sparse file has all bytes of"
    " its size.)"
)
def test_memory(saved: Path) -> None:
    rewrite(saved, lambda c: c["leaves"][0].update(shape=[2**50]))
    with pytest.raises(CorruptCheckpointError, match="ends after 32 of"):
        checkpoints.restore(saved)


@says(
    "The checksums detect accidental damage: an attacker who can write to the folder can give you"
    " other numbers."
)
def test_other_numbers(saved: Path) -> None:
    (path,) = saved.glob("data-*.bin")
    numbers = np.full(4, 7.0).tobytes()
    path.write_bytes(path.read_bytes()[:-32] + numbers)
    with pytest.raises(CorruptCheckpointError, match="checksum"):
        checkpoints.restore(saved)
    head = head_bytes(content_of(saved)["save"], 0, [zlib.crc32(numbers)])
    path.write_bytes(head.ljust(head_nbytes(1), b"\0") + numbers)
    np.testing.assert_array_equal(checkpoints.restore(saved)["w"], np.full(4, 7.0))


@says("A save that fails leaves the previous checkpoint, and no files of its own.")
def test_failed_saves(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(os.listdir(saved))
    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, lambda *_, **__: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                checkpoints.save(saved, {"w": np.zeros(1000)})
        assert sorted(os.listdir(saved)) == before
    np.testing.assert_array_equal(checkpoints.restore(saved)["w"], np.arange(4.0))


@says("Files of a killed save are removed by the next one, before it writes.")
def test_killed_saves(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(os.listdir(saved))
    for name in (f"data-0-{'0' * 32}.bin", f".index.json.{'0' * 32}.tmp"):
        (saved / name).write_bytes(bytes(1000))
    seen, real = [], os.fsync
    monkeypatch.setattr(os, "fsync", lambda opened: seen.append(os.listdir(saved)) or real(opened))
    checkpoints.save(saved, {"w": np.zeros(3)})
    # The checkpoint that is replaced, and the data of the next.
    assert set(before) < set(seen[0])
    assert len(seen[0]) == len(before) + 1


@says(
    "Files whose names do not match those that kiln generates are kept, and nothing is saved into"
    " a folder that has them."
)
@pytest.mark.parametrize("name", ["data-train.bin", ".mine.tmp", "part-a.json"])
def test_files_of_others(saved: Path, name: str) -> None:
    (saved / name).write_text("mine")
    checkpoints.save(saved, {"w": np.zeros(2)})
    assert (saved / name).read_text() == "mine"
    for path in saved.iterdir():
        if path.name != name:
            path.unlink()
    with pytest.raises(CheckpointError, match="other files"):
        checkpoints.save(saved, {"w": np.zeros(2)})
    assert os.listdir(saved) == [name]


@says("A file appears under its name once it is complete; an error leaves the previous one.")
def test_whole_files(tmp_path: Path) -> None:
    jnp.save(tmp_path / "a.npy", jnp.ones(3))
    with pytest.raises(ValueError, match="allow_pickle"):
        jnp.save(tmp_path / "a.npy", np.array([None]), allow_pickle=False)
    assert os.listdir(tmp_path) == ["a.npy"]
    np.testing.assert_array_equal(jnp.load(tmp_path / "a.npy"), np.ones(3))


WRITERS: list[Callable[[Path], None]] = [
    lambda path: serialization.save(path, {"w": np.ones(3)}),
    lambda path: jnp.savez(path, w=np.ones(3)),
]


@says("A link in place of a file is replaced, not followed.")
@pytest.mark.parametrize("write", WRITERS)
def test_links_in_place_of_files(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "other").write_text("old")
    (tmp_path / "a.npz").symlink_to("other")
    write(tmp_path / "a.npz")
    assert (tmp_path / "other").read_text() == "old"
    assert not (tmp_path / "a.npz").is_symlink()


@says("A file keeps the mode of the one that it replaces.")
@pytest.mark.parametrize("write", WRITERS)
def test_modes_of_files(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / "a.npz").touch(0o600)
    write(tmp_path / "a.npz")
    assert stat.S_IMODE((tmp_path / "a.npz").stat().st_mode) == 0o600


@says("Temporary files of a killed writer are removed when the file is written again.")
@pytest.mark.parametrize("write", WRITERS)
def test_killed_writers(tmp_path: Path, write: Callable[[Path], None]) -> None:
    (tmp_path / f".a.npz.{'0' * 32}.tmp").touch()
    write(tmp_path / "a.npz")
    assert os.listdir(tmp_path) == ["a.npz"]


@says(
    "Arrays in `.safetensors`, `.npz` and `.msgpack` files are returned as arrays, or a "
    "ValueError is raised."
)
@pytest.mark.parametrize("suffix", [".safetensors", ".npz", ".msgpack"])
@pytest.mark.parametrize("data", [b"", b"[" * 10_000, b"\x91" * 10_000, bytes(1000), b"\xc1"])
def test_files_of_arrays(tmp_path: Path, suffix: str, data: bytes) -> None:
    # Thousands of others: tests/unit/serialization/test_crafted_files.py.
    path = tmp_path / f"a{suffix}"
    if suffix == ".safetensors":
        data = len(data).to_bytes(8, "little") + data
    path.write_bytes(data)
    with pytest.raises(ValueError, match="load"):
        serialization.load(path)


@says("Headers that would crash NumPy are rejected by `jnp.load`, before NumPy reads them.")
def test_headers_that_end_numpy(tmp_path: Path) -> None:
    # Other spellings, and archives: tests/unit/serialization/test_crafted_files.py.
    header = b"{'descr': 'm8[s/0]', 'fortran_order': False, 'shape': (1,), }"
    magic = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
    (tmp_path / "a.npy").write_bytes(magic + header + bytes(8))
    with pytest.raises(ValueError, match="dtype"):
        jnp.load(tmp_path / "a.npy")


@says("Pickled objects are not read from `.npz` and `.npy` files unless `allow_pickle` is set.")
def test_pickles(tmp_path: Path) -> None:
    content = np.array([None])
    np.savez(tmp_path / "a.npz", a=content)
    np.save(tmp_path / "a.npy", content)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(content))
    with pytest.raises(ValueError, match="allow_pickle"):
        serialization.load(tmp_path / "a.npz")
    for name in ("a.npy", "b.npy"):
        with pytest.raises((ValueError, pickle.UnpicklingError), match="pickle"):
            jnp.load(tmp_path / name)
    assert np.load(tmp_path / "a.npy", allow_pickle=True)[0] is None


@says("Names for perf are written to a file of yours in `/tmp`, and never through a link.")
@pytest.mark.parametrize("what", ["link", "pipe", "second name"])
def test_names_for_perf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(perf_map, "FOLDER", str(tmp_path))
    path, other = tmp_path / f"perf-{os.getpid()}.map", tmp_path / "other"
    perf_map.write_perf_map("f", [perf_map.Function("entry", 4096, 16)])
    assert path.read_text() == "1000 10 kiln:f:entry\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.rename(other)
    match what:
        case "link":
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "second name":
            os.link(other, path)
    with pytest.warns(RuntimeWarning, match="names for perf are not written"):
        perf_map.write_perf_map("f", [perf_map.Function("entry", 4096, 16)])
    assert other.read_text() == "1000 10 kiln:f:entry\n"
