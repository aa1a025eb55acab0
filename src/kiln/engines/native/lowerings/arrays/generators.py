"""Generators with explicit state: Philox and Threefry on the counters of a state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kiln.engines.native.building.builder import Builder, Lowering
from kiln.engines.native.building.element_types import machine_type, real
from kiln.engines.native.loop_ir.addresses import position
from kiln.engines.native.loop_ir.extents import at_least
from kiln.engines.native.loop_ir.layout import Layout
from kiln.engines.native.loop_ir.scalars import Value, bits, is_float
from kiln.engines.native.loop_ir.statements import Axis, Index, Store, axis_index
from kiln.engines.native.lowerings.arrays.random_bits import hashed, joined, words
from kiln.ir.operation import Operation
from kiln.ir.sizes.size import Dim, product
from kiln.ir.types import ShapedArray
from kiln.ops.random import generators as ops
from kiln.ops.random import philox

Out = Sequence[ShapedArray]


def _state(b: Builder, key: Layout) -> tuple[Value, Value]:
    """Return the key and the counter of a state, as u64."""
    if key.buffer.dtype == "u64":
        return real(b.read(key, [Index()])), real(b.read(key, [Index(1)]))
    parts = [real(b.read(key, [Index(i)])) for i in range(4)]
    return joined(*parts[:2]), joined(*parts[2:])


def _advanced(b: Builder, out: ShapedArray, key: Layout, used: Dim) -> Layout:
    made = b.room(out)
    start, counter = _state(b, key)
    state = [start, counter + used]
    if made.buffer.dtype == "u32":
        state = [word for each in state for word in words(each)]
    b.nest((), [Store(made.buffer, Index(i), x) for i, x in enumerate(state)])
    return made


def _rng_bit_generator(
    b: Builder,
    out: Out,
    key: Layout,
    *,
    shape: Any,
    dtype: Any,
    algorithm: ops.RandomAlgorithm,
) -> list[Layout]:
    made = b.room(out[1])
    if made.size == 0:
        return [key, made]
    draw = _threefry if algorithm is ops.RandomAlgorithm.RNG_THREE_FRY else _philox
    used = draw(b, made, key)
    return [_advanced(b, out[0], key, used), made]


def _philox(b: Builder, made: Layout, key: Layout) -> Dim:
    """Hash a counter for every few elements; return the number of counters."""
    wide = made.buffer.dtype == "u64"
    each = 2 if wide else 4
    blocks: Dim = (made.size + each - 1) // each
    axis = b.axis(0, blocks)
    start, counter = _state(b, key)
    number = counter + position(b.scope, axis_index(axis), "u64")
    carry = number.lt(counter).convert("u64")
    hashed_words = _philox_bits(words(start), [*words(number), *words(start + carry)])
    found = [joined(*hashed_words[:2]), joined(*hashed_words[2:])] if wide else hashed_words
    effects = []
    for i, word in enumerate(found):
        at = axis_index(axis) * each + i
        mask = None
        if not at_least(made.size, blocks * each - each + i + 1):
            mask = position(b.scope, at).lt(made.size)
        effects.append(Store(made.buffer, at, word.convert(made.buffer.dtype), mask))
    b.nest([axis], effects)
    return blocks


def _philox_bits(key: tuple[Value, Value], counters: Sequence[Value]) -> list[Value]:
    """Hash a counter of four words, the lowest first, as `ops/random/philox.py`."""
    a, b, c, d = counters
    first, second = key
    for _ in range(philox.ROUNDS):
        high, low = [], []
        for factor, x in zip(philox.MULTIPLIERS, (a, c), strict=True):
            product = x.convert("u64") * factor
            low.append(product.convert("u32"))
            high.append((product >> 32).convert("u32"))
        a, b = high[1] ^ b ^ first, low[1]
        c, d = high[0] ^ d ^ second, low[0]
        first = first + philox.INCREMENTS[0]
        second = second + philox.INCREMENTS[1]
    return [a, b, c, d]


def _threefry(b: Builder, made: Layout, key: Layout) -> Dim:
    """Hash a counter for each element, or each pair along an axis; return their number."""
    wide, shape = made.buffer.dtype == "u64", made.shape
    along = ops.halved_axis(shape)
    sizes = list(shape)
    if not wide and shape:
        sizes[along] = (shape[along] + 1) // 2
    axes: list[Axis] = [*b.axes(sizes)]
    start, counter = _state(b, key)
    flat = Index()
    for axis in axes:
        flat = flat * axis.size + axis_index(axis)
    number = counter + position(b.scope, flat, "u64")
    pair = hashed(*words(start), *words(number))
    if wide:
        b.nest(axes, b.stores(made, axes, joined(*pair)))
        return product(sizes)
    kind = made.buffer.dtype
    if not shape:
        b.nest(axes, b.stores(made, axes, pair[0].convert(kind)))
        return 1
    effects: list[Store] = []
    for i, word in enumerate(pair):
        at: list[Axis | Index] = [*axes]
        at[along] = place = axis_index(axes[along]) * 2 + i
        mask = None
        if not at_least(shape[along], 2 * sizes[along] - 1 + i):
            mask = position(b.scope, place).lt(shape[along])
        effects += b.stores(made, at, word.convert(kind), mask)
    b.nest(axes, effects)
    return product(sizes)


def _rng_uniform(b: Builder, out: Out, low: Layout, high: Layout, *, shape: Any) -> Layout:
    """Draw bits from counters that no other call gets, and scale them."""
    kind = machine_type(out[0].dtype)
    wide = bits(kind) == 64
    drawn = b.space(b.sizes(out[0]), ops.UINT64 if wide else ops.UINT32)
    if drawn.size == 0:
        return b.room(out[0])
    state = b.space((2,), ops.UINT64)
    each = 2 if wide else 4
    b.kernel("kiln_draw_counters", [], [state], [(drawn.size + each - 1) // each])
    _philox(b, drawn, state)
    return b.map(out[0], _within_float if is_float(kind) else _within_integer, drawn, low, high)


def _within_float(word: Value, low: Value, high: Value) -> Value:
    wide = "f64" if low.dtype == "f64" else "f32"
    digits = 53 if wide == "f64" else 24
    unit = (word >> (bits(word.dtype) - digits)).convert(wide) * 2.0**-digits
    drawn = unit.convert(low.dtype) * (high - low) + low
    # Rounding may reach the excluded bound.
    return drawn.eq(high).select(low, drawn)


def _within_integer(word: Value, low: Value, high: Value) -> Value:
    kind = word.dtype
    given = low.lt(high)
    count = given.select(high.bitcast(kind) - low.bitcast(kind), 1)
    within = word.scope.op("rem", kind, word, count) + low.bitcast(kind)
    return given.select(within, word).bitcast(low.dtype)


LOWERINGS: dict[Operation, Lowering] = {
    ops.rng_bit_generator_p: _rng_bit_generator,
    ops.rng_uniform_p: _rng_uniform,
}
