"""The import door: after `import kiln.as_jax`, `jax` and its public submodules are kiln's.

`python -m kiln.as_jax program.py` runs a program so. Real jax may be installed or not; it is never
imported. See README.md for what the files hold.
"""

import sys

from kiln.as_jax.finder import install
from kiln.as_jax.missing import MissingNameError
from kiln.as_jax.report import start_report

__all__ = ["MissingNameError", "install", "start_report"]

# While Python looks for the module of `python -m kiln.as_jax doctor`, nothing is examined yet: what
# the environment asks for and kiln lacks would end the process.
if sys.argv[:2] != ["-m", "doctor"] or "kiln.as_jax" not in sys.orig_argv:
    install()
