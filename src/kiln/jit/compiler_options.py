"""`compiler_options`: the user's options for the compiler, checked and made comparable.

The engine decides which names are valid when it compiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kiln.base.errors import three_lines
from kiln.core.engines.engine import CHECKS, THREADS

Settings = tuple[tuple[str, Any], ...]


def settings_of(compiler_options: dict[str, Any] | None, asked: str) -> Settings:
    """Return the options as pairs, sorted by name.

    Raises: TypeError for anything but a dict from names to strings, numbers and bools.
    """
    if compiler_options is None:
        return ()
    if not isinstance(compiler_options, dict):
        raise TypeError(
            three_lines(
                f"{asked} with compiler_options={compiler_options!r:.120}",
                f"compiler_options must be a dict, got {type(compiler_options)}",
                "write compiler_options={'xla_backend_optimization_level': 2}",
            )
        )
    pairs = []
    for name, value in compiler_options.items():
        if not isinstance(name, str):
            raise TypeError(
                three_lines(
                    f"{asked} with compiler_options={compiler_options!r:.120}",
                    f"the name of an option must be a str, got {name!r}",
                    "use the compiler's names of its options",
                )
            )
        if not isinstance(value, (str, bool, int, float, np.bool_, np.integer, np.floating)):
            raise TypeError(
                three_lines(
                    f"{asked} with compiler_options[{name!r}] = {value!r:.120}",
                    f"a value of type {type(value)} is not a setting of a compiler",
                    "use a str, bool, int or float",
                )
            )
        pairs.append((name, value.item() if isinstance(value, np.generic) else value))
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def threads_of(threads: Any, asked: str) -> Settings:
    """Return the number of threads of a program as options.

    Raises: ValueError for anything but a positive int or None.
    """
    if threads is None:
        return ()
    if isinstance(threads, bool) or not isinstance(threads, int) or threads < 1:
        raise ValueError(
            three_lines(
                f"{asked} with threads={threads!r:.120}",
                "threads must be a positive int or None",
                "write threads=1 to run programs on the calling thread alone",
            )
        )
    return ((THREADS, threads),)


def of_whole_programs(settings: Settings) -> Settings:
    """Return the options without the number of threads, which whole programs determine."""
    return tuple([pair for pair in settings if pair[0] != THREADS])


def merged(first: Settings, second: Settings) -> Settings:
    """Return the options of both; the second wins where both set an option."""
    return tuple(sorted({**dict(first), **dict(second)}.items()))


def nested(name: str, settings: Settings, where: object) -> ValueError:
    """Return the error for a jitted function with options inside another program."""
    given, written = "compiler_options", f"compiler_options={dict(settings)}"
    if [option for option, _ in settings] == [CHECKS]:
        given, written = "check", f"check={settings[0][1]!r}"
    return ValueError(
        three_lines(
            f"call of jit({name}, {written}) at {where}",
            f"`{given}` can only be given to a top-level jit: this call is inside another "
            "trace (of jit, grad, vmap, ...), whose program is compiled as a whole",
            f"give {given} to the outermost jit: "
            f"jit(grad(f), {given}=...), not grad(jit(f, {given}=...))",
        )
    )
