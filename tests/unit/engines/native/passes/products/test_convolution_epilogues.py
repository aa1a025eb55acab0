"""Epilogues of convolutions: what is made one, and that the bits are those of a nest of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Blocked, Function, Loop, walk
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.pipeline import optimized
from kiln.engines.native.passes.products import epilogues

RNG = np.random.default_rng(0)
FIRST = ("NCHW", "OIHW", "NCHW")
LAST = ("NHWC", "HWIO", "NHWC")


@pytest.fixture(autouse=True)
def _small_convolutions_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epilogues, "FEWEST_BYTES", 0)


def draw(*shape: int, dtype: str = "f4") -> np.ndarray:
    """Return random numbers around zero."""
    return RNG.standard_normal(shape).astype(dtype)


def blocked(f: Callable[..., Any], *args: Any) -> list[Blocked]:
    """Return what has an epilogue in a program, which is checked after each pass."""
    jaxpr = kiln.make_jaxpr(f)(*args).jaxpr
    function: Function = optimized(function_of(jaxpr, "f", LOWERINGS, frozenset()), checked=True)
    return [each for each in walk(function.body) if isinstance(each, Blocked)]


def same_bits(
    after: Callable[..., Any], x: Any, w: Any, *args: Any, stride: int = 1, **params: Any
) -> list[Blocked]:
    """Compare a convolution and what follows with the two as programs of their own."""
    space = x.ndim - 2
    params = {"padding": [(1, 1)] * space, "dimension_numbers": FIRST, **params}

    def convolved(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(x, w, (stride,) * space, **params)

    def whole(x: Any, w: Any, *args: Any) -> Any:
        return after(convolved(x, w), *args)

    with override(engine="native", check=True):
        expected = kiln.tree.leaves(kiln.jit(after)(kiln.jit(convolved)(x, w), *args))
        program = kiln.jit(whole)
        for threads in (1, 2, 3):
            with kiln.num_threads(threads):
                found = kiln.tree.leaves(program(x, w, *args))
            for a, b in zip(found, expected, strict=True):
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes()
    return blocked(whole, x, w, *args)


def scaled(t: Any, scale: Any) -> Any:
    """Scale features that are first, and apply relu."""
    return jnp.maximum(t * scale.reshape(-1, *[1] * (t.ndim - 2)), 0)


def kept(t: Any, scale: Any) -> Any:
    return t, scaled(t, scale)


@pytest.mark.parametrize("after", [scaled, kept])
@pytest.mark.parametrize(
    ("x", "w", "stride"),
    [
        ((3, 4, 9, 64), (20, 4, 3, 3), 1),  # lines of whole tiles
        ((2, 5, 11, 13), (20, 5, 3, 3), 1),  # positions numbered along the copy
        ((2, 5, 11, 13), (700, 5, 3, 3), 1),  # in blocks that end within lines
        ((9, 4, 8, 8), (40, 4, 3, 3), 1),  # packed positions of several images
        ((5, 4, 7, 7), (600, 4, 3, 3), 1),  # which fill no panels
        ((3, 4, 21, 18), (40, 4, 3, 3), 2),
        ((3, 12, 8, 8), (600, 12, 1, 1), 1),  # read in place
        ((3, 300, 6, 8), (40, 300, 1, 1), 1),
        ((3, 12, 7, 7), (40, 12, 1, 1), 1),  # copied: vectors cross the ends of its planes
        ((3, 12, 16, 16), (40, 12, 1, 1), 2),
        ((3, 4, 9, 9), (8, 4, 3, 3), 1),  # few features
        ((4, 5, 9, 11), (9, 5, 8, 7), 1),  # more elements in the kernel than positions
    ],
)
def test_features_first(after: Any, x: Any, w: Any, stride: int) -> None:
    pads = [(w[2] % 8 // 2,) * 2] * 2
    args = draw(*x), draw(*w), draw(w[0])
    found = same_bits(after, *args, stride=stride, padding=pads)
    assert len(found) == (w[2] != 8)  # of few columns


def test_features_last() -> None:
    def after(t: Any, s: Any) -> Any:
        return jnp.tanh(t * s)

    for x, w in (((3, 9, 10, 8), (3, 3, 8, 48)), ((3, 9, 10, 8), (1, 1, 8, 33))):
        assert len(same_bits(after, draw(*x), draw(*w), draw(w[3]), dimension_numbers=LAST)) == 1


def test_types_groups_and_residuals() -> None:
    with override(enable_x64=True):
        x, w = draw(3, 8, 9, 10, dtype="f8"), draw(12, 4, 3, 3, dtype="f8")
        residual = draw(3, 12, 9, 10, dtype="f8")
        assert same_bits(lambda t, r: r - t, x, w, residual, feature_group_count=2)
        assert same_bits(lambda t, r: r - t, x[:, :4], w, residual)


def test_rows_of_positions() -> None:
    """A depthwise convolution of features first is an epilogue by rows: planes of one feature."""
    kernel = draw(64, 1, 3, 3)

    def depthwise(t: Any, scale: Any, kernel: Any) -> Any:
        t = scaled(t, scale * 2)
        y = lax.conv_general_dilated(t, kernel, (1, 1), [(1, 1)] * 2, feature_group_count=64)
        return scaled(y, scale * 3)

    for x, w in (((3, 8, 32, 32), (64, 8, 1, 1)), ((2, 8, 30, 31), (64, 8, 3, 3))):
        pads = [(w[2] // 2,) * 2] * 2
        (found,) = same_bits(depthwise, draw(*x), draw(*w), draw(64), kernel, padding=pads)
        assert isinstance(found.epilogue, Loop)


def test_rows_of_features() -> None:
    x, w = draw(3, 100, 8), draw(3, 8, 128)
    (found,) = same_bits(
        lambda t: kiln.nn.softmax(t, -1), x, w, dimension_numbers=("NHC", "HIO", "NHC")
    )
    assert isinstance(found.epilogue, Loop)


def test_groups_of_few_features_that_are_last() -> None:
    """A row of the result is one vector, which the epilogue takes whole."""
    x, w, scale = draw(1, 9, 6, 16), draw(16, 8, 2, 1), draw(16)
    params = {"dimension_numbers": ("NHWC", "OIHW", "NHWC"), "feature_group_count": 2}
    assert same_bits(lambda t, s: jnp.maximum(t * s, 0), x, w, scale, **params)


@pytest.mark.parametrize("count", [6, pytest.param(120, marks=pytest.mark.full)])
def test_random_convolutions(count: int) -> None:
    """Layouts, strides, dilations, groups and one to three axes, whatever computes them."""
    rng, fused = np.random.default_rng(count), 0
    for _ in range(count):
        space = int(rng.integers(1, 4))
        axes = "DHW"[:space]
        layouts = [f"NC{axes}", f"N{axes}C", f"C{axes}N"]
        out = str(rng.choice(layouts, p=[0.5, 0.3, 0.2]))
        spec = (str(rng.choice([out, layouts[0]])), f"OI{axes}", out)
        groups = int(rng.choice([1, 1, 2]))
        sizes = {
            "N": int(rng.integers(1, 4)),
            "C": groups * int(rng.integers(2, 9)),
            **{axis: int(rng.integers(3, (200, 20, 9)[space - 1])) for axis in axes},
        }
        features = groups * int(rng.integers(4, 30))
        window = [int(n) for n in rng.integers(1, 4, space)]
        params: dict[str, Any] = {
            "dimension_numbers": spec,
            "padding": [(int(a), int(b)) for a, b in rng.integers(2, 5, (space, 2))],
            "lhs_dilation": [int(n) for n in rng.choice([1, 1, 1, 2], space)],
            "rhs_dilation": [int(n) for n in rng.choice([1, 1, 2], space)],
            "feature_group_count": groups,
        }
        x = draw(*[sizes[axis] for axis in spec[0]])
        w = draw(features, sizes["C"] // groups, *window)
        axis = out.index("C")

        def after(t: Any, s: Any, axis: int = axis) -> Any:
            return jnp.maximum(t * jnp.expand_dims(s, [d for d in range(t.ndim) if d != axis]), 0)

        stride = int(rng.choice([1, 2]))
        fused += len(same_bits(after, x, w, draw(features), stride=stride, **params))
    assert fused >= count // 3


def test_what_has_none() -> None:
    x, w = draw(2, 8, 16, 16), draw(32, 8, 3, 3)
    assert not same_bits(lambda t: jnp.swapaxes(t, 2, 3) + 1, x, w)
    assert not same_bits(lambda t: jnp.sum(jnp.abs(t), 0), x, w)
    assert not same_bits(lambda t: t + 1, x.astype("i4"), w.astype("i4"))
    assert not same_bits(lambda t: t + 1, draw(6, 2, 8, 16), draw(32, 2, 3, 3), batch_group_count=2)


def test_named_sizes_and_nan() -> None:
    w, scale = draw(20, 4, 3, 3), draw(20)

    def f(x: Any) -> Any:
        return scaled(lax.conv_general_dilated(x, w, (1, 1), "SAME"), scale)

    x = draw(3, 4, 9, 12)
    x[1, 2, 3, 4], x[2, 0, 0, 0], x[0, 3, 8, 11] = np.nan, np.inf, -0.0
    named, fixed = kiln.jit(f, abstracted_axes={0: "n"}), kiln.jit(f)
    for n in (1, 3):
        np.testing.assert_array_equal(named(x[:n]), fixed(x[:n]))


TEXT = """
function f(%i0: f32[2048], %i1: f32[320], %i2: f32[40]) -> (%o3: f32[10240]) {
  temp %t4: f32[10240]
  %t4[0] = kiln_conv_f32(%i0[0], %i1[0]) [2, 1, 1, 1, 8, 16, 16, 40, 8, 1, 1, 1, 40, 16, 16, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 1, 1, 1, 0, 1, 1]
  nest i0 < 40, i1 < 256 {
    v0: f32 = %t4[i0*256 + i1]
    v1: f32 = %i2[i0]
    v2: f32 = add v0 v1
    %o3[i0*256 + i1] = v2
  }
}
"""  # noqa: E501
IN_BLOCKS = """
function f(%i0: f32[2048], %i1: f32[320], %i2: f32[40]) -> (%o3: f32[10240]) {
  block %b4: f32[10240]
  blocked {
    %b4[0] = kiln_conv_f32(%i0[0], %i1[0]) [2, 1, 1, 1, 8, 16, 16, 40, 8, 1, 1, 1, 40, 16, 16, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 1, 0, 1, 1, 1, 0, 1, 1]
    nest i0 < 40, i1 < 256 {
      v0: f32 = %b4[i0*256 + i1]
      v1: f32 = %i2[i0]
      v2: f32 = add v0 v1
      %o3[i0*256 + i1] = v2
    }
  }
}
"""  # noqa: E501


def test_the_pass_from_text() -> None:
    function = parse(TEXT)
    epilogues.run_in_blocks(function)
    check(function, "epilogues")
    assert to_text(function).strip() == IN_BLOCKS.strip()
