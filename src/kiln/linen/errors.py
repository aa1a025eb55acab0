"""The errors of linen: one class per mistake."""

from __future__ import annotations


class LinenError(Exception):
    """Any mistake that linen finds."""


class PartitioningUnspecifiedError(LinenError):
    """A lifted transformation adds an axis to boxed variables and does not say its name."""
