"""The module `jax.lib`, of which the version of jaxlib is left: that of the release followed."""

from kiln.as_jax.version import __version__

__all__ = ["__version__"]
