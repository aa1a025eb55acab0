"""Integrals of sampled functions."""

from __future__ import annotations

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]

_suggest_names(globals())
