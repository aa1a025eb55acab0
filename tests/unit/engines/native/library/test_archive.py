"""Archives are read and written, as `ar` does."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from kiln.engines.native.library.archive import read_archive, write_archive
from kiln.engines.native.llvm.assembly import assemble

NAMES = ("a.o", "a_name_of_many_letters.o", "another_name_of_many_letters.o")
MEMBERS = [(n, assemble(f"define void @f{i}() {{\n  ret void\n}}")) for i, n in enumerate(NAMES)]


def test_round_trip() -> None:
    assert read_archive(write_archive(MEMBERS)) == MEMBERS
    assert read_archive(write_archive(MEMBERS[:1])) == MEMBERS[:1]


def test_the_same_bytes_each_time() -> None:
    assert write_archive(MEMBERS) == write_archive(MEMBERS)


def test_other_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="not an archive"):
        read_archive(b"\x7fELF")


@pytest.mark.skipif(shutil.which("ar") is None, reason="needs binutils")
def test_as_binutils_read_and_write_them(tmp_path: Path) -> None:
    path = tmp_path / "ours.a"
    path.write_bytes(write_archive(MEMBERS))
    listed = subprocess.run(["ar", "t", str(path)], capture_output=True, text=True, check=True)
    assert tuple(listed.stdout.split()) == NAMES
    index = subprocess.run(["nm", "-s", str(path)], capture_output=True, text=True, check=True)
    for i, name in enumerate(NAMES):
        assert f"f{i} in {name}" in index.stdout
    for name, content in MEMBERS:
        (tmp_path / name).write_bytes(content)
    theirs = tmp_path / "theirs.a"
    subprocess.run(["ar", "rcs", str(theirs), *NAMES], cwd=tmp_path, check=True)
    assert read_archive(theirs.read_bytes()) == MEMBERS
