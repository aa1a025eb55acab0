"""Artifacts tried in a process of their own."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.engines.xla import untrusted
from kiln.engines.xla.stablehlo import artifact_reader as artifact_reader
from kiln.engines.xla.untrusted import Reader, check_artifacts

pytest.importorskip("flatbuffers")


@pytest.fixture(scope="module")
def artifact() -> bytes:
    return export.export(kiln.jit(jnp.sin))(jnp.ones(2)).mlir_module_serialized


def test_one_process_reads_many(artifact: bytes) -> None:
    with Reader() as reader:
        assert reader.fault(artifact) == ""
        process = reader._process
        assert "Failed to deserialize" in reader.fault(b"nonsense")
        assert reader.fault(artifact) == ""
        assert reader._process is process
    assert process is not None
    assert process.returncode is not None


def test_another_process_follows_one_that_dies(artifact: bytes) -> None:
    with Reader() as reader:
        reader.fault(artifact)
        assert reader._process is not None
        os.kill(reader._process.pid, signal.SIGSEGV)
        reader._process.wait()
        assert "ends a process by SIGSEGV" in reader.fault(artifact)
        assert reader.fault(artifact) == ""


def test_reading_that_takes_too_long(artifact: bytes) -> None:
    with Reader(0.0) as reader:
        assert "took more than 0 seconds" in reader.fault(artifact)


def test_no_process_can_be_started(artifact: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/no/python")
    with pytest.raises(ValueError, match="no process of '/no/python' can be started"):
        check_artifacts([artifact])


def test_a_process_that_is_no_reader(
    artifact: bytes, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.setattr(artifact_reader, "__file__", f"{tmp_path}/absent.py")
    assert untrusted.artifact_reader is artifact_reader
    with pytest.raises(ValueError, match="ended with exit code 2"):
        check_artifacts([artifact])


def test_a_path_among_the_places_of_modules(
    artifact: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, Path("/nowhere")])
    check_artifacts([artifact])
