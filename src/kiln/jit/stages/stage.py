"""What all stages of ahead-of-time compilation share: the types of arguments and results.

They are arranged as in the call: `in_tree` is the structure of `(args, kwargs)` without the static
arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from kiln.base.errors import three_lines
from kiln.base.records import Record
from kiln.base.source import current_source
from kiln.base.tree import PyTreeDef, tree_unflatten
from kiln.execution.placement import Placer
from kiln.ir.shardings.sharding import Sharding
from kiln.ir.types import ShapedArray
from kiln.jit.entry import Recording
from kiln.jit.signatures.argument_binding import CallForm
from kiln.jit.signatures.struct import struct_of

Committed = tuple[Sharding | None, ...]
"""The explicit placement of a program's inputs, closed-over constants first."""


class ArgInfo(Record):
    """The type of one argument, and whether it is donated."""

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[Any, ...]:
        """The shape."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The dtype."""
        return self._aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype is weak."""
        return self._aval.weak_type


class Stage:
    """The types and structures of arguments and results, common to all stages."""

    def __init__(
        self,
        recording: Recording,
        consts: Sequence[Any],
        placer: Placer,
        committed: Committed,
        form: CallForm,
    ) -> None:
        self._recording = recording
        self._consts = consts
        self._placer = placer
        self._places = committed
        self._form = form

    def _in_avals(self) -> list[ShapedArray]:
        return self._recording.jaxpr.in_avals[len(self._consts) :]

    def _arranged(self, leaves: Sequence[Any]) -> Any:
        return tree_unflatten(self.in_tree, [leaves[i] for i in self._form.order])

    def _results(self, leaves: Iterable[Any]) -> Any:
        return tree_unflatten(self._recording.out_tree, leaves)

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            three_lines(
                f"pickling or copying the {type(self).__name__} {self.fun_name} "
                f"at {current_source()}",
                "a program belongs to its process: it holds machine code and memory of constants",
                "pickle the jitted function, and lower and compile it again where it is loaded",
            )
        )

    @property
    def fun_name(self) -> str:
        """The function's name."""
        return self._recording.name

    @property
    def in_tree(self) -> PyTreeDef:
        """The structure of `(args, kwargs)` as the call was made, static arguments left out."""
        return self._form.in_tree

    @property
    def in_avals(self) -> Any:
        """The types of the arguments, as `(args, kwargs)`."""
        return self._arranged(self._in_avals())

    @property
    def args_info(self) -> Any:
        """Shape, dtype and donation of the arguments, as `(args, kwargs)`."""
        donated, hidden = self._placer.request.donated, len(self._consts)
        avals = enumerate(self._in_avals(), hidden)
        return self._arranged([ArgInfo(a, i in donated) for i, a in avals])

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """The numbers of the leaves of the arguments that are donated."""
        donated, hidden = self._placer.request.donated, len(self._consts)
        return tuple([at for at, i in enumerate(self._form.order) if i + hidden in donated])

    @property
    def out_tree(self) -> PyTreeDef:
        """The structure of the results."""
        tree: PyTreeDef = self._recording.out_tree
        return tree

    @property
    def out_avals(self) -> Any:
        """The types of the results."""
        return self._results(self._recording.jaxpr.out_avals)

    @property
    def out_info(self) -> Any:
        """The types of the results, as ShapeDtypeStructs."""
        return self._results(struct_of(a) for a in self._recording.jaxpr.out_avals)

    def _shown(self) -> tuple[str, list[str], list[str]]:
        """Return the function's name, and the types of arguments and results, for notebooks."""
        shown = self._in_avals(), self._recording.jaxpr.out_avals
        ins, outs = [[aval.str_short() for aval in avals] for avals in shown]
        return self.fun_name, ins, outs

    def __repr__(self) -> str:
        types = ", ".join(map(str, self._in_avals()))
        return f"<{type(self).__name__} {self.fun_name}({types})>"
