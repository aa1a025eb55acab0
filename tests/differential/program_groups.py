"""Programs that take a library, jax or kiln in its place, by group."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Programs = dict[str, list[Callable[[Any], Any]]]


def registry() -> tuple[Programs, Callable[[str], Callable[[Any], Any]]]:
    """Return a table of programs, and the decorator that registers a program in a group of it."""
    programs: Programs = {}

    def program(group: str) -> Callable[[Any], Any]:
        def register(function: Any) -> Any:
            programs.setdefault(group, []).append(function)
            return function

        return register

    return programs, program


def compiled(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a program that runs as written even where jax is asked operation by operation."""

    def run(jax: Any) -> Any:
        with jax.disable_jit(False):
            return function(jax)

    return run
