"""Interpreter shutdown while compiled functions run on daemon threads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.unit._runtime.native.native_code import needs_compiler

HEAD = """
import sys, threading, time
import numpy as np
from tests.unit._runtime.native import native_code
SOURCE = '''
ENTRY(endless) {
  for (;;) { int32_t status = kiln_poll(c); if (status != 0) return status; }
}
ENTRY(calls) {
  int64_t which = 0;
  for (;;) {
    void *buffers[] = {0};
    int32_t status = kiln_call_python(c, buffers, &which);
    if (status != 0) return status;
  }
}
ENTRY(short_) { for (long i = 0; i < 100000; ++i) OUT(float, 0)[i] = i; return 0; }
'''
wide = np.zeros(100_000, np.float32)
def program(name, outs=(), **options):
    return native_code.program(SOURCE, name, [], outs, **options)
def daemons(work):
    for _ in range(3):
        threading.Thread(target=work, daemon=True).start()
    time.sleep(0.2)
"""

PROGRAMS = {
    "loops": "daemons(lambda: program('endless')([]))",
    "loops without the lock": "daemons(lambda: program('endless', is_long=True)([]))",
    "callbacks": "daemons(lambda: program('calls', callbacks=[(tuple, [], [])])([]))",
    "callbacks that wait": """
daemons(lambda: program('calls', callbacks=[(lambda: time.sleep(0.001) or (), [], [])])([]))
""",
    "many calls": """
def work():
    run = program('short_', [wide])
    while True:
        run([])
daemons(work)
""",
}


@needs_compiler
@pytest.mark.parametrize("name", PROGRAMS)
def test_the_process_ends(name: str) -> None:
    root = Path(__file__).parents[4]
    done = subprocess.run(
        [sys.executable, "-c", HEAD + PROGRAMS[name] + "\nprint('end')"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")
