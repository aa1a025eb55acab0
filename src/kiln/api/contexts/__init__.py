"""Contexts of the current thread: options, guards, scopes of names."""
