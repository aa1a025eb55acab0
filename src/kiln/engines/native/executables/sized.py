"""Programs with named axes: one compiled code, and its arguments for given sizes."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from kiln.engines.native.executables.executable import NativeCode, NativeExecutable
from kiln.engines.native.loop_ir.callbacks import Callback
from kiln.engines.native.loop_ir.costs import MemoryAnalysis, costs
from kiln.engines.native.loop_ir.extents import Grain, evaluator
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.sizes.size import Dim, Size
from kiln.ir.sizes.values import evaluate

MOST = 1 << 62
"""More bytes than any array has."""

NamedType = tuple[np.dtype[Any], Dim]


class SizedExecutable:
    """Code for all sizes of the named axes of a program.

    `numbers` are the sizes that the code reads, in order.
    """

    __slots__ = ("_callbacks", "_dtypes", "_evaluate", "_taken", "code")

    final_stage = "loops"

    def __init__(
        self,
        code: NativeCode,
        operands: Sequence[NamedType],
        results: Sequence[NamedType],
        workspace: Dim,
        numbers: Sequence[Dim | Grain],
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.code = code
        self._taken = len(operands)
        self._callbacks = callbacks
        self._dtypes = [dtype for dtype, _ in (*operands, *results)]
        sizes = [size for _, size in (*operands, *results)]
        self._evaluate = evaluator([workspace, *sizes, *numbers], code.program.sizes)

    def for_sizes(self, sizes: Sequence[int]) -> NativeExecutable | None:
        """Return the program for sizes from 1 on; None if an array would be too large."""
        workspace, *numbers = self._evaluate(*sizes)
        if max(numbers, default=0) >= MOST or workspace >= MOST:
            return None
        count, taken = len(self._dtypes), self._taken
        types = list(zip(self._dtypes, numbers, strict=False))
        callbacks = self._callbacks
        if callbacks:
            env = dict(zip(self.code.program.sizes, sizes, strict=True))
            callbacks = [_for_sizes(each, env) for each in callbacks]
        return NativeExecutable(
            self.code, types[:taken], types[taken:], workspace, callbacks, numbers[count:], sizes
        )

    def __call__(self, buffers: Sequence[Any]) -> NoReturn:
        """Raise TypeError: sizes must be given first."""
        raise TypeError(
            f"a call of {self.code.name}\nits sizes are not given\ncall for_sizes(sizes)(buffers)"
        )

    def as_text(self, stage: str) -> str:
        """Return the program as `loops`, `llvm`, `asm`, `html` or `profile`.

        Raises: ValueError for another stage.
        """
        return self.code.as_text(stage)

    def size_in_bytes(self) -> int:
        """Return roughly the memory of the program: its object, loaded and kept, and its text."""
        return self.code.size_in_bytes()

    def out_shardings(self) -> list[Sharding]:
        """Return nothing: a placed program has no named axes."""
        return []

    def cost_analysis(self) -> dict[str, float | Size]:
        """Return the `flops` and `bytes accessed` of a call, by the names of sizes."""
        return costs(self.code.function)

    def memory_analysis(self) -> MemoryAnalysis:
        """Return the bytes of arguments, results and temporaries by the names of sizes; of code."""
        return self.code.memory_analysis()

    def explain_memory(self) -> str:
        """Return where buffers are, which share memory, and which copies are made and why."""
        return self.code.explain_memory({})

    def runtime_executable(self) -> SizedExecutable:
        """Return itself."""
        return self


def _for_sizes(callback: Callback, env: dict[str, int]) -> Callback:
    def known(types: Sequence[Any]) -> list[Any]:
        return [(dtype, tuple([evaluate(n, env) for n in shape])) for dtype, shape in types]

    operands, results = known(callback.operands), known(callback.results)
    function = dataclasses.replace(callback.function, results=results)  # type: ignore[type-var]
    return Callback(function, operands, results)
