"""`kiln doctor`: the report, its JSON, and what is missing."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kiln
from kiln.__main__ import main
from kiln.base.options.config import override
from kiln.execution.disk_cache import Entry, Folder
from kiln.tools import doctor

CHECKS = ("compiled program", "compiled by LLVM", "matrix product")


@pytest.fixture(autouse=True)
def place(tmp_path: Path) -> Iterator[Path]:
    with override(cache_dir=str(tmp_path / "cache")):
        yield tmp_path / "cache"


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["doctor", *words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def report(capsys: pytest.CaptureFixture[str], status: int = 0) -> dict[str, Any]:
    assert run("--json") == status
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert list(found) == ["ok", "sections", "problems"]
    assert found["ok"] == (status == 0)
    for problem in found["problems"]:
        assert list(problem) == ["what", "wrong", "remedy", "essential"]
        assert all(problem[name] for name in ("what", "wrong", "remedy"))
    return found


def without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    version = doctor.version_of
    monkeypatch.setattr(
        doctor, "version_of", lambda other: None if other == name else version(other)
    )


def test_the_report_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "versions"
    assert lines[1].split()[:2] == ["kiln", kiln.__version__]
    assert lines[-1] == "nothing essential is missing"
    assert all(line.isprintable() for line in lines)


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    sections = report(capsys)["sections"]
    assert sections["versions"]["kiln"] == kiln.__version__
    assert sections["versions"]["llvmlite"]
    assert sections["processor"]["threads"] == kiln.get_num_threads()
    assert sections["processor"]["level"]
    assert sections["checks"] == dict.fromkeys(CHECKS, True)


@pytest.mark.parametrize("name", ["llvmlite", "scipy-openblas32"])
def test_essential_parts(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without(name, monkeypatch)
    (problem,) = [p for p in report(capsys, 1)["problems"] if p["essential"]]
    assert problem["what"] == name
    assert problem["remedy"] == f"pip install {name}"
    assert run() == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index(f"missing: {name}")
    assert lines[at + 2] == f"  pip install {name}"
    assert lines[-1] == "missing and essential: 1"


def test_jaxlib_is_not_essential(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    without("jaxlib", monkeypatch)
    found = report(capsys)
    assert found["sections"]["versions"]["jaxlib"] is None
    (problem,) = [p for p in found["problems"] if p["what"] == "jaxlib"]
    assert problem["remedy"] == 'pip install "kiln[xla]"'
    monkeypatch.setattr(doctor, "version_of", lambda name: "0.9.1")
    assert any(p["what"] == "jaxlib 0.9.1" for p in report(capsys)["problems"])


def test_a_program_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def jit(fun: Any) -> Any:
        raise OSError("no code\ncan be loaded")

    monkeypatch.setattr(doctor, "jit", jit)
    found = report(capsys, 1)
    assert found["sections"]["checks"] == dict.fromkeys(CHECKS, False)
    assert found["problems"][-1]["wrong"] == "no code; can be loaded"
    monkeypatch.setattr(doctor, "jit", lambda fun: lambda x: 0 * fun(x))
    assert "wrong" in report(capsys, 1)["problems"][-1]["wrong"]


def test_the_cache_is_not_created(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = report(capsys)["sections"]["cache on disk"]
    assert found == {"folder": str(place), "programs": 0, "writable": True}
    assert not place.exists()
    Folder(str(place)).put("aa", Entry("native", "", "f", 0.1, b"code"))
    found = report(capsys)["sections"]["cache on disk"]
    assert found["programs"] == 1
    assert found["bytes"] > 4
    with override(cache_dir=""):
        assert report(capsys)["sections"]["cache on disk"] == {"folder": None}


def test_a_cache_that_others_may_write_to(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place.mkdir()
    place.chmod(place.stat().st_mode | stat.S_IWOTH)
    found = report(capsys)
    assert found["sections"]["cache on disk"]["writable"] is False
    (problem,) = [p for p in found["problems"] if p["what"] == "a cache on disk"]
    assert not problem["essential"]
    assert "KILN_CACHE_DIR" in problem["remedy"]


def test_variables(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in [name for name in os.environ if name.startswith(("KILN_", "JAX_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("KILN_COORDINATOR_TOKEN", "secret")
    monkeypatch.setenv("KILN_NUM_TREADS", "1")
    monkeypatch.setenv("JAX_ENABLE_X64", "1")
    found = report(capsys)
    assert found["sections"]["environment"] == {
        "JAX_ENABLE_X64": "1",
        "KILN_COORDINATOR_TOKEN": "(set)",
        "KILN_NUM_TREADS": "1",
    }
    (problem,) = [p for p in found["problems"] if p["what"] == "KILN_NUM_TREADS"]
    assert problem["remedy"] == "did you mean KILN_NUM_THREADS?"


def test_no_compiler(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("CC", "no-such-compiler")
    found = report(capsys)
    assert found["sections"]["libraries for C"]["C compiler"] is None
    (problem,) = [p for p in found["problems"] if p["what"] == "a C compiler"]
    assert "apt-get install gcc" in problem["remedy"]


def test_an_unknown_level(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    doctor.linking.host_target.cache_clear()
    monkeypatch.setenv("KILN_TARGET", "x86-64-v9")
    try:
        found = report(capsys, 1)
        assert found["sections"]["processor"]["level"] is None
        problems = [p for p in found["problems"] if p["what"] != "a C compiler"]
        assert {p["remedy"].partition(":")[0] for p in problems} == {"set KILN_TARGET to one of"}
    finally:
        monkeypatch.undo()
        doctor.linking.host_target.cache_clear()


# As if a package were not installed, in a process of its own: kiln has imported it here.
WITHOUT = """\
import sys
sys.modules.update(dict.fromkeys(sys.argv[1].split(",")))
from kiln.__main__ import main
main(["doctor", "--json"])
"""


@pytest.mark.parametrize(("names", "status"), [("jaxlib,rich", 0), ("llvmlite", 1)])
def test_packages_that_cannot_be_imported(names: str, status: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, names],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == status
    assert json.loads(done.stdout)["ok"] == (status == 0)
