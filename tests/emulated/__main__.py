"""Run kiln's tests on emulated aarch64: `python -m tests.emulated [options of pytest]`."""

from __future__ import annotations

import subprocess
import sys

from tests.emulated.environment import PYTHON, TREE, prepare


def main() -> int:
    """Prepare the environment, and return pytest's status."""
    prepare()
    return subprocess.run([PYTHON, "-m", "pytest", *sys.argv[1:]], cwd=TREE, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
