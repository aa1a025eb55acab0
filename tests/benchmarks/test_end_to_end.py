"""Programs of libraries from start to end: which ones, how they are run, what the table says."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.end_to_end import __main__ as end_to_end
from benchmarks.end_to_end.picture import draw
from tests.libraries import run
from tests.libraries.oracle import subjects

ROWS = {
    "a:x": {"jax": 8.0, "jax with its cache": 4.0, "kiln": 2.0, "kiln with its cache": 1.0},
    "a:y": {"jax": 2.0, "jax with its cache": 2.0, "kiln": 2.0, "kiln with its cache": 2.0},
}


def test_programs_of_every_subject() -> None:
    found = end_to_end.chosen()
    assert len(found) >= 30
    assert {name.partition(":")[0] for name in found} == set(subjects())


def test_means_and_table() -> None:
    means = end_to_end.means(ROWS)
    assert means["without caches, geometric mean"] == pytest.approx(2.0)
    assert means["without caches, all programs together"] == pytest.approx(2.5)
    assert means["with caches, least"] == 1.0
    assert "| a: x | 8 s | 4 s | 2 s | 1 s | 4.0 | 4.0 |" in end_to_end.table(ROWS)


def test_the_picture(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    paths = [tmp_path / "a.svg", tmp_path / "b.svg"]
    for path in paths:
        draw({"rows": ROWS, "means": end_to_end.means(ROWS)}, path)
    first, second = (path.read_text(encoding="utf-8") for path in paths)
    assert first == second
    assert "a: x" in first


@pytest.mark.parametrize("cache", ["", "/somewhere"])
def test_caches_are_both_on_or_both_off(cache: str) -> None:
    kiln, jax = (end_to_end.environment(library, cache) for library in ("kiln", "jax"))
    assert kiln["KILN_CACHE_DIR"] == cache
    assert jax.get("JAX_COMPILATION_CACHE_DIR", "") == cache


def test_a_program_that_fails_is_no_row(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "run.py"
    text = "import sys, numpy\nnumpy.savez(sys.argv[2], **{NAME: VALUE, 'files of jax': 0})\n"
    monkeypatch.setattr(end_to_end, "RUN", script)
    script.write_text(text.replace("NAME", "'x/loss'").replace("VALUE", "1.0"), encoding="utf-8")
    assert end_to_end.seconds(sys.executable, "kiln", "a:x") > 0
    with pytest.raises(RuntimeError, match="was not run by jax"):
        end_to_end.seconds(sys.executable, "jax", "a:x")
    wrong = text.replace("NAME", f"'x/{run.ERROR}'").replace("VALUE", "'ValueError: no'")
    script.write_text(wrong, encoding="utf-8")
    with pytest.raises(RuntimeError, match="ValueError: no"):
        end_to_end.seconds(sys.executable, "kiln", "a:x")
