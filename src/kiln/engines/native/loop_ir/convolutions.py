"""Convolutions as kernels: what their numbers mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from kiln.base.named_tuples import NamedTuple
from kiln.engines.native.loop_ir.extents import is_named
from kiln.engines.native.loop_ir.statements import Kernel
from kiln.ir.sizes.size import Dim

PACKED = "kiln_conv_packed_"
"""Convolutions by a kernel that `kiln_conv_pack_*` wrote."""
CONVOLUTIONS = ("kiln_conv_f32", "kiln_conv_f64", f"{PACKED}f32", f"{PACKED}f64")
Numbers = tuple[int, ...]
FEWEST_FEATURES = 8
MANY_FEATURES = 28
MANY_TERMS = 64
FEWEST_POSITIONS = 4
"""Of a line. `_runtime/linear/convolutions/by_lines.cc` has the same numbers."""


class Window(NamedTuple):
    """The numbers of a convolution (`kiln_conv_T`): sizes in memory order, and axes by meaning."""

    feature_groups: int
    batch_groups: int
    operand: Numbers
    kernel: Numbers
    result: Numbers
    operand_spec: Numbers
    kernel_spec: Numbers
    result_spec: Numbers
    rest: Numbers
    """Of each spatial axis its stride, low padding, dilation of the operand and of the kernel."""

    @property
    def numbers(self) -> list[int]:
        """The numbers as the kernel takes them."""
        sizes = (*self.operand, *self.kernel, *self.result)
        specs = (*self.operand_spec, *self.kernel_spec, *self.result_spec)
        groups = (self.feature_groups, self.batch_groups)
        return [len(self.operand) - 2, *groups, *sizes, *specs, *self.rest]

    @property
    def has_holes(self) -> bool:
        """Whether there are holes between the elements of the operand."""
        return any(dilation != 1 for dilation in self.rest[2::4])

    @property
    def taps(self) -> int:
        """The number of elements of the kernel in space."""
        return math.prod(self.kernel[axis] for axis in self.kernel_spec[2:])

    @property
    def terms(self) -> int:
        """How many products each element of the result is the sum of."""
        return self.taps * self.kernel[self.kernel_spec[1]]

    @property
    def features(self) -> int:
        """How many features the result has."""
        return self.kernel[self.kernel_spec[0]]

    @property
    def of_kernel(self) -> Window:
        """The same without what does not matter for the kernel."""
        axes = len(self.operand)
        ones, order = (1,) * axes, tuple(range(axes))
        return self._replace(
            operand=ones,
            operand_spec=order,
            result=ones,
            result_spec=order,
            rest=(1, 0, 1, 1) * (axes - 2),
        )

    @property
    def is_plain(self) -> bool:
        """Whether it has neither groups nor holes."""
        return (self.feature_groups, self.batch_groups, self.has_holes) == (1, 1, False)

    @property
    def shares_elements(self) -> bool:
        """Whether a line of the kernel has 3 or 5 elements, of which neighbors read most."""
        stride, _, _, dilation = self.rest[-4:]
        return self.kernel[self.kernel_spec[-1]] in (3, 5) and stride == dilation == 1

    @property
    def has_lines(self) -> bool:
        """Whether it is computed line by line, from a kernel in panels of features."""
        positions = [self.result[axis] for axis in self.result_spec[2:]]
        if not self.is_plain or not 1 < self.taps <= math.prod(positions):
            return False
        if self.features < FEWEST_FEATURES or self.terms < FEWEST_FEATURES:
            return False
        innermost = len(self.operand) - 1
        if innermost in (self.operand_spec[1], self.result_spec[1]):
            return True
        has_many = self.features >= MANY_FEATURES and self.terms >= MANY_TERMS
        return has_many and positions[-1] >= FEWEST_POSITIONS


def window_of(kernel: Kernel) -> Window | None:
    """Return the numbers of a convolution of floats; None if it is none, or has named sizes."""
    if kernel.symbol not in CONVOLUTIONS or is_named(*kernel.numbers):
        return None
    space, feature_groups, batch_groups, *numbers = map(int, kernel.numbers)
    axes = space + 2
    sizes = [tuple(numbers[i * axes : (i + 1) * axes]) for i in range(6)]
    operand, weights, result, operand_spec, kernel_spec, result_spec = sizes
    return Window(
        feature_groups,
        batch_groups,
        operand,
        weights,
        result,
        operand_spec,
        kernel_spec,
        result_spec,
        tuple(numbers[6 * axes :]),
    )


def products_of(numbers: Sequence[Dim]) -> Dim:
    """Return how many products of two elements a convolution adds up, given its kernel's numbers.

    Those with padding and with holes are left out, unless sizes are named.
    """
    space = int(numbers[0])
    axes = space + 2
    kernel, result = numbers[3 + axes : 3 + 2 * axes], numbers[3 + 2 * axes : 3 + 3 * axes]
    specs = [int(axis) for axis in numbers[3 + 3 * axes : 3 + 6 * axes]]
    of_operand, of_kernel, of_result = specs[:axes], specs[axes : 2 * axes], specs[2 * axes :]
    operand, rest = numbers[3 : 3 + axes], numbers[3 + 6 * axes :]
    found: Dim = result[of_result[0]] * result[of_result[1]] * kernel[of_kernel[1]]
    for i in range(2, axes):
        sizes = (operand[of_operand[i]], kernel[of_kernel[i]], result[of_result[i]])
        found *= _pairs(*sizes, *rest[4 * (i - 2) : 4 * (i - 1)])
    return found


def _pairs(
    size: Dim, taps: Dim, positions: Dim, stride: Dim, low: Dim, holes: Dim, dilation: Dim
) -> Dim:
    """Return at how many positions taps meet elements of an operand, along one axis."""
    if is_named(size, taps, positions, stride, low, holes, dilation):
        return taps * positions
    tap, place = np.ogrid[: int(taps), : int(positions)]
    at = place * int(stride) + tap * int(dilation) - int(low)
    is_element = (at >= 0) & (at < int(size) * int(holes)) & (at % int(holes) == 0)
    return int(np.count_nonzero(is_element))


def is_first(spec: Numbers) -> bool:
    """Tell whether features precede space in memory, and items precede both."""
    return spec == tuple(range(len(spec)))


def last(axes: int) -> Numbers:
    """Return the axes by meaning of an array whose features are last in memory."""
    return (0, axes - 1, *range(1, axes - 1))
