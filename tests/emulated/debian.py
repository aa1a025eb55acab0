"""Debian packages for any processor, unpacked into a folder without root."""

from __future__ import annotations

import hashlib
import lzma
import re
import shutil
import tarfile
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from pathlib import Path

_MIRROR = "https://deb.debian.org/debian"
OLDEST = "bookworm"
"""The release whose programs run on the oldest systems."""
_RELEASES = {"3.11": OLDEST, "3.13": "trixie", "3.14": "forky"}


def _fetched(path: str) -> bytes:
    with urllib.request.urlopen(f"{_MIRROR}/{path}", timeout=120) as answer:
        found: bytes = answer.read()
    return found


def has(python: str) -> bool:
    """Tell whether a release of Debian has a version of Python."""
    return python in _RELEASES


def release_with(python: str) -> str:
    """Return the release of Debian that has a version of Python.

    Raises: ValueError if none has it.
    """
    if not has(python):
        raise ValueError(
            f"Python {python} from Debian\nits releases have {', '.join(_RELEASES)}\n"
            "choose one of these: make PYTHON=python3.13 ..."
        )
    return _RELEASES[python]


def _index(release: str, architecture: str) -> dict[str, dict[str, str]]:
    """Return the fields of all packages of a release, by name."""
    text = lzma.decompress(_fetched(f"dists/{release}/main/binary-{architecture}/Packages.xz"))
    packages = {}
    for paragraph in text.decode().split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z0-9-]+): (.*)$", paragraph, re.MULTILINE))
        if fields:
            packages[fields["Package"]] = fields
    return packages


def _needed(
    packages: dict[str, dict[str, str]], names: Iterable[str], without: Sequence[str]
) -> list[str]:
    """Return some packages and all that they depend on; of alternatives, the first."""
    waiting, found = list(names), dict[str, None]()
    while waiting:
        name = waiting.pop()
        if name in found or name in without or name not in packages:
            continue
        found[name] = None
        for field in ("Depends", "Pre-Depends"):
            for choice in packages[name].get(field, "").split(","):
                waiting += re.findall(r"^\s*([a-z0-9.+-]+)", choice)
    return list(found)


def _members(archive: bytes) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of an ar archive's files."""
    at = 8
    while at < len(archive):
        name = archive[at : at + 16].decode().strip().rstrip("/")
        size = int(archive[at + 48 : at + 58])
        yield name, archive[at + 60 : at + 60 + size]
        at += 60 + size + size % 2


def unpack(
    names: Sequence[str],
    release: str,
    architecture: str,
    folder: Path,
    without: Sequence[str] = (),
) -> None:
    """Unpack some packages, and all that they depend on, into a folder, unless it is complete.

    `without` names packages that are left out, with what only they depend on.

    Raises: ValueError if a package is not what the index says.
    """
    complete = folder / ".complete"
    if complete.exists():
        return
    print(f"{', '.join(names)} and what they need, into {folder}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    packages = _index(release, architecture)
    for name in _needed(packages, names, without):
        fields = packages[name]
        content = _fetched(fields["Filename"])
        if hashlib.sha256(content).hexdigest() != fields["SHA256"]:
            raise ValueError(f"{fields['Filename']} has another checksum than the index says")
        print(f"  {name} {fields['Version']}", flush=True)
        ((_, data),) = [m for m in _members(content) if m[0].startswith("data.tar")]
        with tarfile.open(fileobj=BytesIO(data)) as files:
            files.extractall(folder, filter="tar")
    complete.touch()
