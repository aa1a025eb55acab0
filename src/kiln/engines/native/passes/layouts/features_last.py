"""Layouts of convolutional networks: features last, from layer to layer.

Convolutions are products of positions by features. With features last their results are written as
they are computed, their operands read as they are, and the shares of two threads are contiguous.
Arrays that only convolutions, products and nests access change their layout; what a program is
given, and what it returns, keeps it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.buffers import accesses, reads, writes
from kiln.engines.native.loop_ir.convolutions import (
    FEWEST_FEATURES,
    MANY_FEATURES,
    MANY_TERMS,
    Window,
    is_first,
    last,
    window_of,
)
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.statements import (
    Axis,
    Buffer,
    Function,
    Index,
    Kernel,
    Nest,
    Place,
    Role,
    Statement,
    walk,
)
from kiln.engines.native.passes.products.chains import Numbers, numbers_of
from kiln.engines.native.passes.rebuilding import with_places
from kiln.ir.sizes.size import Dim

LANES = 16
"""Features are computed in vectors of so many."""
ONE_VECTOR = 0.8
"""The speed of a product of one vector of features."""
SHARED = 0.95
"""The same if neighbors on a line share what they read: of 3 or 5 elements."""
BY_PLANES = 0.81
"""The speed with features first that are the rows of a product, positions its columns."""
TURNED = 0.93
"""The speed with features first of a result that is computed with features last, and transposed."""
HALF = 0.65
"""The speed of a product of which only one array changes: the other is packed, transposed."""
AS_FAST = 1.08
"""Layouts change if convolutions take at most this many times as long: nests gain."""


class Shape(NamedTuple):
    """What an array holds: `space` positions of `features`, of `items`."""

    items: int
    features: int
    space: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.items * self.features * self.space


class Digits(NamedTuple):
    """The numbers of an item, a feature and a position, or what one step along an axis adds."""

    item: int
    feature: int
    space: int


def speed(window: Window, is_last: bool) -> float:
    """Return how fast a convolution is with features last, or first, as a part of the limit."""
    vectors = -(-window.features // LANES)
    of_one = SHARED if window.shares_elements else ONE_VECTOR
    by_lines = window.features / (vectors * LANES) * (of_one if vectors == 1 else 1)
    if is_last:
        return by_lines
    is_turned = window.features >= MANY_FEATURES and window.terms >= MANY_TERMS
    return by_lines * TURNED if is_turned else BY_PLANES


Windows = dict[Kernel, Window]


def lay_out(function: Function) -> None:
    """Let convolutional networks have their features last."""
    windows = {
        each: window
        for each in walk(function.body)
        if isinstance(each, Kernel) and (window := window_of(each)) is not None
        if window.is_plain
    }
    if not any(speed(w, is_last=True) > speed(w, is_last=False) for w in windows.values()):
        return
    shapes = _Networks(function, windows).shapes()
    if shapes:
        _Rewriting(shapes, windows).run(function.body)


def _digits(shape: Shape, step: Dim) -> Digits | None:
    """Divide the step of an axis into digits, of which one is not zero."""
    if is_named(step) or step < 0:
        return None
    if step % (shape.features * shape.space) == 0:
        return Digits(int(step) // (shape.features * shape.space), 0, 0)
    if step % shape.space == 0:
        return Digits(0, int(step) // shape.space, 0)
    return Digits(0, 0, int(step)) if step < shape.space else None


def _places(shape: Shape, index: Index) -> tuple[Digits, dict[Axis, Digits]] | None:
    """Return the digits of an element, and what a step along each axis adds to them.

    None unless no digit can become too large.
    """
    if index.operands or is_named(index.const) or index.const < 0:
        return None
    item, rest = divmod(int(index.const), shape.features * shape.space)
    first = Digits(item, *divmod(rest, shape.space))
    most, steps = list(first), {}
    for axis, factor in index.axes():
        step = _digits(shape, factor)
        if step is None or is_named(axis.size):
            return None
        steps[axis] = step
        most = [m + s * (int(axis.size) - 1) for m, s in zip(most, step, strict=True)]
    return (first, steps) if all(m < n for m, n in zip(most, shape, strict=True)) else None


class _Networks:
    """Finds the arrays that change their layout.

    Arrays that one nest accesses are of one network: all of them change, or none.
    """

    def __init__(self, function: Function, windows: Windows) -> None:
        self.function = function
        self.windows = windows
        self.found: dict[Buffer, Shape] = {}
        self.refused: set[Buffer] = set()
        self.network: dict[Buffer, Buffer] = {}
        self.products: list[_Product] = []

    def shapes(self) -> dict[Buffer, Shape]:
        """Return the shapes of all arrays that change."""
        statements = list(walk(self.function.body))
        for each in statements:
            if isinstance(each, Kernel) and each in self.windows:
                self._see_window(each, self.windows[each])
        nests = [each for each in statements if isinstance(each, Nest)]
        count = -1
        while count != len(self.found):
            count = len(self.found)
            for nest in nests:
                self._see_nest(nest)
        for each in statements:
            if isinstance(each, Nest):
                self._check_nest(each)
            elif isinstance(each, Kernel) and each not in self.windows:
                self._check_product(each)
            elif not isinstance(each, Kernel):
                own = () if each.blocks else {*reads(each), *writes(each)}
                self.refused.update(own)
        self.refused.update(self.function.outputs)
        bad = {self._root(buffer) for buffer in self.refused if buffer in self.found}
        bad |= {root for root in map(self._root, self.found) if not self._is_worth_it(root)}
        return {x: shape for x, shape in self.found.items() if self._root(x) not in bad}

    def _root(self, buffer: Buffer) -> Buffer:
        while (above := self.network.get(buffer, buffer)) is not buffer:
            buffer = above
        return buffer

    def _join(self, buffers: Sequence[Buffer]) -> None:
        for buffer in buffers[1:]:
            self.network[self._root(buffer)] = self._root(buffers[0])

    def _suppose(self, buffer: Buffer, shape: Shape) -> bool:
        """Record the shape of an array; return whether it is new."""
        if buffer in self.found:
            if self.found[buffer] != shape:
                self.refused.add(buffer)
            return False
        if buffer.role is not Role.TEMP or is_named(buffer.size) or buffer.size != shape.size:
            return False
        self.found[buffer] = shape
        return True

    def _see_window(self, kernel: Kernel, window: Window) -> None:
        (operand, weights), (result,) = kernel.operands, kernel.results
        self.refused.add(weights.buffer)
        is_short = window.features < FEWEST_FEATURES or window.taps == 1
        for place, sizes, spec in (
            (operand, window.operand, window.operand_spec),
            (result, window.result, window.result_spec),
        ):
            shape = Shape(sizes[0], sizes[1], math.prod(sizes[2:]))
            if is_short or not is_first(spec) or place.index != Index():
                self.refused.add(place.buffer)
            else:
                self._suppose(place.buffer, shape)

    def _see_nest(self, nest: Nest) -> None:
        """Infer the shapes of arrays from those of others that a nest accesses."""
        known = [(b, i) for b, i in accesses(nest) if b in self.found]
        if not known:
            return
        shape = self.found[known[0][0]]
        for axis, step in self._feature_axes(known).items():
            for buffer, index in accesses(nest):
                factor = index.factor(axis)
                if buffer in self.found or is_named(factor) or factor <= 1 or factor % step:
                    continue
                space = int(factor) // step
                if is_named(buffer.size) or buffer.size % (shape.items * space):
                    continue
                features = int(buffer.size) // (shape.items * space)
                self._suppose(buffer, Shape(shape.items, features, space))

    def _feature_axes(self, known: Sequence[tuple[Buffer, Index]]) -> dict[Axis, int]:
        """Return the axes along which features are counted, and how many a step is."""
        found: dict[Axis, int] = {}
        for buffer, index in known:
            places = _places(self.found[buffer], index)
            for axis, step in () if places is None else places[1].items():
                if step.feature:
                    found[axis] = step.feature
        return found

    def _check_nest(self, nest: Nest) -> None:
        known = [(b, i) for b, i in accesses(nest) if b in self.found]
        if not known:
            return
        buffers = [buffer for buffer, _ in known]
        self._join(buffers)
        axes = self._feature_axes(known)
        others = [index for buffer, index in accesses(nest) if buffer not in self.found]
        # Others are read along the features: these must be contiguous there, too.
        if (
            nest.ordered
            or any(_places(self.found[buffer], index) is None for buffer, index in known)
            or any(index.factor(axis) not in (0, 1) for index in others for axis in axes)
        ):
            self.refused.update(buffers)

    def _check_product(self, kernel: Kernel) -> None:
        product = _Product.of(kernel, self.found)
        if product is None:
            self.refused.update({*reads(kernel), *writes(kernel)})
        else:
            self.products.append(product)

    def _is_worth_it(self, root: Buffer) -> bool:
        """Tell whether what a network consists of is as fast with features last."""
        before = after = 0.0
        for kernel, window in self.windows.items():
            is_read, is_made = self._are_of(root, kernel.operands[0], kernel.results[0])
            if is_read or is_made:
                work = math.prod(window.result) * window.terms
                before += work / speed(window, is_last=False)
                after += work / (speed(window, is_last=True) * (1 if is_made else TURNED))
        if after > AS_FAST * before or after == 0:
            return False
        for kernel, of, *changes in self.products:
            if any(self._are_of(root, kernel.operands[1], kernel.results[0])):
                work = of.batch * of.m * of.n * of.k
                before += work
                after += work if all(changes) else work / HALF
        return after <= AS_FAST * before

    def _are_of(self, root: Buffer, *places: Place) -> list[bool]:
        buffers = [place.buffer for place in places]
        return [buffer in self.found and self._root(buffer) is root for buffer in buffers]


class _Product(NamedTuple):
    """A product of weights by the features of each position, which has arrays that change."""

    kernel: Kernel
    numbers: Numbers
    reads_last: bool
    writes_last: bool

    @staticmethod
    def of(kernel: Kernel, shapes: dict[Buffer, Shape]) -> _Product | None:
        """Return a product with such arrays; None if it has none, or is something else."""
        numbers = numbers_of(kernel)
        if numbers is None:
            return None
        left, right = kernel.operands
        (made,) = kernel.results
        items, m, n, k = numbers.batch, numbers.m, numbers.n, numbers.k
        reads_last, writes_last = right.buffer in shapes, made.buffer in shapes
        if (
            left.buffer in shapes
            or not (reads_last or writes_last)
            or numbers.transpose_b
            or (items > 1 and (numbers.a_step, numbers.b_step) != (0, k * n))
            or (reads_last and (right.index, shapes[right.buffer]) != (Index(), (items, k, n)))
            or (writes_last and (made.index, shapes[made.buffer]) != (Index(), (items, m, n)))
        ):
            return None
        return _Product(kernel, numbers, reads_last, writes_last)

    def rewritten(self) -> Kernel:
        """Return the product of arrays with features last."""
        of = self.numbers
        items, m, n, k, transpose_a = of.batch, of.m, of.n, of.k, of.transpose_a
        weights, x = self.kernel.operands
        if self.writes_last:
            operands, swapped = [x, weights], [int(not self.reads_last), int(not transpose_a)]
            numbers = [items, n, m, k, *swapped, k * n, 0, n * m, 0]
            if self.reads_last:
                numbers = [1, items * n, m, k, *swapped, 0, 0, items * n * m, 0]
        else:
            operands = [weights, x]
            numbers = [items, m, n, k, transpose_a, 1, 0, k * n, m * n, 0]
        kernel = self.kernel
        return Kernel(kernel.symbol, operands, kernel.results, numbers, kernel.source)


class _Rewriting:
    """Changes the layout of arrays."""

    def __init__(self, shapes: dict[Buffer, Shape], windows: Windows) -> None:
        self.shapes = shapes
        self.windows = windows

    def run(self, statements: list[Statement]) -> None:
        """Change it in all statements."""
        for i, statement in enumerate(statements):
            for block in statement.blocks:
                self.run(block)
            if isinstance(statement, Nest):
                statements[i] = self._nest(statement)
            elif isinstance(statement, Kernel):
                statements[i] = self._kernel(statement)

    def _moved(self, buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        shape = self.shapes.get(buffer)
        places = None if shape is None else _places(shape, index)
        if shape is None or places is None:
            return buffer, index

        def place(digits: Digits) -> int:
            item = digits.item * shape.features * shape.space
            return item + digits.space * shape.features + digits.feature

        first, steps = places
        return buffer, Index(place(first), [(axis, place(step)) for axis, step in steps.items()])

    def _nest(self, nest: Nest) -> Nest:
        known = [(b, i) for b, i in accesses(nest) if b in self.shapes]
        if not known:
            return nest
        features: set[Axis] = set()
        for buffer, index in known:
            places = _places(self.shapes[buffer], index)
            assert places is not None
            features.update(axis for axis, step in places[1].items() if step.feature)
        axes = sorted(nest.axes, key=features.__contains__)
        return with_places(nest, axes, self._moved)

    def _kernel(self, kernel: Kernel) -> Kernel:
        window = self.windows.get(kernel)
        if window is None:
            product = _Product.of(kernel, self.shapes)
            return kernel if product is None else product.rewritten()
        (operand, _), (result,) = kernel.operands, kernel.results
        spec = last(len(window.operand))
        if operand.buffer in self.shapes:
            sizes = window.operand
            window = window._replace(operand=(sizes[0], *sizes[2:], sizes[1]), operand_spec=spec)
        if result.buffer in self.shapes:
            sizes = window.result
            window = window._replace(result=(sizes[0], *sizes[2:], sizes[1]), result_spec=spec)
        return Kernel(kernel.symbol, kernel.operands, kernel.results, window.numbers, kernel.source)
