"""Errors of sizes: three lines, with the axes and what to type."""

from __future__ import annotations

import pytest

from kiln.ir.sizes import errors as size_errors


@pytest.mark.parametrize(
    ("error", "texts"),
    [
        (size_errors.used_as_int("n+1", ["n"]), ("n+1", "named axis n", "kiln.numpy")),
        (size_errors.taken_by_numpy("n", "sqrt"), ("numpy.sqrt of", "values", "kiln.numpy.sqrt")),
        (size_errors.looked_up("n", ["n"]), ("dict or set", "named axis n", "__wrapped__")),
        (size_errors.undecided("n > m", ["m", "n"]), ("n > m", "named axes m, n", "compare")),
    ],
)
def test_texts(error: Exception, texts: tuple[str, str, str]) -> None:
    lines = str(error).splitlines()
    for line, text in zip(lines, texts, strict=True):
        assert text in line
    assert "abstracted_axes" in lines[2]
    # Python and NumPy replace these errors by their own.
    assert not isinstance(error, (TypeError, ValueError))
