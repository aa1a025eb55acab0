"""Public functions say arguments, shapes, errors or a source where the signature does not."""

from __future__ import annotations

from pathlib import Path

from tests.structure.docstrings import is_silent, needs_words, public_functions, shares
from tests.structure.source_tree import modules, write_tree

LEAST = 0.8
"""The share that says so, in each folder that users import, and in each file beside them."""


def test_public_functions_say_what_signatures_do_not() -> None:
    functions = public_functions(modules())
    assert len(functions) > 1000
    table = shares(functions)
    assert {room: pair for room, pair in table.items() if pair[0] < LEAST * pair[1]} == {}
    said, count = (sum(column) for column in zip(*table.values(), strict=True))
    assert count > 500
    assert said >= 0.95 * count


MODULE = '''
"""A module."""

def plain(x, shape):
    """Return one."""

def silent(weight):
    """Return another."""

def said(weight, k):
    """Return `k` times a weight."""

def longer(weight):
    """Return another.

    Raises: ValueError.
    """

def _refuse(x):
    raise ValueError(x)

def refuses(x):
    """Return a third."""
    _refuse(x)

def names_it(x):
    """Return a fourth; raise ValueError for others."""
    _refuse(x)

def article(a):
    """Return a fifth."""
'''


def test_silent_functions_are_found(tmp_path: Path) -> None:
    exporting = "from kiln.ops.inner import inner as inner\nfrom kiln.ops.inner import hidden\n"
    inner = 'def inner(weight):\n    """Do."""\n\ndef hidden(weight):\n    """Do."""\n'
    root = write_tree(tmp_path, {"api/a.py": MODULE, "b.py": exporting, "ops/inner.py": inner})
    functions = {f.node.name: f for f in public_functions(modules(root))}
    assert "hidden" not in functions
    assert "_refuse" not in functions
    silent = [name for name, function in functions.items() if is_silent(function)]
    assert sorted(silent) == ["article", "inner", "refuses", "silent"]
    assert not needs_words(functions["plain"])
    assert shares(list(functions.values())) == {"api": (3, 6), "ops": (0, 1)}
