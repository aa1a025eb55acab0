"""`python -m kiln compile`: a function of a module becomes a library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from kiln.__main__ import main

MODULE = """\
import kiln.numpy as jnp


class Model:
    def predict(x, y):
        return jnp.sin(x) + y.sum()


def of_tree(params, x):
    return params["w"] * x


EXAMPLES = ({"w": jnp.ones(3)}, jnp.ones(3))
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "compiled_here.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delitem(sys.modules, "compiled_here", raising=False)
    return "compiled_here"


def _described(path: Path) -> list[tuple[str, list[object]]]:
    (function,) = json.loads(path.read_text())["functions"]
    return [(a["name"], a.get("shape", a.get("fields"))) for a in function["arguments"]]


def test_types_of_arguments(module: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--arg", "f32[n, 3]", "--arg", "i32[2*n]", "-o", "out", "--static"]
    main(["compile", f"{module}:Model.predict", *words])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1].endswith("with 0 bytes of constants")
    assert any(line.startswith("out/libpredict.a: ") for line in printed)
    shapes = _described(Path("out/predict.json"))
    assert shapes == [("x", ["n", 3]), ("y", ["2*n"]), ("out", ["n", 3])]


def test_examples_of_arguments(module: str) -> None:
    words = ["--args", f"{module}:EXAMPLES", "-o", "out", "--static", "--name", "m"]
    main(["compile", f"{module}:of_tree", *words])
    assert [name for name, _ in _described(Path("out/m.json"))] == ["params", "x", "out"]


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (["compiled_here", "-o", "out"], "a function is named by its module and its name"),
        (["compiled_here:of_tree", "--arg", "float", "-o", "out"], "not the type of an array"),
        (["compiled_here:of_tree", "--arg", "f99[2]", "-o", "out"], "not the type of an array"),
        (["compiled_here:EXAMPLES", "-o", "out", "--name", "1"], "does not name functions"),
    ],
)
def test_errors_have_three_lines(
    words: list[str], wrong: str, module: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["compile", *words])
    assert ended.value.code == 1
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert wrong in lines[1]
    assert not Path("out").exists()
