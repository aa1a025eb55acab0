"""Passes over sequential loops: what they carry stays in registers."""
