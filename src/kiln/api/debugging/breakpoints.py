"""Breakpoints in programs: the frames of their call, with values from when they run."""

from __future__ import annotations

import sys
import types
from collections.abc import Sequence
from typing import Any

from kiln.api.debugging.debugger import Debugger, Frame
from kiln.base.errors import three_lines
from kiln.base.process.forks import new_rlock
from kiln.base.records import Record
from kiln.base.source import api_boundary, current_source, is_internal
from kiln.base.tree import PyTreeDef, tree_flatten, tree_map, tree_unflatten
from kiln.control.effects.callback import debug_callback, pure_callback
from kiln.core.trace import Tracer
from kiln.ir.types import ShapedArray
from kiln.ops.identity import stop_gradient

BACKENDS = (None, "cli")

_lock = new_rlock()


class _Place(Record, eq=False):
    """Marks a tracer in the locals of a frame by its number among the breakpoint's tracers."""

    number: int


class _Recorded(Record, eq=False):
    """The frames around a breakpoint when it was recorded; called with the values of its tracers.

    Each has a dictionary of its locals, in which pytrees are replaced by their leaves and
    structure.
    """

    frames: Sequence[Frame]
    locals: Sequence[dict[str, tuple[list[Any], PyTreeDef]]]
    options: dict[str, Any]

    def __call__(self, *values: Any) -> None:
        """Run the debugger on the frames."""
        frames = [
            frame.with_locals({name: self._value(*held, values) for name, held in found.items()})
            for frame, found in zip(self.frames, self.locals, strict=True)
        ]
        Debugger(frames, _lock, **self.options).run()

    def _value(self, leaves: list[Any], tree: PyTreeDef, values: Sequence[Any]) -> Any:
        return tree_unflatten(
            tree, [values[x.number] if isinstance(x, _Place) else x for x in leaves]
        )


class _Unflattened:
    """Stands for a value that is not a pytree."""

    def __repr__(self) -> str:
        return "<cant_flatten>"


class _Recorder:
    """Reads frames, and numbers their tracers."""

    def __init__(self) -> None:
        self.tracers: list[Tracer] = []
        self._places: dict[int, _Place] = {}

    def held(self, value: Any) -> tuple[list[Any], PyTreeDef]:
        """Return the leaves and the structure of a value, with tracers replaced by places."""
        try:
            leaves, tree = tree_flatten(value)
        except Exception:  # noqa: BLE001, a class of the user's that is not a pytree after all
            return tree_flatten(_Unflattened())
        return [self._leaf(x) for x in leaves], tree

    def _leaf(self, x: Any) -> Any:
        if not isinstance(x, Tracer):
            return x
        if not x.owner.live or type(x.aval) is not ShapedArray:
            return f"<{x.aval}, without a value here>"
        place = self._places.get(id(x))
        if place is None:
            place = self._places[id(x)] = _Place(len(self.tracers))
            self.tracers.append(x)
        return place


def _frames(first: types.FrameType | None, *, of_users: bool, most: int | None) -> list[Any]:
    found: list[types.FrameType] = []
    while first is not None and (most is None or len(found) < most):
        if not of_users or not is_internal(first.f_code.co_filename):
            found.append(first)
        first = first.f_back
    return found


@api_boundary
def breakpoint(
    *,
    backend: str | None = None,
    filter_frames: bool = True,
    num_frames: int | None = None,
    ordered: bool = False,
    token: Any = None,
    **kwargs: Any,
) -> Any:
    """Stop in a program, in a terminal: look at the frames of this call and at their arrays.

    `filter_frames` leaves out kiln's own frames, and `num_frames` all but the innermost ones.
    `ordered` breakpoints and prints follow the program's order. With a `token`, a pytree of arrays,
    the program stops when they are computed; they are returned, and must be used. `stdin` and
    `stdout` are used in place of the terminal.

    Raises: ValueError for another `backend`, and for `ordered` with a `token`; RuntimeError, when
        the program runs, without a terminal.
    """
    if backend not in BACKENDS:
        raise ValueError(
            three_lines(
                f"debug.breakpoint(backend={backend!r}) at {current_source()}",
                "there is no such debugger",
                "leave it out, or use 'cli', the one in a terminal",
            )
        )
    if token is not None and ordered:
        raise ValueError(
            three_lines(
                f"debug.breakpoint(token=..., ordered=True) at {current_source()}",
                "`ordered` and `token` are mutually exclusive arguments.",
                "leave one of them out",
            )
        )
    found = _frames(sys._getframe(1), of_users=filter_frames, most=num_frames)
    recorder = _Recorder()
    frames = [Frame.of(frame) for frame in found]
    locals_ = [
        {name: recorder.held(value) for name, value in frame.f_locals.items()} for frame in found
    ]
    recorded = _Recorded(frames, locals_, kwargs)
    if token is None:
        debug_callback(recorded, *recorder.tracers, ordered=ordered)
        return None

    def passed_on(token: Any, *values: Any) -> Any:
        recorded(*values)
        return token

    given = [stop_gradient(x) for x in recorder.tracers]
    kept = tree_map(stop_gradient, token)
    return pure_callback(passed_on, kept, kept, *given, vmap_method="sequential")
