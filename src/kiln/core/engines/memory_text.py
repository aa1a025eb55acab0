"""The text of a program's memory analysis."""

from __future__ import annotations

from typing import Any

from kiln.base.errors import three_lines
from kiln.base.source import current_source
from kiln.core.engines.engine import Executable, ExplainedExecutable
from kiln.ir.sizes.size import Dim, Size

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size_text(count: float | Size) -> str:
    """Return a number of bytes in the largest unit of which there is at least one.

    With named sizes that is a byte.
    """
    if isinstance(count, Size):
        return f"{count} bytes"
    number, unit = count, 0
    while number >= 1024 and unit + 1 < len(_UNITS):
        number, unit = number / 1024, unit + 1
    digits = 0 if number == int(number) else 1
    return f"{number:.{digits}f} {_UNITS[unit]}"


def summary(name: str, analysis: Any, shared: Dim = 0) -> str:
    """Return what a call needs, what is donated, and the peak, in three lines.

    `shared` bytes of the results alias arguments, or other results.
    """
    taken, given = analysis.argument_size_in_bytes, analysis.output_size_in_bytes
    donated, workspace = analysis.alias_size_in_bytes, analysis.temp_size_in_bytes
    peak = peak_of(analysis, shared)
    how = "no result lies where an argument was donated"
    if donated != 0:
        how = f"{size_text(donated)} of the results lie where arguments were donated"
    return (
        f"{name} takes {size_text(taken)} of arguments and gives {size_text(given)} of results\n"
        f"{how}\n"
        f"with {size_text(workspace)} of workspace a call needs {size_text(peak)} at the peak"
    )


def peak_of(analysis: Any, shared: Dim) -> Dim:
    """Return how many bytes a call needs at most; `shared` of the results' bytes are shared."""
    found: Dim = (
        analysis.argument_size_in_bytes
        + analysis.output_size_in_bytes
        - analysis.alias_size_in_bytes
        - shared
        + analysis.temp_size_in_bytes
    )
    return found


def explained(executable: Executable, name: str, engine: str) -> str:
    """Return an executable's report of its memory, at least the sizes.

    Raises: ValueError if it has none.
    """
    if isinstance(executable, ExplainedExecutable):
        return executable.explain_memory()
    analysis = executable.memory_analysis()
    if analysis is None:
        raise ValueError(
            three_lines(
                f"explain_memory() of {name} at {current_source()}",
                f"the {engine} engine plans no memory",
                "compile the function with the native engine, or with xla",
            )
        )
    return summary(name, analysis)
