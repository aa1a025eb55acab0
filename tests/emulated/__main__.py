"""Run kiln's tests on emulated aarch64: `python -m tests.emulated [options of pytest]`."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.emulated.environment import COMPILER, PROGRAM, PYTHON, TREE, prepare


def main() -> int:
    """Prepare the environment, and return pytest's status."""
    prepare()
    env = {**os.environ, "CC": str(COMPILER), "KILN_TEST_EMULATOR": str(PROGRAM)}
    command = [PYTHON, "-m", "pytest", *sys.argv[1:]]
    return subprocess.run(command, cwd=TREE, env=env, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
