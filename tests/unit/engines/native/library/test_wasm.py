"""Modules are refused by name where something that links them is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import _runtime, export
from kiln.engines.native.library import selection, wasm
from kiln.engines.native.llvm.assembly import assemble
from kiln.engines.native.llvm.target import named

TARGET = named("wasm32")


def _refused(folder: Path) -> str:
    x = kiln.ShapeDtypeStruct((3,), np.float32)
    with pytest.raises(NotImplementedError) as caught:
        export.library(jnp.exp, x, name="made", path=folder / "out", target="wasm32")
    assert not (folder / "out").exists()
    return str(caught.value)


def test_without_the_static_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_runtime, "__file__", str(tmp_path / "_runtime.so"))
    said = _refused(tmp_path)
    assert "_runtime.wasm32.a is missing" in said
    assert said.endswith("build it in a checkout of kiln: make cross")


def test_without_a_linker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Nothing:
        @staticmethod
        def find_spec(name: str) -> Any:
            return None

    monkeypatch.setattr(wasm, "runtime_file", lambda target: "runtime.a")
    monkeypatch.setattr(wasm, "importlib_util", Nothing)
    said = _refused(tmp_path)
    assert "the package ziglang is missing" in said
    assert said.endswith("pip install ziglang")


def test_objects_are_of_webassembly() -> None:
    text = "define i32 @f(ptr %x) { %y = load i32, ptr %x\n ret i32 %y }"
    assert assemble(text, TARGET).startswith(b"\0asm\x01\0\0\0")


@pytest.mark.parametrize(
    ("name", "command"),
    [("wasm32", "make cross"), ("riscv64", "make cross"), ("x86-64-v2", "make demo")],
)
def test_how_to_build_each_runtime_is_known(
    name: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_runtime, "__file__", str(tmp_path / "_runtime.so"))
    with pytest.raises(NotImplementedError) as error:
        selection.runtime_file(named(name))
    assert str(error.value).splitlines()[2] == f"build it in a checkout of kiln: {command}"
