"""What JAX's tests, and the files that support them, ask of private modules, in terms of kiln.

Nothing here makes a test pass that looks at what kiln does not have: counts of JAX's own events are
counts of nothing, and tests of them fail.
"""

from __future__ import annotations

import contextlib
import enum
import functools
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import jaxlib.utils
import jaxlib.weakref_lru_cache
import jaxlib.xla_client
import ml_dtypes
import numpy as np
from jaxlib import _jax

import kiln
import kiln.lax.linalg
import kiln.numpy as jnp
from kiln.as_jax.private import PrivateModule
from kiln.as_jax.private_functions import trace_state_clean
from kiln.as_jax.version import __version_info__
from kiln.base.dtypes import canonicalize_dtype, check_user_dtype, lattice_result_type
from kiln.base.options.config import changes_of, config, override
from kiln.base.options.names import ALIASES, FOREIGN
from kiln.core.slices import Slice
from kiln.ops.elements.conversion import convert_element_type
from tests.libraries.jax_tests.box_stand_ins import box_stand_ins
from tests.libraries.jax_tests.key_stand_ins import key_stand_ins
from tests.libraries.jax_tests.random_stand_ins import random_stand_ins
from tests.libraries.jax_tests.searching_stand_ins import searching_stand_ins
from tests.libraries.jax_tests.sparse_stand_ins import sparse_stand_ins

_SMALL = ("int1", "uint1", "int2", "uint2", "int4", "uint4")
_FLOATS = (
    "float4_e2m1fn",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "float8_e3m4",
    "float8_e4m3",
    "float8_e8m0fnu",
    "float8_e4m3b11fnuz",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
)

_EXCHANGED = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)

# Options of jax that kiln does not know by name at all, with their defaults.
_DEFAULTS = {
    "jax_export_calling_convention_version": 10,
    "jax_use_direct_linearize": True,
    "jax_use_simplified_jaxpr_constants": False,
    "jax_embedded_constants_max_bytes": 32,
    "jax_use_shardy_partitioner": True,
    "jax_pgle_profiling_runs": 3,
    "jax_softmax_custom_jvp": False,
}


class Option:
    """An option as JAX's tests use it: its value, and a context or decorator that changes it.

    Options that kiln does not have are set by name alone, as far as kiln allows.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.__name__ = name

    @property
    def value(self) -> Any:
        """The current value."""
        if self.name in _DEFAULTS:
            return _DEFAULTS[self.name]
        return getattr(config, self.name, None)

    def get_local(self) -> Any:
        """Return the current value."""
        return self.value

    def __call__(self, value: Any = True) -> Any:
        """Return the context in which the option has a value."""
        if isinstance(value, enum.Enum):
            value = value.name.lower()
        if self.name in ALIASES:
            alias = ALIASES[self.name]
            return override(**changes_of(alias.field, alias.from_jax(value)))
        return _checked(self.name, value)


@contextlib.contextmanager
def _checked(name: str, value: Any) -> Iterator[None]:
    if name not in FOREIGN:
        yield
        return
    before = getattr(config, name)
    config.update(name, value)
    try:
        yield
    finally:
        config.update(name, before)


class Flag:
    """A flag of JAX's support for tests: a value from its environment variable, or the default."""

    def __init__(self, value: Any) -> None:
        self.value = value


class _Options(dict[str, Option]):
    def __missing__(self, name: str) -> Option:
        return self.setdefault(name, Option(name))


_states = _Options()


def _flag(name: str, default: Any, *args: Any, **kwargs: Any) -> Flag:
    return Flag(default)


def _truth(name: str, default: bool) -> bool:
    return default


def _read(name: str) -> Any:
    return _states[name].value


type(config)._read = staticmethod(_read)


class _Counted:
    """A cache that counts nothing."""

    @staticmethod
    def cache_info() -> types.SimpleNamespace:
        return types.SimpleNamespace(misses=0, hits=0)

    @staticmethod
    def cache_clear() -> None:
        """Do nothing."""


class _Backend:
    platform = "cpu"
    platform_version = "kiln"
    local_devices = staticmethod(kiln.local_devices)
    devices = staticmethod(kiln.devices)

    @staticmethod
    def device_count() -> int:
        return kiln.device_count()


@functools.cache
def _backend(name: Any = None) -> _Backend:
    return _Backend()


class _CpuDevices:
    @property
    def value(self) -> int:
        return config.jax_num_cpu_devices or -1


def _reset_trace_state() -> bool:
    """Tell whether no function is being traced, as every test should leave it."""
    return trace_state_clean()


def _inexact(dtype: Any) -> np.dtype:
    """Return the dtype, or of an integer or boolean the floats that functions make of it."""
    dtype = np.dtype(dtype)
    if dtype.kind in "biu" or dtype.name.startswith(("int", "uint")):
        return np.dtype("float64" if dtype.itemsize == 8 else "float32")
    return dtype


def _complex(dtype: Any) -> np.dtype:
    wide = _inexact(dtype) in (np.dtype("float64"), np.dtype("complex128"))
    return np.dtype("complex128" if wide else "complex64")


def _numeric(dtype: Any) -> np.dtype:
    dtype = np.dtype(dtype)
    return np.dtype("int32") if dtype == np.bool_ else dtype


def _is_weak(x: Any) -> bool:
    return type(x) in (bool, int, float, complex) or bool(getattr(x, "weak_type", False))


def _dtype_of(x: Any) -> Any:
    if x is None:
        raise ValueError("Invalid argument to dtype: None")
    if isinstance(x, (str, type, np.dtype)):
        return check_user_dtype(x, "dtype")
    return jnp.result_type(x) if not hasattr(x, "dtype") else canonicalize_dtype(x.dtype)


def _result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    found = jnp.result_type(*args)
    return (found, lattice_result_type(*args)[1]) if return_weak_type_flag else found


def _type_in_lattice(dtype: Any, weak_type: bool) -> Any:
    if not weak_type or dtype == np.bool_:
        return dtype
    kinds = ((np.complexfloating, complex), (np.floating, float), (np.integer, int))
    return next(kind for above, kind in kinds if jnp.issubdtype(dtype, above))


def _is_safe(x: Any, dtype: Any) -> bool:
    wanted = _dtype_of(dtype)
    return bool(_dtype_of(x) == wanted or jnp.result_type(x, wanted) == wanted)


def _dtypes() -> dict[str, Any]:
    small = {name: getattr(ml_dtypes, name, None) for name in _SMALL}
    floats = [getattr(ml_dtypes, name) for name in ("bfloat16", *_FLOATS)]

    def default(kind: str) -> Callable[[], np.dtype]:
        return lambda: kiln.dtypes.canonicalize_dtype(np.dtype(kind))

    return {
        **small,
        "isdtype": jnp.isdtype,
        "bfloat16": ml_dtypes.bfloat16,
        **{name: getattr(ml_dtypes, name) for name in _FLOATS},
        "_float8_dtypes": [np.dtype(getattr(ml_dtypes, x)) for x in _FLOATS if "8" in x],
        "to_inexact_dtype": _inexact,
        "to_floating_dtype": lambda dtype: jnp.finfo(_inexact(dtype)).dtype,
        "to_complex_dtype": _complex,
        "to_numeric_dtype": _numeric,
        "is_weakly_typed": _is_weak,
        "dtype": _dtype_of,
        "result_type": _result_type,
        "_dtype_and_weaktype": lattice_result_type,
        "_jax_type": _type_in_lattice,
        "bool_": np.bool_,
        "int_": np.int64,
        "uint": np.uint64,
        "float_": np.float64,
        "complex_": np.complex128,
        "register_canonicalize_value_handler": lambda kind, handler: None,
        "_jax_types": [np.dtype(kind) for kind in (*_EXCHANGED, *small.values(), *floats) if kind],
        "_weak_types": [bool, int, float, complex],
        "_intn_dtypes": [np.dtype(kind) for kind in small.values() if kind is not None],
        "default_types": {
            "b": default("bool"),
            "i": default("int64"),
            "u": default("uint64"),
            "f": default("float64"),
            "c": default("complex128"),
        },
        "default_int_dtype": default("int64"),
        "default_uint_dtype": default("uint64"),
        "default_float_dtype": default("float64"),
        "default_complex_dtype": default("complex128"),
        "python_scalar_types_to_dtypes": {
            bool: np.dtype("bool"),
            int: np.dtype("int64"),
            float: np.dtype("float64"),
            complex: np.dtype("complex128"),
        },
        "finfo": jnp.finfo,
        "iinfo": jnp.iinfo,
        "issubdtype": jnp.issubdtype,
        "safe_to_cast": _is_safe,
        "promote_types": jnp.promote_types,
    }


def _promote_dtypes(*args: Any) -> list[Any]:
    dtype = jnp.result_type(*args)
    return [jnp.asarray(arg, dtype) for arg in args]


def _promote_inexact(*args: Any) -> list[Any]:
    dtype = _inexact(jnp.result_type(*args))
    return [jnp.asarray(arg, dtype) for arg in args]


class Configuration(PrivateModule):
    """`jax._src.config`, in which each name in small letters is an option."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not name.islower() or name.endswith("_state"):
            return super().__getattr__(name)
        return _states[f"jax_{name.removeprefix('jax_')}"]


def _configuration() -> dict[str, Any]:
    return {
        "ExplicitX64Mode": enum.Enum("ExplicitX64Mode", ["WARN", "ERROR", "ALLOW"]),
        "bool_flag": _flag,
        "int_flag": _flag,
        "string_flag": _flag,
        "bool_env": _truth,
        "config": config,
        "config_states": _states,
        "update": config.update,
        "_read": _read,
        "parse_flags_with_absl": config.parse_flags_with_absl,
    }


def _converted(
    operand: Any, new_dtype: Any = None, weak_type: bool = False, sharding: Any = None
) -> Any:
    dtype = jnp.result_type(operand) if new_dtype is None else new_dtype
    return kiln.device_put(convert_element_type(operand, dtype, weak_type), sharding)


def _remaining(axes: Iterable[int], *taken: Iterable[int]) -> list[int]:
    """Return the axes that are in none of the others."""
    others = set().union(*taken)
    return [axis for axis in axes if axis not in others]


def _absent(*args: Any, **kwargs: Any) -> NoReturn:
    raise NotImplementedError("a private function of jax, which kiln does not have")


class IndexingStrategy(enum.Enum):
    """Which operation an index becomes; kiln chooses by itself."""

    AUTO = "auto"
    GATHER = "gather"
    SCATTER = "scatter"
    DYNAMIC_SLICE = "dynamic_slice"
    STATIC_SLICE = "static_slice"


def _taken(
    arr: Any,
    idx: Any,
    *,
    mode: Any = None,
    fill_value: Any = None,
    normalize_indices: bool = True,
    strategy: IndexingStrategy = IndexingStrategy.AUTO,
    **options: Any,
) -> Any:
    if strategy is not IndexingStrategy.AUTO:
        raise NotImplementedError("kiln chooses the operation that an index becomes")
    return (
        jnp.asarray(arr)
        .at[idx]
        .get(mode=mode, fill_value=fill_value, wrap_negative_indices=normalize_indices, **options)
    )


def stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names of private modules by module."""
    lib = {
        "_jax": _jax,
        "pytree": _jax.pytree,
        "utils": jaxlib.utils,
        "weakref_lru_cache": jaxlib.weakref_lru_cache,
        "xla_client": jaxlib.xla_client,
        "jaxlib_extension_version": jaxlib.xla_client._version,
        "version": __version_info__,
        "cuda_versions": None,
    }
    return {
        "jax._src.lib": lib,
        "jax._src.config": _configuration(),
        "jax._src.array": {"ArrayImpl": kiln.Array},
        "jax._src.compilation_cache": {
            "_cache": None,
            "is_persistent_cache_enabled": lambda: False,
        },
        "jax._src.cloud_tpu_init": {"running_in_cloud_tpu_vm": False},
        "jax._src.core": {"reset_trace_state": _reset_trace_state, "typeof": kiln.typeof},
        "jax._src.dispatch": {
            "xla_primitive_callable": _Counted(),
            # What is cleared has no successor here: effects that still run are awaited.
            "runtime_tokens": types.SimpleNamespace(clear=kiln.effects_barrier),
        },
        "jax._src.dtypes": _dtypes(),
        "jax._src.interpreters.mlir": {"_platforms_with_donation": ("cpu", "cuda", "rocm", "tpu")},
        "jax._src.dlpack": {
            "SUPPORTED_DTYPES_SET": {np.dtype(kind) for kind in (*_EXCHANGED, ml_dtypes.bfloat16)}
        },
        "jax._src.path": {"Path": Path},
        "jax._src.lax.control_flow": {
            "common": types.SimpleNamespace(_dedup_consts=_Counted(), _pad_constvars=_Counted())
        },
        "jax._src.lax.lax": {
            "_convert_element_type": _converted,
            "asarray": jnp.asarray,
            "remaining": _remaining,
        },
        "jax._src.lax.linalg": {"_lu_python": _absent},
        **box_stand_ins(),
        **key_stand_ins(),
        **random_stand_ins(),
        "jax._src.monitoring": {
            name: value for name, value in vars(kiln.monitoring).items() if callable(value)
        },
        "jax._src.indexing": {"Slice": Slice},
        # What these compute for TPUs, others compute here: the tests look at the results.
        "jax._src.tpu.linalg.qdwh": {"qdwh": kiln.lax.linalg.qdwh},
        "jax._src.tpu.linalg.svd": {"svd": jnp.linalg.svd},
        "jax._src.numpy.indexing": {
            "IndexingStrategy": IndexingStrategy,
            "rewriting_take": _taken,
        },
        **searching_stand_ins(),
        **sparse_stand_ins(),
        "jax._src.numpy.util": {
            "promote_dtypes": _promote_dtypes,
            "promote_dtypes_inexact": _promote_inexact,
        },
        "jax._src.xla_bridge": {
            "get_backend": _backend,
            "devices": kiln.devices,
            "local_devices": kiln.local_devices,
            "device_count": kiln.device_count,
            "num_cpu_devices": _CpuDevices(),
            "backend_pjrt_c_api_version": lambda: None,
            "backend_stablehlo_version": lambda: None,
        },
    }
