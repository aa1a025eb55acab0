"""Ahead of time: trace, lower, compile, store."""
