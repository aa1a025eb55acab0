"""The module `jax.lib`: only the version of jaxlib, of the release that kiln follows."""

from kiln.as_jax.version import __version__

__all__ = ["__version__"]
