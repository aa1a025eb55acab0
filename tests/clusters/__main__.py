"""Make the environment of the cluster tests, then run them: `python -m tests.clusters ARGUMENTS`.

The arguments are pytest's.
"""

from __future__ import annotations

import os
import sys

from tests.clusters import environment

environment.prepare()
command = [str(environment.PYTHON), "-m", "pytest", "-m", "clusters", "tests/clusters"]
os.execv(command[0], [*command, *sys.argv[1:]])
