"""What tracing found for one call signature, and what runs it for one wrapper.

A `Recording` belongs to a function, and may be shared by all functions of the same content. An
`Entry` belongs to one wrapper: it runs the recording as that wrapper's options request.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from kiln.base.lazy import discharge, references
from kiln.base.named_tuples import NamedTuple
from kiln.content.by_content import Slots, constants_from
from kiln.content.fingerprint import Content
from kiln.core.arrays.array import ConcreteArray, copied
from kiln.core.ref import Ref
from kiln.core.trace import Tracer, state
from kiln.execution.compilation import CachedProgram
from kiln.execution.placement import PlacementRequest, Placer, Run
from kiln.ir.analysis.products import has_products
from kiln.ir.effects import HELD
from kiln.ir.jaxpr import Jaxpr, has_refs, takes_refs
from kiln.ir.sizes.size import Size
from kiln.ir.sizes.values import is_nonzero
from kiln.jit.compiler_options import Settings
from kiln.jit.history import History
from kiln.jit.signatures.explain import Record


class Origin(NamedTuple):
    """Everything that a recording depends on.

    `content` is that of the function and the static arguments; `slots` say which of the content's
    arrays became constants. `function` is the content of the function alone.
    """

    content: Hashable
    slots: Slots
    function: Hashable


def _is_temporary(x: Any) -> bool:
    return isinstance(x, Tracer) or (type(x) is Ref and x.owner is not state.root)


class Recording:
    """The result of tracing a function for one signature.

    `jaxpr` takes the closed-over `consts` as leading inputs. `static` holds the Python values that
    the function returned along with arrays, if any. `assumed` are the assumptions about named sizes
    (`ir/sizes/assumptions.py`). If axes have names, `general` is the program for all sizes, from
    which `jaxpr` was specialized for these `sizes`; `named_axes` has pairs of an axis and the
    number of its name, for each leaf, and `conditions` are the sizes that must not be 0. `late`
    holds the recipes of the last inputs of `jaxpr`, which every call supplies (`late.py`). `origin`
    is None if the program depends on more than content. `record` is the explanation that still
    lacks the compile time, if one was requested. `placers`, one for each placement request, are
    shared by all recordings of this program. A recording that closes over tracers `is_temporary`:
    it dies with their trace.
    """

    __slots__ = (
        "__weakref__",
        "assumed",
        "conditions",
        "consts",
        "general",
        "is_temporary",
        "jaxpr",
        "late",
        "name",
        "named_axes",
        "origin",
        "out_tree",
        "placers",
        "record",
        "sizes",
        "static",
    )

    def __init__(
        self, jaxpr: Jaxpr, consts: list[Any], out_tree: Any, name: str, static: Any = None
    ) -> None:
        self.jaxpr = jaxpr
        self.consts = consts
        self.out_tree = out_tree
        self.name = name
        self.static = static
        self.assumed: frozenset[Hashable] = frozenset()
        self.conditions: tuple[Size, ...] = ()
        self.general: Jaxpr | None = None
        self.sizes: dict[str, int] = {}
        self.named_axes: tuple[tuple[tuple[int, int], ...], ...] = ()
        self.late: tuple[Hashable, ...] = ()
        self.origin: Origin | None = None
        self.record: Record | None = None
        self.placers: dict[PlacementRequest, Placer] = {}
        self.is_temporary = bool(consts) and any(map(_is_temporary, consts))

    def holds_for(self, sizes: Mapping[str, int]) -> bool:
        """Tell whether decisions that were made for all sizes hold for these."""
        return all(is_nonzero(each, sizes) for each in self.conditions)

    def with_consts(self, consts: list[Any]) -> Recording:
        """Return the same program over other closed-over values."""
        made = Recording(self.jaxpr, consts, self.out_tree, self.name, self.static)
        made.assumed, made.general, made.late = self.assumed, self.general, self.late
        made.sizes, made.named_axes = self.sizes, self.named_axes
        made.conditions = self.conditions
        made.origin, made.placers = self.origin, self.placers
        return made

    def for_operands(self, operands: list[ConcreteArray]) -> Recording:
        """Return a recording shared by content as that of one function, with its arrays."""
        assert self.origin is not None
        if not self.consts:
            return self
        return self.with_consts(constants_from(self.origin.slots, operands))

    def follows_from(self, content: Content) -> bool:
        """Tell whether a function with this content would give this program if traced now."""
        origin = self.origin
        if origin is None or origin.function != content.without_options():
            return False
        count = len(content.operands)
        if any(number is not None and number >= count for number, _ in origin.slots):
            return False
        again = constants_from(origin.slots, content.operands)
        return all(a is b for a, b in zip(again, self.consts, strict=True))

    def consts_for(self, request: PlacementRequest) -> list[Any]:
        """Return the constants, copied where the same array may also be donated.

        Only an array of the size of a donated input can be.
        """
        types = [self.jaxpr.in_avals[i].physical() for i in request.donated]
        sizes = {a.size * a.dtype.itemsize for a in types}
        return [
            copied(x) if isinstance(x, ConcreteArray) and x.nbytes in sizes else x
            for x in self.consts
        ]

    def placer_for(
        self, request: PlacementRequest, keep_unused: bool, settings: Settings
    ) -> Placer:
        """Return the placer for a request, created once."""
        found = self.placers.get(request)
        if found is None:
            made = self.new_placer(request, keep_unused, settings, constants=self._constants)
            found = self.placers.setdefault(request, made)
        return found

    @property
    def _constants(self) -> int:
        """How many inputs are arrays from which calls may compute something once."""
        is_plain = not takes_refs(self.jaxpr) and self.general is None
        if not is_plain or not all(type(x) is ConcreteArray for x in self.consts):
            return 0
        return len(self.consts) if self.consts and has_products(self.jaxpr) else 0

    def new_placer(
        self,
        request: PlacementRequest,
        keep_unused: bool,
        settings: Settings,
        *,
        constants: int = 0,
    ) -> Placer:
        """Return a placer that nothing else uses, of a program whose first inputs are constants."""
        return Placer(
            self._without_refs(),
            self.name,
            hidden=len(self.consts),
            request=request,
            keep_unused=keep_unused,
            compiler_options=settings,
            general=self.general,
            sizes=self.sizes,
            constants=constants,
        )

    def _without_refs(self) -> Jaxpr:
        if takes_refs(self.jaxpr):
            ordered: Jaxpr = references.in_order(self.jaxpr)
            return ordered
        return discharge.discharged(self.jaxpr) if has_refs(self.jaxpr) else self.jaxpr

    @property
    def programs(self) -> list[CachedProgram]:
        """The compiled forms that exist."""
        return [p for placer in list(self.placers.values()) for p in placer.programs]


class Entry:
    """What one wrapper runs for one signature.

    `placer` runs the recording over `consts`; `history` accumulates the time to prepare it.
    `is_bound` if even outside transformations it is applied as an equation: it takes references, or
    closes over tracers. `is_simple` unless the runtime cannot recognize calls for this entry.
    """

    __slots__ = (
        "_over",
        "consts",
        "history",
        "holds",
        "is_bound",
        "is_simple",
        "out_is_leaf",
        "placer",
        "recording",
    )

    def __init__(self, recording: Recording, placer: Placer, history: History) -> None:
        self.recording = recording
        self.placer = placer
        self.history = history
        request = placer.request
        self.consts = recording.consts_for(request) if request.donated else recording.consts
        self.out_is_leaf: bool = recording.out_tree.is_leaf
        self.is_bound = recording.is_temporary or takes_refs(recording.jaxpr)
        self.is_simple = True
        self._over: dict[Run, Run] = {}
        # Whether rules in it, which run later, write to values that it is given.
        self.holds = HELD in recording.jaxpr.effects

    @property
    def direct(self) -> Run | None:
        """What runs the program on the first device, once a call belonged there."""
        found = self.placer.direct
        return found if found is None or not self.placer.constants else self._over_constants(found)

    def run_for(self, values: Sequence[Any]) -> Run:
        """Return what runs the program for such arguments, compiling it if necessary."""
        found = self.placer.run_for(values, self.note_preparation)
        return self._over_constants(found) if self.placer.constants else found

    def _over_constants(self, run: Run) -> Run:
        found = self._over.get(run)
        if found is None:
            # Of two threads, one computes in vain what is kept.
            found = self._over.setdefault(run, self.placer.over(run, self.consts))
        return found

    def note_preparation(self, seconds: float) -> None:
        """Record how long the first run took to compile."""
        self.history.compile_seconds += seconds
        record = self.recording.record
        if record is not None:
            record.compile_seconds = seconds
            record.compiled_at = time.perf_counter() - seconds
            self.recording.record = None
