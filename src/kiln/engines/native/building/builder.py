"""From a jaxpr to loops: what lowerings build a function with.

An equation that only rearranges elements costs nothing, and one whose result is used once may be
computed there. Every other equation becomes loop nests or kernels with results of their own;
passes then fuse them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kiln.base.errors import UnsupportedPrimitive
from kiln.core.staging import stage_pure
from kiln.engines.native.building.body import Body
from kiln.engines.native.building.checking import Checking
from kiln.engines.native.building.delayed import MOST_DELAYED
from kiln.engines.native.building.element_types import Unsupported
from kiln.engines.native.loop_ir.callbacks import Callback
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.statements import Buffer, Function, Index, Role
from kiln.ir.jaxpr import Eqn, Jaxpr, Literal
from kiln.ir.operation import Operation
from kiln.ir.types import ShapedArray

Lowering = Callable[..., Any]


class Elementwise:
    """A lowering that calls `map` only: its result may be computed where it is used."""

    __slots__ = ("lower",)

    def __init__(self, lower: Lowering) -> None:
        self.lower = lower

    def __call__(self, *operands: Any, **params: Any) -> Any:
        """Lower an equation."""
        return self.lower(*operands, **params)


class Builder(Body):
    """Builds a function, equation by equation."""

    def __init__(
        self,
        name: str,
        lowerings: Mapping[Operation, Lowering],
        checks: frozenset[str] = frozenset(),
        *,
        is_batch_invariant: bool = False,
    ) -> None:
        super().__init__()
        self.name = name
        self.checking = Checking(checks)
        self.is_batch_invariant = is_batch_invariant
        self._is_expanding = False
        self.callbacks: list[Callback] = []
        self._lowerings = lowerings

    def inline(self, jaxpr: Jaxpr, operands: Sequence[Layout]) -> list[Layout]:
        """Add the equations of a jaxpr without constants; return its results."""
        self.settle(*operands)
        env: dict[Any, Layout] = dict(zip(jaxpr.invars, operands, strict=True))
        uses = Counter(v for eqn in jaxpr.eqns for v in eqn.invars if not isinstance(v, Literal))
        uses.update(v for v in jaxpr.outvars if not isinstance(v, Literal))

        def read(atom: Any) -> Layout:
            return self.literal(atom) if isinstance(atom, Literal) else env[atom]

        for eqn in jaxpr.eqns:
            given = [read(v) for v in eqn.invars]
            checking, outer = self.checking, (self.source, self.checking.eqn)
            if not self._is_expanding:
                # The equations of an expansion have no lines of user code.
                self.source, checking.eqn = eqn.source, eqn
            # A checked result is stored, so that the check runs where it is computed.
            is_elementwise = isinstance(self._lowerings.get(eqn.primitive), Elementwise)
            if is_elementwise and "nan" not in checking.kinds:
                results = self.delayed(eqn, given, uses[eqn.outvars[0]])
            else:
                self.settle(*given)
                start = len(self.body)
                results = self.equation(eqn, given)
                if checking.kinds and not self._is_expanding:
                    numbered = enumerate(results)
                    results = [checking.result(self, eqn, i, x, start) for i, x in numbered]
            env.update(zip(eqn.outvars, results, strict=True))
            self.source, checking.eqn = outer
        outs = [read(v) for v in jaxpr.outvars]
        self.settle(*outs)
        return outs

    def delayed(self, eqn: Eqn, operands: Sequence[Layout], uses: int) -> Sequence[Layout]:
        """Add an elementwise equation; if it is used once, it is computed where it is used."""
        # In a loop it may be hoisted, unless it is a part of another expression.
        self._delays = self._depth == 0
        results = self.equation(eqn, operands)
        self._delays = False
        known = self._delayed.get(results[0].buffer)
        if known is not None and (uses != 1 or known.equations >= MOST_DELAYED):
            self.settle(*results)
        return results

    def equation(self, eqn: Eqn, operands: Sequence[Layout]) -> Sequence[Layout]:
        """Add an equation by its lowering, or by the primitive's `expand`; return its results.

        Raises: Unsupported if it has neither.
        """
        primitive = eqn.primitive
        lowering = self._lowerings.get(primitive)
        if lowering is not None:
            avals = [v.aval for v in eqn.outvars]
            found = lowering(self, avals, *operands, **eqn.params)
            return found if primitive.multiple else [found]
        if not primitive.has("expand"):
            raise Unsupported(f"the primitive {primitive.name} has no native lowering")
        return self.expansion(primitive, [v.aval for v in eqn.invars], operands, eqn.params)

    def expansion(
        self,
        primitive: Operation,
        avals: Sequence[ShapedArray],
        operands: Sequence[Layout],
        params: Mapping[str, Any],
    ) -> Sequence[Layout]:
        """Add the expansion of a primitive for operands of these types; return its results.

        Raises: Unsupported if it has none for these parameters.
        """

        def expanded(*xs: Any) -> Sequence[Any]:
            results = primitive.expand(*xs, **params)
            return results if primitive.multiple else [results]

        try:
            jaxpr = stage_pure(expanded, avals, name=primitive.name)
        except UnsupportedPrimitive as error:
            # Its second line is the reason, as in all errors.
            raise Unsupported(str(error).splitlines()[1]) from None
        if primitive.region:
            return self.inline(jaxpr, operands)
        outer, self._is_expanding = self._is_expanding, True
        try:
            return self.inline(jaxpr, operands)
        finally:
            self._is_expanding = outer


def function_of(
    jaxpr: Jaxpr,
    name: str,
    lowerings: Mapping[Operation, Lowering],
    checks: frozenset[str] = frozenset(),
    *,
    is_batch_invariant: bool = False,
) -> Function:
    """Return a jaxpr without constants as loops, with checks of some kinds.

    With `is_batch_invariant` terms are added in an order that depends only on their number.

    Raises: Unsupported if a part of it cannot be compiled.
    """
    b = Builder(name, lowerings, checks, is_batch_invariant=is_batch_invariant)
    inputs = [b.room(v.aval, Role.INPUT) for v in jaxpr.invars]
    outputs: list[Buffer] = []
    for x, aval in zip(b.inline(jaxpr, inputs), jaxpr.out_avals, strict=True):
        outputs.append(_output(b, x, aval.physical(), outputs))
    given = [x.buffer for x in inputs]
    made = Function(
        name, b.scope, given, outputs, b.body, callbacks=b.callbacks, sites=b.checking.sites
    )
    made.recomputed = b.recomputed
    return made


def _output(b: Builder, x: Layout, aval: ShapedArray, others: list[Buffer]) -> Buffer:
    """Return a buffer that holds exactly the elements of a result."""
    is_whole = x.is_dense and b.place(x).index == Index() and x.shape == aval.shape
    whole = is_whole and x.buffer.size == x.size * (2 if x.dtype.kind == "c" else 1)
    if whole and x.buffer.role is not Role.CONST and x.buffer not in others:
        buffer: Buffer = x.buffer
        if buffer.role is Role.TEMP:
            buffer.role = Role.OUTPUT
        return buffer
    made = b.room(aval, Role.OUTPUT)
    b.write(made, x)
    return made.buffer  # type: ignore[no-any-return]
