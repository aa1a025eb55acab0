"""Programs with checks: which results and indices are watched while a function is built."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from kiln.base.source import Source
from kiln.engines.native.building.body import Body
from kiln.engines.native.loop_ir.buffers import everything
from kiln.engines.native.loop_ir.checks import CHECKED, WITHIN, Around, Site
from kiln.engines.native.loop_ir.extents import at_least, is_named
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, bits, is_float, is_signed
from kiln.engines.native.loop_ir.statements import Kernel, Nest, Role, Store
from kiln.ir.jaxpr import Eqn
from kiln.ir.sizes.size import Dim, minimum


class Checking:
    """The kinds of checks of a program, and the sites found so far."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self.kinds = kinds
        self.sites: list[Site] = []
        self.around: list[Around] = []
        self.eqn: Eqn | None = None
        """The equation of the program that is being lowered."""

    @contextlib.contextmanager
    def inside(self, name: str, source: Source | None) -> Iterator[None]:
        """Attribute checks added until the context exits to a loop."""
        self.around.append(Around(name, source))
        try:
            yield
        finally:
            self.around.pop()

    @contextlib.contextmanager
    def nothing(self) -> Iterator[None]:
        """Add no checks until the context exits: what is computed there may be discarded."""
        kinds, self.kinds = self.kinds, frozenset()
        try:
            yield
        finally:
            self.kinds = kinds

    def not_nan(self, b: Body, number: int, x: Value) -> Value:
        """Return a part of a result of the equation that is lowered, watched for nan if asked."""
        if "nan" not in self.kinds or self.eqn is None or not is_float(x.dtype):
            return x
        return b.scope.node(CHECKED, x.dtype, (x,), (self._site(b, self.eqn, number, "nan"),))

    def in_bounds(self, b: Body, start: Value, last: Dim, axis: int, size: Dim) -> Value:
        """Return an index, checked if indices are: whether it is from 0 to `last`."""
        if "index" not in self.kinds or self.eqn is None or _is_surely_within(start, last):
            return start
        number = self._site(b, self.eqn, 0, "index", axis, size, last)
        most = (1 << (bits(start.dtype) - is_signed(start.dtype))) - 1
        # Sizes are below 2**63.
        limit = last if is_named(last) and bits(start.dtype) == 64 else minimum(last, most)
        greatest = b.scope.constant(limit, start.dtype)
        return b.scope.node(WITHIN, start.dtype, (start, greatest), (number,))

    def result(self, b: Body, eqn: Eqn, number: int, x: Layout, start: int) -> Layout:
        """Return a result, watched for nan if requested; statements from `start` compute it.

        A nest that stores its elements stores them checked. The result of a reduction is copied by
        a nest that checks it; the result of a kernel, which is not fused, is checked by another
        nest.
        """
        buffer = x.buffer
        if "nan" not in self.kinds or eqn.primitive.region:
            return x
        if not is_float(buffer.dtype) or buffer.role is Role.CONST:
            return x
        writers = [each for each in b.body[start:] if buffer in everything(each)[1]]
        if not writers or x.size == 0:
            return x
        site = self._site(b, eqn, number, "nan")

        def checked(value: Value) -> Value:
            return b.scope.node(CHECKED, value.dtype, (value,), (site,))

        if all(isinstance(each, Kernel) for each in writers):
            axes = b.axes(x.shape)
            value = b.read(x, axes)
            effects: list[Store] = []
            for i, part in enumerate([value] if isinstance(value, Value) else value):
                # Only nans are rewritten, so that memory is otherwise only read.
                found = checked(part)
                effects.append(Store(buffer, b.element(x, axes) + i, found, found.ne(found)))
            b.nest(axes, effects)
            return x
        nests = [each for each in writers if isinstance(each, Nest) and each.is_map]
        if len(nests) < len(writers):
            made = b.space(x.shape, x.dtype)
            axes = b.axes(x.shape)
            value = b.read(x, axes)
            if not isinstance(value, Value):
                whole = type(value)(checked(value.re), checked(value.im))
                b.nest(axes, b.stores(made, axes, whole))
            else:
                b.nest(axes, b.stores(made, axes, checked(value)))
            return made
        for nest in nests:
            nest.effects[:] = [
                Store(buffer, effect.index, checked(effect.value), effect.mask)
                if effect.buffer is buffer and isinstance(effect, Store)
                else effect
                for effect in nest.effects
            ]
        return x

    def _site(self, b: Body, eqn: Eqn, result: int, kind: str, *bounds: Dim) -> int:
        operands = [v.aval for v in eqn.invars]
        name, aval = eqn.primitive.name, eqn.outvars[result].aval
        around = tuple(self.around)
        self.sites.append(Site(kind, name, operands, aval, b.source, around, *bounds))
        return len(self.sites) - 1


def _is_surely_within(start: Value, last: Dim) -> bool:
    if start.op != "constant":
        return False
    width = bits(start.dtype)
    is_negative = is_signed(start.dtype) and start.attr >> (width - 1)
    return not is_negative and at_least(last, start.attr)
