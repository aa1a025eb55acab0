"""The notebooks of examples/notebooks: `python -m tests.documents.notebooks` runs and stores them.

The outputs of all cells are replaced; names of notebooks select some of them. Needs the extra
`notebooks`.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.structure.source_tree import REPOSITORY

FOLDER = REPOSITORY / "examples" / "notebooks"
SUBJECTS = (
    *("tour", "simulation", "regression", "neural_network"),
    *("mcmc", "images", "devices", "debugging"),
)
"""The notebooks, in the order in which they are read."""
SECONDS = 60
"""The longest that a cell may take."""

Notebook = dict[str, Any]


def path_of(subject: str) -> Path:
    """Return the file of a notebook."""
    return FOLDER / f"{subject}.ipynb"


def read(subject: str) -> Notebook:
    """Return a notebook as it is stored."""
    found: Notebook = json.loads(path_of(subject).read_text(encoding="utf-8"))
    return found


def code_cells(notebook: Notebook) -> list[dict[str, Any]]:
    """Return the cells with programs."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(cell: dict[str, Any]) -> str:
    """Return the text of a cell, which is stored in lines."""
    return "".join(cell["source"])


def kinds(cell: dict[str, Any]) -> set[str]:
    """Return the kinds of output that a cell has, such as `image/png` and `stdout`."""
    found = {each["name"] for each in cell["outputs"] if each["output_type"] == "stream"}
    return found.union(*[each.get("data", {}) for each in cell["outputs"]])


def executed(subject: str) -> Notebook:
    """Return a notebook with the outputs that its cells have now.

    Raises: CellExecutionError if a cell fails, CellTimeoutError if it takes longer than a minute.
    """
    # Loaded here alone: `make test` only looks at what is stored.
    nbclient, nbformat = map(importlib.import_module, ("nbclient", "nbformat"))
    notebook = nbformat.read(path_of(subject), as_version=4)
    where = {"metadata": {"path": str(FOLDER)}}
    options = {"timeout": SECONDS, "kernel_name": "python3", "record_timing": False}
    nbclient.NotebookClient(notebook, resources=where, **options).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    found: Notebook = json.loads(nbformat.writes(notebook))
    return found


def main() -> None:
    """Run notebooks, and store their outputs."""
    for subject in sys.argv[1:] or SUBJECTS:
        start = time.monotonic()
        notebook = executed(subject)
        text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
        path_of(subject).write_text(text + "\n", encoding="utf-8")
        print(f"{subject}: {time.monotonic() - start:.1f} s")


if __name__ == "__main__":
    main()
