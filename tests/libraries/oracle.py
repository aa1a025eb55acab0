"""Answers of jax to the programs of this folder, stored as data.

`python -m tests.libraries.oracle [SUBJECT ...]` runs each subject's programs under jax in a process
of its own and writes `data/SUBJECT.npz`; `make libraries-oracle` does so with the releases of the
libraries that pyproject.toml names.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.libraries.run import ERROR, FILES_OF_JAX

HERE = Path(__file__).parent
DATA = HERE / "data"
RUN = HERE / "run.py"


def subjects() -> list[str]:
    """Return the names of the files with programs."""
    return sorted(path.stem for path in (HERE / "programs").glob("[a-z]*.py"))


def load(path: Path) -> dict[str, np.ndarray]:
    """Return what `run.py` wrote, by program and value."""
    with np.load(path) as stored:
        return {name: stored[name] for name in stored.files}


def main(names: Sequence[str]) -> None:
    """Ask jax and write the answers.

    Raises: SystemExit if a program fails under jax, or if it was not jax that ran.
    """
    DATA.mkdir(exist_ok=True)
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_THREEFRY_PARTITIONABLE": "1"}
    for name in names or subjects():
        path = DATA / f"{name}.npz"
        subprocess.run([sys.executable, str(RUN), name, str(path)], env=environment, check=True)
        answers = load(path)
        failed = [key for key in answers if key.endswith(f"/{ERROR}")]
        if failed or not answers.pop(FILES_OF_JAX):
            path.unlink()
            raise SystemExit(f"{name}: {failed or 'this was not jax'}")
        np.savez_compressed(path, **answers)  # type: ignore[arg-type]
        print(f"{name}: {len(answers)} values, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
