"""The tables of idioms: both columns of a row compute the same.

Each column runs on copies of the arrays of the page's first block, as arrays of its library.
Columns of libraries that are not installed are left out.
"""

from __future__ import annotations

import ast
import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from tests.documents.pages import Row, rows, steps, uses, value
from tests.structure.source_tree import REPOSITORY

# The modules that a column uses besides NumPy, and how it makes an array of a NumPy array.
LIBRARIES: dict[str, tuple[list[str], Callable[[Any, Any], Any]]] = {
    "NumPy": ([], lambda _, x: x),
    "PyTorch": (["torch"], lambda torch, x: torch.from_numpy(x)),
    "Numba": (["numba"], lambda _, x: x),
    "JAX": (["jax", "jax.scipy.special", "flax.linen"], lambda jax, x: jax.numpy.asarray(x)),
}
START = REPOSITORY / "docs" / "start"
PAGES = ["from_numpy", "from_pytorch", "from_numba", "from_jax", "from_matlab"]


def page(name: str) -> str:
    """Return the text of a page."""
    return (START / f"{name}.md").read_text(encoding="utf-8")


def names_of(text: str, convert: Callable[[Any], Any]) -> dict[str, Any]:
    """Run the first block of a page; return its names, with the arrays copied and converted."""
    names: dict[str, Any] = {}
    exec(compile(steps(text)[0].code, "page", "exec"), names)
    return {k: convert(v.copy()) if isinstance(v, np.ndarray) else v for k, v in names.items()}


def theirs(library: str, code: str, text: str) -> Any:
    """Return what a cell of another library computes; skip without the library."""
    modules, convert = LIBRARIES[library]
    loaded = [importlib.import_module(name) for name in modules]
    names = names_of(text, lambda x: convert(loaded[0] if loaded else None, x))
    for module in loaded:
        top = module.__name__.partition(".")[0]
        names[top] = importlib.import_module(top)
    return value(code, names)


def leaves(found: Any) -> list[np.ndarray]:
    """Return the numbers of a result as NumPy arrays."""
    tree = kiln.tree.leaves(found) if isinstance(found, (dict, list, tuple)) else [found]
    if isinstance(found, list) and not any(
        isinstance(x, (list, tuple)) or np.ndim(x) for x in tree
    ):
        return [np.asarray(found)]
    return [np.asarray(leaf) for leaf in tree]


def is_numeric(found: Any) -> bool:
    """Tell whether a result consists of numbers."""
    return all(isinstance(x, (int, float)) or hasattr(x, "shape") for x in kiln.tree.leaves(found))


def disagreement(row: Row, library: str, text: str) -> str | None:
    """Return what is wrong with a row, or None if its columns agree."""
    mine, other = row.code("kiln"), row.code(library)
    assert mine is not None, row
    assert other is not None, row
    if uses(mine, "f") or uses(other, "f"):
        ast.parse(mine), ast.parse(other)
        return None
    try:
        got = value(mine, names_of(text, jnp.asarray))
        expected = theirs(library, other, text)
    except ModuleNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 (reported with its row)
        return f"{row.cells[0]}: {type(error).__name__}: {error}"
    if not (is_numeric(got) and is_numeric(expected)):
        # Generators and keys.
        return None
    got_leaves, leaves_expected = leaves(got), leaves(expected)
    try:
        if row.heading == "Random numbers":
            assert [x.shape for x in got_leaves] == [x.shape for x in leaves_expected]
            assert [x.dtype for x in got_leaves] == [x.dtype for x in leaves_expected]
        else:
            assert len(got_leaves) == len(leaves_expected)
            for a, b in zip(got_leaves, leaves_expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    except AssertionError as error:
        return f"{mine}  is not  {other}: {error}"
    return None


@pytest.mark.parametrize("name", PAGES)
def test_both_columns_compute_the_same(name: str) -> None:
    text = page(name)
    checked, wrong = 0, []
    for row in rows(text):
        found = [library for library in LIBRARIES if library in row.columns]
        if "kiln" in row.columns and len(found) == 1 and row.columns[-1] == "kiln":
            checked += 1
            wrong.append(disagreement(row, found[0], text))
    assert [x for x in wrong if x is not None] == []
    assert checked >= 8


def test_the_same_text_gives_what_the_table_says() -> None:
    table = [row for row in rows(page("from_numpy")) if row.columns[-1] == "why"]
    assert len(table) >= 8
    for row in table:
        code = row.cells[0].strip("`")
        with np.errstate(all="ignore"):
            assert f"`{value(code, {'np': np})}`" == row.cells[1], row
        assert f"`{value(code, {'np': jnp})}`" == row.cells[2], row


def test_habits_of_matlab_run() -> None:
    text = page("from_matlab")
    table = [row for row in rows(text) if row.columns == ["MATLAB", "kiln"]]
    assert len(table) >= 5
    for row in table:
        code = row.code("kiln")
        assert code is not None
        assert is_numeric(value(code, names_of(text, jnp.asarray))), row


def test_a_wrong_row_is_found() -> None:
    text = "```python\nimport numpy as np\nx = np.arange(3.0)\n```\n"
    table = (
        "# A\n| to do | NumPy | kiln |\n|---|---|---|\n| a | `x[0] = 5` | `x = x.at[0].set({})` |\n"
    )
    for number, is_right in (("5", True), ("4", False)):
        (row,) = rows(table.replace("{}", number))
        assert (disagreement(row, "NumPy", text) is None) == is_right
