"""The import door: after `import kiln.as_jax`, `jax` and its public submodules are kiln's.

`python -m kiln.as_jax program.py` runs a program this way. The real jax need not be installed, and
is never imported. README.md describes the files.
"""

import sys

from kiln.as_jax.finder import install
from kiln.as_jax.missing import MissingNameError
from kiln.as_jax.report import start_report

__all__ = ["MissingNameError", "install", "start_report"]

# While Python imports the package for `python -m kiln.as_jax doctor`, the examination has not
# started yet: unsupported settings in the environment would end the process.
if sys.argv[:2] != ["-m", "doctor"] or "kiln.as_jax" not in sys.orig_argv:
    install()
