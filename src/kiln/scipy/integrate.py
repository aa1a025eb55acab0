"""Integrals of sampled functions."""

from __future__ import annotations

from kiln.numpy import trapezoid as trapezoid

__all__ = ["trapezoid"]
