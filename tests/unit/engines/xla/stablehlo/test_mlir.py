"""Modules of MLIR, and the contexts that they are parsed in."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kiln.engines.xla.stablehlo import mlir

RACING = """
import threading
import numpy as np
import kiln

def work(k):
    for i in range(12):
        out = kiln.ShapeDtypeStruct((), np.float32)
        kiln.jit(lambda x: kiln.pure_callback(np.sin, out, x * (i + 100 * k)))(1.0)

threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
for t in threads:
    t.start()
for t in threads:
    t.join()
"""


def test_modules_to_compile_have_contexts_of_their_own() -> None:
    first, second = mlir.parse_alone("module {}"), mlir.parse_alone("module {}")
    assert first.context is not second.context
    assert first.context is not mlir.parse("module {}").context


@pytest.mark.full
@pytest.mark.parametrize("_", range(8))
def test_threads_compile_programs_with_callbacks(_: int) -> None:
    """One in three of these processes died: a thread parsed where XLA compiled for another."""
    environment = {**os.environ, "KILN_ENGINE": "xla"}
    subprocess.run([sys.executable, "-c", RACING], check=True, env=environment, timeout=120)
