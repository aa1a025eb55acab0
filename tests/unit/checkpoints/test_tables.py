from __future__ import annotations

import os
from pathlib import Path

import pytest

from kiln.checkpoints.data_files import Damage
from kiln.checkpoints.tables import head_bytes, head_nbytes, read_table

SAVE = "0123456789abcdef" * 2


def test_heads_come_back(tmp_path: Path) -> None:
    for checksums in ([], [7], [1, 2**32 - 1, 0] * 9):
        path = tmp_path / f"{len(checksums)}"
        head = head_bytes(SAVE, 3, checksums)
        assert len(head) <= head_nbytes(len(checksums))
        path.write_bytes(head)
        opened = os.open(path, os.O_RDONLY)
        try:
            assert read_table(opened, "f", SAVE, 3, len(checksums)).tolist() == checksums
            for save, process, count in [
                ("f" * 32, 3, len(checksums)),
                (SAVE, 4, len(checksums)),
                (SAVE, 3, len(checksums) + 1),
            ]:
                with pytest.raises(Damage):
                    read_table(opened, "f", save, process, count)
        finally:
            os.close(opened)


def test_every_damaged_byte_of_a_head_is_noticed(tmp_path: Path) -> None:
    whole = head_bytes(SAVE, 3, [5, 6])
    # The head proper ends before the table, which starts at a multiple of the alignment.
    said = [*range(52), *range(64, len(whole))]
    for i in said:
        (tmp_path / "f").write_bytes(whole[:i] + bytes([whole[i] ^ 1]) + whole[i + 1 :])
        opened = os.open(tmp_path / "f", os.O_RDONLY)
        try:
            with pytest.raises(Damage, match="damaged"):
                read_table(opened, "f", SAVE, 3, 2)
        finally:
            os.close(opened)
    (tmp_path / "f").write_bytes(whole[:-1])
    opened = os.open(tmp_path / "f", os.O_RDONLY)
    try:
        with pytest.raises(Damage, match="ends after 71 bytes, in its table"):
            read_table(opened, "f", SAVE, 3, 2)
    finally:
        os.close(opened)
