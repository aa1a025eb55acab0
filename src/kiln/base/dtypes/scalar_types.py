"""The objects `kiln.numpy.float32`, `kiln.numpy.int8`, ...: names of dtypes that also make arrays.

Each is a class that equals, and hashes like, the `numpy.dtype` it denotes. Calling one makes an
array; arrays live in a higher layer, which installs the constructor by `set_scalar_constructor`.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable
from typing import Any

import numpy as np

from kiln.base.dtypes.kinds import SUPPORTED
from kiln.base.pickled import pickled_as, reduced


def _not_installed(value: Any, dtype: np.dtype[Any]) -> Any:
    raise RuntimeError(
        f"{dtype.name}({value!r})\narrays are not available yet\nimport kiln.numpy first"
    )


class ScalarType(type):
    """The class of kiln's scalar types."""

    make: Callable[[Any, np.dtype[Any]], Any] = staticmethod(_not_installed)
    dtype: np.dtype[Any]

    def __call__(cls, x: Any) -> Any:
        """Make an array of this dtype."""
        return ScalarType.make(x, cls.dtype)

    def __eq__(cls, other: object) -> bool:
        return cls is other or bool(cls.dtype == other)

    def __ne__(cls, other: object) -> bool:
        return not cls == other

    def __hash__(cls) -> int:
        return hash(cls.dtype.type)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.dtype.type)


@pickled_as("dtype")
def _by_name(name: str) -> ScalarType:
    return SCALAR_TYPES[name]


def _scalar_type(name: str, dtype: np.dtype[Any]) -> ScalarType:
    doc = f"The dtype {name}. Calling it creates an array of that dtype."
    members = {"dtype": dtype, "__doc__": doc, "__module__": "kiln.numpy"}
    return ScalarType(name, (object,), members)


SCALAR_TYPES: dict[str, ScalarType] = {
    name: _scalar_type(name, dtype) for name, dtype in SUPPORTED.items()
}
"""All scalar types by the name of their dtype, and by NumPy's aliases."""

SCALAR_TYPES |= {
    alias: SCALAR_TYPES[name]
    for alias, name in {
        "bool_": "bool",
        "int_": "int64",
        "uint": "uint64",
        "float_": "float64",
        "complex_": "complex128",
        "half": "float16",
        "single": "float32",
        "double": "float64",
        "csingle": "complex64",
        "cdouble": "complex128",
    }.items()
}


def _reduced(cls: ScalarType) -> tuple[Any, ...]:
    return reduced("dtype", cls.__name__)


copyreg.pickle(ScalarType, _reduced)


def set_scalar_constructor(fn: Callable[[Any, np.dtype[Any]], Any]) -> None:
    """Install the function behind calls of scalar types: `fn(value, dtype) -> Array`."""
    ScalarType.make = staticmethod(fn)
