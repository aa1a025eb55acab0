"""Run the programs of one subject and write what they return; `jax` is whatever the process has.

python run.py SUBJECT OUTPUT.npz                        under jax
python -m kiln.as_jax run.py SUBJECT OUTPUT.npz         under kiln
python run.py SUBJECT:PROGRAM OUTPUT.npz                one of them
"""

from __future__ import annotations

import importlib
import sys
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ERROR = "error"
"""The value of a program that raised, a text; no program returns a value of this name."""

FILES_OF_JAX = "files of jax"
"""The key under which the file says how many files of the installed jax were loaded."""


def main(arguments: Sequence[str]) -> None:
    """Write `program/value` for every value of a program, or of all programs, of a subject."""
    asked, output = arguments
    subject, _, only = asked.partition(":")
    warnings.simplefilter("ignore")
    programs = importlib.import_module(f"programs.{subject}").PROGRAMS
    programs = {only: programs[only]} if only else programs
    found: dict[str, np.ndarray] = {}
    for name, program in programs.items():
        try:
            values = {key: np.asarray(value) for key, value in program().items()}
        except Exception:  # noqa: BLE001 (the error is what the program returns)
            traceback.print_exc()
            values = {ERROR: np.asarray(traceback.format_exc(limit=-3))}
        found |= {f"{name}/{key}": value for key, value in values.items()}
    found[FILES_OF_JAX] = np.asarray(_files_of_jax())
    np.savez_compressed(output, **found)  # type: ignore[arg-type]


def _files_of_jax() -> int:
    # Other libraries have folders of this name further down.
    files = [getattr(module, "__file__", None) or "" for module in [*sys.modules.values()]]
    return sum("-packages/jax/" in Path(file).as_posix() for file in files)


if __name__ == "__main__":
    main(sys.argv[1:])
