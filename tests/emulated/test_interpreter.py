"""Debian's Pythons: which release has one, and how a program starts with its own loader."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.emulated.debian import has, release_with
from tests.emulated.interpreter import LOADERS, write_program

LIBRARIES = Path(f"/usr/lib/{platform.machine()}-linux-gnu")
LOADER = LIBRARIES / LOADERS.get(platform.machine(), "none")


def test_a_version_that_no_release_has_is_refused() -> None:
    assert release_with("3.11") == "bookworm"
    assert not has("3.12")
    with pytest.raises(ValueError, match=r"3\.12 from Debian\n.*3\.11, 3\.13, 3\.14\n"):
        release_with("3.12")


@pytest.mark.skipif(not LOADER.exists(), reason="not Debian's folders")
def test_a_program_starts_under_its_own_name_and_those_of_links(tmp_path: Path) -> None:
    program, link = tmp_path / "shell", tmp_path / "link"
    shutil.copy2("/bin/sh", program)
    link.symlink_to(program)
    write_program(program, LIBRARIES)
    write_program(program, LIBRARIES)
    for path in (program, link):
        command = [path, "-c", "echo $0; read end"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True) as started:
            assert started.stdout
            assert started.stdout.readline() == f"{path}\n"
            words = Path(f"/proc/{started.pid}/cmdline").read_text().split("\0")
        assert words[0] == str(LOADER)
