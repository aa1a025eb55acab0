"""Two small libraries for examples: optimizers, and layers that are pairs of functions."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use

if _TYPE_CHECKING:
    from kiln.example_libraries import optimizers as optimizers
    from kiln.example_libraries import stax as stax

__getattr__, __dir__ = _on_first_use(globals(), "optimizers", "stax")
