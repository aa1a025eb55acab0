"""Calls of Python functions: kernels that take the GIL, in program order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kiln.base.records import Record
from kiln.control.effects import callback as control
from kiln.control.effects.host_call import called, described, raise_failure
from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.loop_ir.callbacks import Callback
from kiln.engines.native.loop_ir.layout import Layout
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray

Out = Sequence[ShapedArray]
CALL = "kiln_call_python"


class _HostCall(Record, eq=False):
    """Calls a function, and checks the dtypes and shapes of what it returns."""

    callback: Any
    program: str
    results: Sequence[tuple[np.dtype[Any], tuple[int, ...]]]

    def __call__(self, *arrays: np.ndarray) -> Sequence[Any]:
        types = [(shape, dtype) for dtype, shape in self.results]
        # An exception raised while another is handled would keep that one alive, with everything it
        # refers to.
        try:
            found, failure = called(self.callback, arrays, types), None
        except BaseException as error:  # noqa: BLE001, described and raised again
            found, failure = [], described(error)
        if failure is not None:
            raise_failure(failure, f"running {self.program}")
        return found


def _call(b: Builder, out: Out, *xs: Layout, callback: Any, **_: Any) -> list[Layout]:
    made = [b.room(aval) for aval in out]
    number = len(b.callbacks)
    given, taken = ([(x.dtype, x.shape) for x in each] for each in (xs, made))
    b.callbacks.append(Callback(_HostCall(callback, b.name, taken), given, taken))
    b.kernel(CALL, xs, made, [number])
    return made


def _debug_callback(b: Builder, out: Out, *xs: Layout, callback: Any, **_: Any) -> list[Layout]:
    def effect(*arrays: Any) -> list[Any]:
        callback(*arrays)
        return []

    return _call(b, out, *xs, callback=effect)


LOWERINGS: dict[Operation, Lowering] = {
    control.debug_callback_p: _debug_callback,
    control.pure_callback_p: _call,
    control.io_callback_p: _call,
}
