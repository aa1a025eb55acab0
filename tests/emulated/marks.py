"""What the emulator cannot do: tests of it are skipped there."""

from __future__ import annotations

import os

import pytest

forks_beside_threads = pytest.mark.skipif(
    "KILN_TEST_EMULATOR" in os.environ,
    # It aborts in a program of Python alone, too, if the child starts a thread.
    reason="the child of a process with threads may block in the emulator, or abort it",
)
"""Tests in which a process that has threads forks."""
