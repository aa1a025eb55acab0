"""Functions of other languages in programs, by XLA's typed interface: the names of `jax.ffi`.

A function in C++ includes `xla/ffi/api/ffi.h`, which jaxlib brings (`include_dir`). Programs that
call one are compiled by XLA as a whole.
"""

from __future__ import annotations

import ctypes
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from kiln.base import dtypes
from kiln.base.errors import three_lines
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.source import api_boundary, current_source
from kiln.control.effects.callback import METHODS
from kiln.control.effects.foreign_call import ForeignCall, ffi_call_p
from kiln.core import foreign
from kiln.core.engines.installed import INSTALL_XLA
from kiln.core.foreign import Registration, attributes_of, target
from kiln.core.trace import aval_of, is_typed
from kiln.ir.shardings.formats import Layout
from kiln.ir.types import ShapedArray
from kiln.numpy.creation.arrays import asarray

__all__ = [
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]

_TYPED = 4


def pycapsule(funcptr: Any) -> Any:
    """Return the address of a function that `ctypes` found in a library as a capsule.

    Example:
        >>> type(kiln.ffi.pycapsule(ctypes.pythonapi.Py_GetVersion)).__name__
        'PyCapsule'
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
    return make(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def include_dir() -> str:
    """Return the folder of the headers that jaxlib brings.

    Raises: RuntimeError without jaxlib.
    """
    found = importlib.util.find_spec("jaxlib")
    places = [] if found is None else list(found.submodule_search_locations or ())
    if not places:
        raise RuntimeError(
            three_lines(
                f"kiln.ffi.include_dir() at {current_source()}",
                "jaxlib, which brings the headers of foreign functions, is not installed",
                INSTALL_XLA,
            )
        )
    return str(Path(places[0]) / "include")


@api_boundary
def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Let a name stand for a foreign function on a platform.

    `fn` is a capsule, or a dict of capsules for the stages of a call (`instantiate`, `execute`,
    ...). `api_version` is 1 for functions with the typed interface, 0 for older ones.

    Raises: ValueError for a name that stands for another function.
    """
    foreign.register(name, Registration(fn, platform, api_version, tuple(kwargs.items())))


def register_ffi_type(name: str, type_registration: Any, platform: str = "cpu") -> None:
    """Register a type of the state of foreign functions: a dict with `type_id` and `type_info`."""
    foreign.register_type(name, type_registration, platform)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """Refuse: XLA takes types with what it needs to know of them.

    Raises: ValueError.
    """
    raise ValueError(
        three_lines(
            f"register_ffi_type_id({name!r}, {obj!r:.60}, {platform!r}) at {current_source()}",
            "register_ffi_type_id is not supported by this version of jaxlib",
            "write register_ffi_type(name, {'type_id': ..., 'type_info': ...})",
        )
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that each device may call a function with its part of the leading axes."""
    target(name).is_partitionable = True


@api_boundary
def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None,
    custom_call_api_version: int = _TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """Return the function of arrays, and of attributes by keyword, that a name stands for.

    Results have the given shapes and dtypes, one or a sequence of them. `vmap_method` says how to
    call it on stacks, as for `pure_callback`. Layouts name axes from the slowest to the fastest;
    `input_output_aliases` says which result takes the place of an input.

    Raises: ValueError for options that do not fit; at the call, for arrays that do not fit them.
    Source: the documentation of `jax.ffi.ffi_call`.
    """
    asked = f"ffi_call({target_name!r})"
    if vmap_method is not None and vmap_method not in METHODS:
        raise _refused(
            asked,
            f"vmap_method must be one of the allowed methods {list(METHODS)}, but got: "
            f"{vmap_method}",
            "pass one of them, or leave it out where nothing is mapped",
        )
    if custom_call_api_version >= _TYPED and legacy_backend_config is not None:
        raise _refused(
            asked,
            "The use of the legacy_backend_config parameter requires custom_call_api_version < "
            f"4; got {custom_call_api_version}.",
            "pass attributes by keyword",
        )
    several = isinstance(result_shape_dtypes, Sequence)
    declared = result_shape_dtypes if several else [result_shape_dtypes]
    results = tuple(_result(x, i, asked) for i, x in enumerate(declared))
    layouts = output_layouts if several or output_layouts is None else (output_layouts,)

    @api_boundary
    def call(*args: Any, **attributes: Any) -> Any:
        if attributes and custom_call_api_version < _TYPED:
            raise _refused(
                asked,
                "The use of ffi_call attributes requires a custom call API version of at least "
                f"4; got api_version={custom_call_api_version}.",
                "pass legacy_backend_config",
            )
        operands = [x if is_typed(x) else asarray(x) for x in args]
        avals = [aval_of(x) for x in operands]
        made = ForeignCall(
            target(target_name),
            attributes_of(attributes, asked),
            _layouts(avals, input_layouts, "input", asked),
            _layouts(results, layouts, "output", asked),
            api_version=custom_call_api_version,
            config=legacy_backend_config,
        )
        made = made._replace(aliases=_aliases(input_output_aliases or {}, avals, results, made))
        outs = ffi_call_p.bind(
            *operands,
            call=made,
            vmap_method=vmap_method,
            result_avals=results,
            has_side_effect=has_side_effect,
        )
        if not several:
            return outs[0]
        return tuple(outs) if isinstance(result_shape_dtypes, tuple) else list(outs)

    return call


def _refused(asked: str, wrong: str, instead: str) -> ValueError:
    return ValueError(three_lines(f"{asked} at {current_source()}", wrong, instead))


def _result(x: Any, number: int, asked: str) -> ShapedArray:
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise _refused(
            asked,
            "All elements of result_shape_dtypes must have 'shape' and 'dtype' attributes. Got "
            f"{x!r} at position {number}.",
            "give kiln.ShapeDtypeStruct(shape, dtype) for each result",
        )
    return ShapedArray(tuple(x.shape), dtypes.as_dtype(x.dtype))


def _layouts(
    avals: Sequence[ShapedArray], given: Sequence[Any] | None, what: str, asked: str
) -> tuple[tuple[int, ...], ...]:
    """Return the order of axes of each array, the fastest first."""
    if given is None:
        given = [None] * len(avals)
    if len(given) != len(avals):
        kind = "input arguments" if what == "input" else "outputs"
        raise _refused(
            asked,
            f"The number of {kind} ({len(avals)}) must equal the number of {what} layouts "
            f"({len(given)}).",
            "give None for an array in row-major order",
        )
    return tuple(_layout(a, x, asked) for a, x in zip(avals, given, strict=True))


def _layout(aval: ShapedArray, given: Any, asked: str) -> tuple[int, ...]:
    rank = aval.physical().ndim
    order = range(rank) if given is None else given
    if isinstance(given, Layout):
        if given.tiling is not None:
            raise _refused(
                asked, "The FFI does not support layouts with tiling", "leave the tiling out"
            )
        order = given.major_to_minor
    found = tuple(int(axis) for axis in order)[::-1]
    if sorted(found) != list(range(rank)):
        raise _refused(
            asked,
            f"the layout {given!r} is not an order of the axes of {aval}",
            "name each axis once, from the slowest to the fastest",
        )
    return found


def _aliases(
    given: Mapping[int, int],
    avals: Sequence[ShapedArray],
    results: Sequence[ShapedArray],
    made: ForeignCall,
) -> tuple[tuple[int, int], ...]:
    for i, o in given.items():
        for number, kind, count in ((i, "input", len(avals)), (o, "output", len(results))):
            if not 0 <= number < count:
                raise _refused(
                    f"ffi_call({made.target.name!r})",
                    f"input_output_aliases contains the mapping '{i}:{o}' with {kind} index "
                    f"{number} outside the range [0, {count}).",
                    "number inputs and outputs from 0 on",
                )
        own, other = avals[i].physical(), results[o].physical()
        same = (own.shape, own.dtype) == (other.shape, other.dtype)
        if not same or made.in_layouts[i] != made.out_layouts[o]:
            raise _refused(
                f"ffi_call({made.target.name!r})",
                f"input_output_aliases contains the mapping '{i}:{o}' referring to an input "
                f"{own} and an output with a different type, {other}, or another layout",
                "a result takes the place of an input of its own type and layout",
            )
    return tuple(sorted((int(i), int(o)) for i, o in given.items()))


def build_ffi_lowering_function(
    call_target_name: str,
    *,
    operand_layouts: Sequence[Any] | None = None,
    result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None,
    skip_ffi_layout_processing: bool = False,
    has_side_effect: bool = False,
    operand_output_aliases: Mapping[int, int] | None = None,
    api_version: int = _TYPED,
) -> Callable[..., Any]:
    """Return a lowering rule that calls a foreign function; parameters become its attributes.

    Here layouts name axes from the fastest to the slowest; with `skip_ffi_layout_processing` all
    are row-major. Use it with `interpreters.mlir.register_lowering`.
    """
    layouts = [
        None if given is None or skip_ffi_layout_processing else list(map(_turned, given))
        for given in (operand_layouts, result_layouts)
    ]
    config = backend_config if isinstance(backend_config, str) else None
    fixed = {} if config is not None or backend_config is None else dict(backend_config)  # type: ignore[arg-type]

    def rule(context: Any, /, *operands: Any, **params: Any) -> list[Any]:
        call = ffi_call(
            call_target_name,
            list(context.avals_out),
            has_side_effect=has_side_effect,
            input_layouts=layouts[0],
            output_layouts=layouts[1],
            input_output_aliases=operand_output_aliases,
            custom_call_api_version=api_version,
            legacy_backend_config=config,
        )
        found: list[Any] = call(*operands, **fixed, **params)
        return found

    return rule


ffi_lowering = build_ffi_lowering_function
"""As `build_ffi_lowering_function`: rules return the list of results in both cases."""


def _turned(layout: Any) -> Any:
    return layout if layout is None or isinstance(layout, Layout) else tuple(layout)[::-1]


_suggest_names(globals())
