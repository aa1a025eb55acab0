"""Bytes with a checksum at their end."""

from __future__ import annotations

import pytest

from kiln.base.files.checksums import MARK, SIZE, is_marked, with_checksum, without_checksum


@pytest.mark.parametrize("data", [b"", b"x", bytes(1000), MARK])
def test_what_was_written_is_read(data: bytes) -> None:
    stored = with_checksum(data)
    assert is_marked(stored)
    assert stored.startswith(data)
    assert len(stored) == len(data) + SIZE
    assert without_checksum(stored) == data


def test_every_changed_bit_is_found() -> None:
    stored = with_checksum(b"kiln")
    for at in range(8 * len(stored)):
        damaged = bytearray(stored)
        damaged[at // 8] ^= 1 << at % 8
        with pytest.raises(ValueError, match=r"missing|changed"):
            without_checksum(bytes(damaged))


def test_every_lost_byte_is_found() -> None:
    stored = with_checksum(b"kiln")
    for end in range(len(stored)):
        with pytest.raises(ValueError, match=r"missing|changed"):
            without_checksum(stored[:end])
        with pytest.raises(ValueError, match=r"missing|changed"):
            without_checksum(stored[end + 1 :])
