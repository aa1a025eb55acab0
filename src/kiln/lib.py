"""The release of jaxlib that is installed, under the name that programs of JAX ask for it by."""

from importlib.metadata import version as _version

__version__: str = _version("jaxlib")
__all__ = ["__version__"]
