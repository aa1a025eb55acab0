"""Transfer guards: which calls bring data to a device, and what happens then.

Guards are options; where one is in force, calls leave the fast paths and report here:

- `sent` for host data that becomes an array,
- `applied` for the operands of an operation that runs eagerly,
- `called` for the arguments of a jitted function,
- `moved` for an array that goes to other devices.

Data is transferred *implicitly* if the user passed a number or a NumPy array where an array was
meant, and *explicitly* by functions marked so, as `device_put` is. Numbers that kiln's own
functions turn into arrays are not transfers. Therefore the frames between the line that runs and
the user's line are inspected: the outermost function that declares arrays among its parameters says
what was passed.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from kiln import _runtime
from kiln.base import dtypes
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.lazy import logging
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options
from kiln.base.source import current_source, is_users, unwrapped
from kiln.base.tree import tree_leaves
from kiln.core.engines.engine import default_sharding
from kiln.core.trace import aval_of
from kiln.ir.shardings.sharding import Sharding, SingleDeviceSharding

F = TypeVar("F", bound=Callable[..., Any])

HOST_TO_DEVICE = "host_to_device"
DEVICE_TO_DEVICE = "device_to_device"

FILLING = frozenset(("zeros_like", "ones_like", "empty_like"))
"""Functions that send a number to the device, whatever they are given."""

STATIC = {"power": "y", "repeat": "repeats", "roll": "shift", "permutation": "x", "tile": "reps"}
"""Parameters that are part of the program where they are integers, not data."""

DATA = {
    "dynamic_slice": ("operand", "start_indices"),
    "dynamic_slice_in_dim": ("operand", "start_index"),
    "pad": ("array", "kwargs"),
    **dict.fromkeys(("split", "array_split", "hsplit", "vsplit", "dsplit"), ("ary",)),
    **dict.fromkeys(("isclose", "allclose"), ("a", "b")),
    "standardize": ("x",),
    "arange": (),
}
"""Parameters that are data, where the annotations do not say so, or say it of others too."""

_explicit: set[types.CodeType] = set()
_calls: set[types.CodeType] = set()
_declared: dict[types.CodeType, dict[str, Any] | None] = {}
_SENDS_DEFAULTS = ("kiln.random", "kiln.scipy")


def explicit(fun: F) -> F:
    """Mark a function whose purpose is a transfer: transfers in it are explicit."""
    _explicit.add(unwrapped(fun).__code__)
    return fun


def calling(fun: F) -> F:
    """Mark a function that runs a program: it reports its transfers itself, by `called`."""
    _calls.add(unwrapped(fun).__code__)
    return fun


class _Section(NamedTuple):
    """The frames from the line that runs, first, to the one that the user's line called, last."""

    frames: tuple[types.FrameType, ...]

    @property
    def is_explicit(self) -> bool:
        return any(frame.f_code in _explicit for frame in self.frames)

    @property
    def is_call(self) -> bool:
        return any(frame.f_code in _calls for frame in self.frames)

    @property
    def asked(self) -> str:
        """The name of what the user called."""
        return next((f.f_code.co_name for f in reversed(self.frames) if _is_named(f)), "a call")

    def handed_over(self) -> list[Any] | None:
        """Return the host data given for arrays; None if no function declares any."""
        for frame in reversed(self.frames):
            name = frame.f_code.co_name
            if name in FILLING:
                return None
            given = frame.f_locals
            if "index" in given and name in ("getitem", "update"):
                return [*_numbers_in(given["index"]), *filter(_is_host, [given.get("values")])]
            declared = _data_parameters(frame)
            if declared is not None:
                fixed = STATIC.get(name)
                leaves = [
                    leaf
                    for param, default in declared.items()
                    if given[param] is not default
                    if not (param == fixed and isinstance(given[param], (int, np.integer)))
                    for leaf in tree_leaves(given[param])
                ]
                return [leaf for leaf in leaves if _is_host(leaf)]
        return None


def _is_named(frame: types.FrameType) -> bool:
    return frame.f_code.co_name not in ("wrapper", "apply", "call", "_call")


def _section() -> _Section:
    frame: types.FrameType | None = sys._getframe(2)
    frames = []
    while frame is not None and not is_users(frame.f_code):
        frames.append(frame)
        frame = frame.f_back
    return _Section(tuple(frames))


def _data_parameters(frame: types.FrameType) -> dict[str, Any] | None:
    """Return the parameters of a frame's function that are data, and values that do not count.

    Those are the defaults, which the caller did not pass; some functions pass them anyway.
    """
    code = frame.f_code
    if code not in _declared:
        fun = frame.f_globals.get(code.co_name)
        while fun is not None and getattr(fun, "__code__", None) is not code:
            fun = getattr(fun, "__wrapped__", None)
        annotations = getattr(fun, "__annotations__", {})
        names = DATA.get(code.co_name) if fun is not None else None
        if names is None or not set(names) <= set(code.co_varnames):
            declared = [n for n, a in annotations.items() if "ArrayLike" in str(a)]
            names = tuple([n for n in declared if n != "return"]) or None
        defaults: dict[str, Any] = {}
        if fun is not None and not frame.f_globals["__name__"].startswith(_SENDS_DEFAULTS):
            positional = code.co_varnames[: code.co_argcount]
            values = fun.__defaults__ or ()
            defaults.update(zip(positional[len(positional) - len(values) :], values, strict=True))
            defaults.update(fun.__kwdefaults__ or {})
        _declared[code] = None if names is None else {n: defaults.get(n) for n in names}
    return _declared[code]


def _is_host(x: Any) -> bool:
    return isinstance(x, (np.ndarray, np.generic)) or dtypes.is_python_scalar(x)


def _numbers_in(index: Any) -> list[Any]:
    """Return the parts of an index that become arrays: not those that take whole axes."""
    found: list[Any] = []
    for part in index if isinstance(index, tuple) else (index,):
        if isinstance(part, slice):
            found += [n for n in (part.start, part.stop) if n is not None]
        elif part is not None and part is not Ellipsis:
            found.append(np.asarray(part) if isinstance(part, (list, range)) else part)
    return found


def sent(value: Any) -> None:
    """Note that host data becomes an array outside of all transformations."""
    if _runtime.state.trace is not _runtime.state.root:
        return
    section = _section()
    if section.is_call:
        return
    if section.is_explicit:
        _note(section, HOST_TO_DEVICE, [value], is_explicit=True)
    else:
        found = section.handed_over()
        _note_once(section, [value] if found is None else found)


def applied(operands: Sequence[Any]) -> None:
    """Note the operands of an operation that runs eagerly."""
    section = _section()
    if section.is_call:
        return
    found = section.handed_over()
    if found is None:
        found = [x for x in operands if _is_host(x)]
    elif not found:
        # Whichever function declared it, a NumPy array of the user's was not transferred before.
        found = [x for x in operands if isinstance(x, np.ndarray) and x.ndim]
    _note_once(section, found)


def called(leaves: Sequence[Any]) -> None:
    """Note the arguments of a call of a jitted function."""
    section = _section()
    found = section.handed_over()
    _note_once(section, filter(_is_host, leaves) if found is None else found)


def moved(x: Any, sharding: Sharding, *, by_program: bool = False) -> None:
    """Note that an array goes to other devices, for a program or because that was asked for."""
    section = _section()
    given = tree_leaves(_arguments(section))
    if not any(x is leaf for leaf in given) and (not by_program or any(map(_is_host, given))):
        return  # made on the way, of host data where there is some
    if x.sharding.is_equivalent_to(sharding, x.ndim):
        return
    # Data on several devices moves through the host.
    is_read = not by_program and x.sharding.num_devices > 1
    way = HOST_TO_DEVICE if is_read else DEVICE_TO_DEVICE
    _note(section, way, [x], sharding, is_explicit=section.is_explicit)


def _arguments(section: _Section) -> list[Any]:
    if not section.frames:
        return []
    code = section.frames[-1].f_code
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return [section.frames[-1].f_locals.get(name) for name in code.co_varnames[:count]]


def _note_once(section: _Section, values: Iterable[Any]) -> None:
    """Note implicit transfers: only the first operation of a call reports them."""
    frame = section.frames[-1] if section.frames else None
    if frame is None or not frame.f_trace_lines:
        return
    found = list(values)
    if found:
        # Marks the frame by an attribute that every frame has, and that only debuggers use.
        frame.f_trace_lines = False
        _note(section, HOST_TO_DEVICE, found)


def _note(
    section: _Section,
    way: str,
    values: Iterable[Any],
    to: Sharding | None = None,
    *,
    is_explicit: bool = False,
) -> None:
    level = getattr(options(), f"transfer_guard_{way}")
    if level in (None, "allow") or (is_explicit and not level.endswith("_explicit")):
        return
    for x in values:
        what = f"{way.replace('_', '-')} transfer: aval={_shown(x)}, dst_sharding={_place(to)}"
        if level.startswith("log"):
            logging.getLogger("kiln").warning("%s at %s", what, current_source())
        else:
            raise _refused(section.asked, way, level, what, is_explicit)


def _shown(x: Any) -> str:
    try:
        return str(aval_of(x))
    except TypeError:
        return type(x).__name__


def _place(to: Sharding | None) -> Sharding:
    if to is not None:
        return to
    device = options().default_device
    return default_sharding() if device is None else SingleDeviceSharding(device)


def _refused(asked: str, way: str, level: str, what: str, is_explicit: bool) -> JaxRuntimeError:
    if is_explicit:
        remedy = f"do it outside of the guard, or set it to {level.removesuffix('_explicit')!r}"
    elif way == HOST_TO_DEVICE:
        remedy = "send it before: kiln.device_put(value), or compile the call: kiln.jit(...)"
    else:
        remedy = "move it before: kiln.device_put(x, sharding)"
    return JaxRuntimeError(
        three_lines(
            f"{asked} at {current_source()}, with transfer_guard_{way}={level!r}",
            f"INVALID_ARGUMENT: Disallowed {what}",
            remedy,
        )
    )
