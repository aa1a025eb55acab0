"""Bytes with a checksum at their end: readers can tell whether they are as written.

It detects damage, not forgery: anyone who can write the bytes can write the checksum.
"""

from __future__ import annotations

from kiln.base.lazy import blake2

MARK = b"kiln-b2b"
_DIGEST = 32
SIZE = _DIGEST + len(MARK)
"""The bytes of a checksum, including its mark."""


def with_checksum(data: bytes) -> bytes:
    """Return bytes followed by their checksum."""
    return data + _digest(data) + MARK


def is_marked(stored: bytes) -> bool:
    """Tell whether bytes end with the mark of a checksum."""
    return stored.endswith(MARK)


def without_checksum(stored: bytes) -> bytes:
    """Return the bytes before a checksum.

    Raises: ValueError if there is none, or it does not match.
    """
    if len(stored) < SIZE or not is_marked(stored):
        raise ValueError("their checksum is missing: they do not end as they were written")
    data, found = stored[:-SIZE], stored[-SIZE : -len(MARK)]
    if _digest(data) != found:
        raise ValueError("they are not those of their checksum: something has changed them")
    return data


def _digest(data: bytes) -> bytes:
    found: bytes = blake2.blake2b(data, digest_size=_DIGEST).digest()
    return found
