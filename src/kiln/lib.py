"""The release of jaxlib that is installed, under the name that programs of JAX ask for it by."""

from importlib.metadata import version as _version

from kiln.core.engines.engine import DEFAULT_ENGINE
from kiln.core.engines.installed import require_installed

require_installed(DEFAULT_ENGINE, "kiln.lib.__version__, the version of jaxlib,")

__version__: str = _version("jaxlib")
__all__ = ["__version__"]
