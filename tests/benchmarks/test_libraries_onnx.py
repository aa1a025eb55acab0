"""Both C programs of the comparison with ONNX Runtime compute the model, where it is installed."""

from __future__ import annotations

import shutil

import pytest

from benchmarks import libraries_onnx
from benchmarks.models.collection import ROWS

pytest.importorskip("onnxruntime")
pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


def test_a_tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries_onnx, "SECONDS", 0.01)
    row = next(each for each in ROWS if each.name.startswith("U-Net"))
    rows = libraries_onnx.measure(row.name, row.build(*row.tiny), turns=1)
    assert [each.threads for each in rows] == [1, 2]
    assert all(0 < each.kiln < 1 and 0 < each.onnx < 1 for each in rows)
    assert libraries_onnx.table(rows).count(row.name) == 2
