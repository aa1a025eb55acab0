"""What the emulator cannot do: tests of it are skipped there."""

from __future__ import annotations

import os

import pytest

forks_beside_threads = pytest.mark.skipif(
    "KILN_TEST_EMULATOR" in os.environ,
    # So does a program of Python alone.
    reason="the emulator aborts where the child of a process with threads starts one",
)
"""Tests in which a process that has threads forks."""
