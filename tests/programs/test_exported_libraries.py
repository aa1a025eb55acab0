"""Programs that jax exported become libraries: C computes the bits that kiln computes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kiln import export
from kiln.base.options.config import override
from tests.differential.exported_programs import PROGRAMS
from tests.differential.oracle import Answer, compare
from tests.differential.test_exported import loaded
from tests.programs.c_driver import COMPILER, Call, have_same_bits, run_calls

pytest.importorskip("flatbuffers")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

WRITTEN = ("module", "loops", "layers", "draws", "order", "pools", "sized")


def test_c_computes_the_same_bits(tmp_path: Path) -> None:
    # Seconds: seven programs are compiled, into libraries as well, and one in C.
    calls, expected = [], []
    for name in WRITTEN:
        program, answer = loaded(name)
        args = PROGRAMS[name].args
        # A program with named sizes becomes a library for those of examples.
        made = export.library(program, *args, name=f"of_{name}", path=tmp_path / name, shared=False)
        calls.append(Call(Path(made.path), f"of_{name}", {}, list(args)))
        with override(engine="native"):
            expected.append(([np.asarray(x) for x in program.call(*args)], answer, name))
    for found, (own, answer, name) in zip(run_calls(calls, tmp_path), expected, strict=True):
        assert all(have_same_bits(x, y) for x, y in zip(found, own, strict=True)), name
        assert not compare(Answer(answer.types, tuple(found)), answer, PROGRAMS[name].tolerance)


def test_what_xla_alone_runs_is_refused(tmp_path: Path) -> None:
    program, _ = loaded("sized")
    with pytest.raises(NotImplementedError, match="is called with named sizes") as error:
        export.library(program, name="sized", path=tmp_path / "out")
    assert "arrays of constant sizes" in str(error.value).splitlines()[1]
    assert not (tmp_path / "out").exists()
