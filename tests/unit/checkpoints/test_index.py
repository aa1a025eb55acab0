from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from kiln import checkpoints
from kiln.checkpoints.index import index_bytes, read_index
from kiln.checkpoints.plan import Plan
from kiln.errors import CheckpointError, CorruptCheckpointError


def test_every_damaged_byte_is_noticed(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", {"a": 1}, metadata="é")
    path = tmp_path / "c" / "index.json"
    whole = path.read_bytes()
    index = read_index(tmp_path / "c", "reading")
    assert isinstance(index.blocks, Plan)
    again = index_bytes(index.tree, index.entries, index.metadata, index.blocks.save)
    assert again == whole
    known = index.tree, index.entries, index.metadata
    for i in range(len(whole) - 1):
        for damaged in (whole[:i], whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :]):
            path.write_bytes(damaged)
            told = 3
            with contextlib.suppress(CheckpointError):
                try:
                    found = read_index(tmp_path / "c", "reading")
                except CheckpointError as error:
                    told = len(str(error).splitlines())
                    raise
                assert (found.tree, found.entries, found.metadata) == known
            assert told == 3


def test_a_later_version_is_told(tmp_path: Path) -> None:
    checkpoints.save(tmp_path / "c", 1)
    path = tmp_path / "c" / "index.json"
    for version in (3, 0, [1]):
        path.write_text(json.dumps({**json.loads(path.read_text()), "version": version}))
        match = f"version {version} of the format".replace("[", r"\[")
        with pytest.raises(CheckpointError, match=match) as caught:
            checkpoints.restore(tmp_path / "c")
        assert not isinstance(caught.value, CorruptCheckpointError)


def test_another_json_file_is_told(tmp_path: Path) -> None:
    for text in ("[]", "{}", '{"version": 1, "format": "x", "content": {}}'):
        (tmp_path / "index.json").write_text(text)
        with pytest.raises(CorruptCheckpointError, match="is damaged"):
            checkpoints.restore(tmp_path)
