"""Indices changed by somebody who knows kiln's format: their checksums are right."""

from __future__ import annotations

import json
import shutil
import zlib
from pathlib import Path
from typing import Any

from kiln.checkpoints.data_files import INDEX

STORED = Path(__file__).parent / "version_1"
"""A checkpoint that two processes of two devices wrote in version 1 of the format."""


def first_version(folder: Path) -> Path:
    """Copy the stored checkpoint of version 1."""
    return Path(shutil.copytree(STORED, folder))


def content_of(folder: Path) -> Any:
    """Return the content of an index."""
    return json.loads((folder / INDEX).read_bytes())["content"]


def write(folder: Path, content: Any) -> None:
    """Write an index of the version that is there."""
    version = json.loads((folder / INDEX).read_bytes())["version"]
    write_text(folder, json.dumps(content, separators=(",", ":")), version)


def write_text(folder: Path, text: str, version: int) -> None:
    """Write an index whose content is given as text."""
    head = {"format": "kiln checkpoint", "version": version, "crc32": zlib.crc32(text.encode())}
    whole = json.dumps(head, separators=(",", ":"))[:-1] + ',"content":' + text + "}\n"
    (folder / INDEX).write_text(whole)


def leaf_of(content: Any, path: str) -> Any:
    """Return the entry of a leaf."""
    return next(leaf for leaf in content["leaves"] if leaf["path"] == path)
