"""The notebooks: what is stored has no errors and has pictures; `make notebooks` runs them."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.documents import notebooks
from tests.documents.notebooks import SUBJECTS, code_cells, kinds, text_of
from tests.structure import words

MOST_CELLS = 30
MOST_BYTES = 1_500_000

every = pytest.mark.parametrize("subject", SUBJECTS)


def test_all_notebooks_are_listed():
    assert {path.stem for path in notebooks.FOLDER.glob("*.ipynb")} == set(SUBJECTS)
    assert len(SUBJECTS) == 8


@every
def test_stored_outputs_are_of_a_complete_run(subject):
    cells = code_cells(notebooks.read(subject))
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    failed = [each for cell in cells for each in cell["outputs"] if each["output_type"] == "error"]
    assert not failed
    assert not [cell for cell in cells if "stderr" in kinds(cell)]
    assert sum("image/png" in kinds(cell) for cell in cells) >= (1 if subject == "debugging" else 2)


@every
def test_cells_compile(subject):
    for cell in code_cells(notebooks.read(subject)):
        compile(text_of(cell), subject, "exec")


@every
def test_they_are_of_a_size_to_read(subject):
    assert len(notebooks.read(subject)["cells"]) <= MOST_CELLS
    assert notebooks.path_of(subject).stat().st_size <= MOST_BYTES


@every
def test_they_begin_with_a_title(subject):
    first = notebooks.read(subject)["cells"][0]
    assert first["cell_type"] == "markdown" and re.match(r"# \w", text_of(first))


@every
def test_outputs_name_cells_and_not_temporary_files(subject):
    assert "/tmp/" not in notebooks.path_of(subject).read_text(encoding="utf-8")


@every
def test_texts_use_the_terms_of_the_style(subject):
    table = words.terms()
    found = [
        finding
        for cell in notebooks.read(subject)["cells"]
        for finding in words.find(text_of(cell), table)
    ]
    assert not found


@every
@pytest.mark.full
@pytest.mark.timeout(300)
@pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel")),
    reason="the extra `notebooks` is not installed",
)
def test_they_run(subject):
    # Seconds: the programs are compiled, and drawn.
    stored = notebooks.read(subject)
    for before, now in zip(
        code_cells(stored), code_cells(notebooks.executed(subject)), strict=True
    ):
        assert text_of(before) == text_of(now)
        assert kinds(before) == kinds(now), text_of(before)
