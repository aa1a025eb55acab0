"""The import door: after `import kiln.as_jax`, `jax` and its public submodules are kiln's.

`python -m kiln.as_jax program.py` runs a program so. Real jax may be installed or not; it is never
imported. See README.md for what the files hold.
"""

from kiln.as_jax.finder import install
from kiln.as_jax.missing import MissingNameError
from kiln.as_jax.report import start_report

__all__ = ["MissingNameError", "install", "start_report"]

install()
