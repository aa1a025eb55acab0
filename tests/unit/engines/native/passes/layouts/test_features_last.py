"""Convolutional networks with features last: what changes, what does not, and the results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, nn
from kiln.base.options.config import override
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.statements import Function, Kernel, walk
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.layouts.features_last import lay_out
from kiln.engines.native.passes.pipeline import PASSES, optimized

RNG = np.random.default_rng(0)
LAST = "0, 3, 1, 2"


def draw(*shape: int) -> np.ndarray:
    """Return random numbers around zero."""
    return RNG.standard_normal(shape).astype("f4")


def conv(x: Any, w: Any, stride: int = 1, **params: Any) -> Any:
    """Convolve images, features first, padded by half the kernel."""
    pads = [(size // 2, size // 2) for size in w.shape[2:]]
    return lax.conv_general_dilated(x, w, (stride,) * (x.ndim - 2), pads, **params)


def lowered(f: Callable[..., Any], *args: Any) -> Function:
    jaxpr = kiln.make_jaxpr(f)(*args).jaxpr
    jaxpr = jaxpr.with_(constvars=[], invars=[*jaxpr.constvars, *jaxpr.invars])
    return function_of(jaxpr, "f", LOWERINGS, frozenset())


def laid_out(f: Callable[..., Any], *args: Any) -> list[tuple[str, bool, bool]]:
    """Return of each kernel its kind, and whether it reads and writes features last."""
    optimized(lowered(f, *args), checked=True)
    function = lowered(f, *args)
    for name, run in PASSES.items():
        run(function)
        if name == "layouts":
            break
    found = []
    for each in walk(function.body):
        if isinstance(each, Kernel) and each.symbol == "kiln_conv_f32":
            axes = int(each.numbers[0]) + 2
            specs = [tuple(each.numbers[3 + i * axes : 3 + (i + 1) * axes]) for i in (3, 5)]
            reads, writes = (spec[1] == axes - 1 for spec in specs)
            found.append(("conv", reads, writes))
        elif isinstance(each, Kernel):
            found.append((each.symbol, *(bool(each.numbers[4]), bool(each.numbers[5]))))
    return found


def agrees(f: Callable[..., Any], *args: Any, tolerance: float = 2e-5) -> None:
    """Compare with XLA, on one thread and on three."""
    with override(engine="xla"):
        meant = kiln.tree.leaves(kiln.jit(f)(*args))
    with override(engine="native", check=True):
        program = kiln.jit(f)
        for threads in (1, 3):
            with kiln.num_threads(threads):
                found = kiln.tree.leaves(program(*args))
            for a, b in zip(found, meant, strict=True):
                a, b = np.asarray(a), np.asarray(b)
                assert (a.shape, a.dtype) == (b.shape, b.dtype)
                scale = max(1.0, float(np.abs(b).max()))
                np.testing.assert_allclose(a / scale, b / scale, atol=tolerance, rtol=0)


X, W0, W1, W2 = draw(2, 8, 12, 12), draw(40, 8, 3, 3), draw(40, 40, 3, 3), draw(36, 40, 3, 3)


def test_arrays_between_convolutions_have_features_last() -> None:
    def f(x: Any) -> Any:
        y = nn.relu(conv(x, W0))
        y = y + nn.relu(conv(y, W1))
        return conv(y, W2)

    # What is given and what is returned keep their layout.
    assert laid_out(f, X) == [("conv", False, True), ("conv", True, True), ("conv", True, False)]
    agrees(f, X)


def test_scales_of_features_means_and_strides() -> None:
    def f(x: Any, scale: Any) -> Any:
        y = nn.relu(conv(x, W0, 2) * scale[:, None, None] + 1)
        y = nn.relu(conv(y, W1))
        return jnp.mean(y, (2, 3)), jnp.max(y, (0, 2, 3))

    assert laid_out(f, X, draw(40)) == [("conv", False, True), ("conv", True, True)]
    agrees(f, X, draw(40))


def test_halved_doubled_and_joined() -> None:
    def f(x: Any) -> Any:
        first = nn.relu(conv(x, W0))
        window = (1, 1, 2, 2)
        y = lax.reduce_window(first, -jnp.inf, lax.max, window, window, "VALID")
        y = nn.relu(conv(y, W1))
        y = jnp.repeat(jnp.repeat(y, 2, 2), 2, 3)
        y = jnp.concatenate([y, first], 1)
        return conv(y, draw_once)

    draw_once = draw(33, 80, 3, 3)
    assert laid_out(f, X) == [("conv", False, True), ("conv", True, True), ("conv", True, False)]
    agrees(f, X)


@pytest.mark.parametrize("stride", [1, 2])
def test_products_by_kernels_of_one_element(stride: int) -> None:
    one, other = draw(48, 40, 1, 1), draw(40, 48, 1, 1)

    def f(x: Any) -> Any:
        y = nn.relu(conv(x, W0))
        z = nn.relu(conv(conv(y, W1, stride), one))
        return conv(nn.relu(z * 2 + conv(y, one, stride)), draw_once), conv(z, other)

    draw_once = draw(32, 48, 3, 3)
    found = laid_out(f, X)
    # Two that stay within the network, and one whose result is returned.
    assert [kind[1:] for kind in found if kind[0] == "kiln_gemm_f32"] == [
        (False, True),
        (False, True),
        (False, True),
    ]
    agrees(f, X)


def test_a_product_of_the_argument() -> None:
    one = draw(40, 8, 1, 1)

    def f(x: Any) -> Any:
        return conv(nn.relu(conv(nn.relu(conv(x, one)), W1)), W2)

    # The argument, transposed, by the weights, transposed.
    assert laid_out(f, X)[0] == ("kiln_gemm_f32", True, True)
    agrees(f, X)


def test_one_and_three_axes_and_doubles() -> None:
    def f(x: Any, *ws: Any) -> Any:
        for w in ws:
            x = jnp.tanh(conv(x, w))
        return conv(x, ws[-1])

    line = (draw(3, 4, 30), draw(32, 4, 5), draw(32, 32, 3))
    assert laid_out(f, *line) == [
        ("conv", False, True),
        ("conv", True, True),
        ("conv", True, False),
    ]
    agrees(f, *line)
    volume = (draw(2, 4, 5, 6, 7), draw(32, 4, 3, 3, 3), draw(32, 32, 3, 1, 3))
    assert laid_out(f, *volume)[1] == ("conv", True, True)
    agrees(f, *volume)
    with kiln.enable_x64(True):
        agrees(f, *(x.astype("f8") for x in line), tolerance=1e-13)


UNCHANGED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "a nest that reads the argument too": (
        lambda x: conv(nn.relu(conv(x, W1)) + x, W1),
        (draw(2, 40, 9, 9),),
    ),
    "a nest that writes the result": (lambda x: nn.relu(conv(x, W0)), (X,)),
    "few features": (
        lambda x: conv(nn.relu(conv(x, W0[:24])), W1[:24, :24]),
        (X,),
    ),
    "depthwise": (
        lambda x: conv(nn.relu(conv(nn.relu(conv(x, W0)), W1[:, :1], feature_group_count=40)), W1),
        (X,),
    ),
    "integers": (
        lambda x: conv(nn.relu(conv(x, W0.astype("i4"))), W1.astype("i4")),
        (X.astype("i4"),),
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_does_not_change(name: str) -> None:
    f, args = UNCHANGED[name]
    assert all(kind == (kind[0], False, False) for kind in laid_out(f, *args) if kind[0] == "conv")
    agrees(f, *args, tolerance=1e-4)


def test_other_orders() -> None:
    """Nests that transpose, or run along the features."""
    agrees(lambda x: conv(jnp.swapaxes(nn.relu(conv(x, W1)), 1, 3), W1), draw(2, 40, 40, 40))
    agrees(lambda x: conv(jnp.cumsum(nn.relu(conv(x, W0)), 1), W1), X)
    agrees(lambda x: conv(jnp.sort(nn.relu(conv(x, W0)), 1), W1), X)
    agrees(lambda x: conv(nn.softmax(conv(x, W0), 1)[:, ::-1, ::-1], W1), X)
    agrees(lambda x: conv(nn.relu(conv(x, W0)).reshape(2, 40, 9, 16)[:, :, 1:], W1), X)
    scale = np.arange(20 * 144, dtype="f4") / 1000
    agrees(lambda x: conv((conv(x, W0).reshape(2, 2, -1) * scale).reshape(2, 40, 12, 12), W1), X)


def test_gradients_keep_the_layout() -> None:
    def loss(w: Any, x: Any) -> Any:
        return jnp.sum(conv(nn.relu(conv(x, w)), W1) ** 2)

    def f(w: Any, x: Any) -> Any:
        return kiln.grad(loss)(w, x)

    agrees(f, W0 * 0.1, X, tolerance=1e-4)


def test_in_loops_and_branches() -> None:
    def f(x: Any, n: Any) -> Any:
        def step(x: Any, _: Any) -> tuple[Any, Any]:
            y = nn.relu(conv(x, W1 * 0.05))
            return conv(y, W1 * 0.05), jnp.max(y)

        x, most = lax.scan(step, x, None, length=3)
        return lax.cond(n > 0, lambda x: conv(nn.relu(conv(x, W1)), W1), lambda x: x, x), most

    x = draw(1, 40, 8, 8)
    for n in (0, 1):
        agrees(f, x, np.int32(n), tolerance=1e-4)


def test_the_text_of_the_pass() -> None:
    function = lowered(lambda x: conv(nn.relu(conv(x, W0)), W1), X)
    assert LAST not in to_text(function)
    lay_out(function)
    text = to_text(function)
    assert text.count(LAST) == 2
    lay_out(function)
    assert to_text(function) == text


@pytest.mark.parametrize("count", [4, pytest.param(60, marks=pytest.mark.full)])
def test_random_networks(count: int) -> None:
    """Layers of any kind, one after the other, and skips between those of the same shape."""
    rng, changed = np.random.default_rng(count), 0
    for _ in range(count):
        kinds = rng.choice(
            [
                "conv",
                "conv",
                "stride",
                "one",
                "relu",
                "scale",
                "skip",
                "halve",
                "double",
                "join",
                "pad",
            ],
            int(rng.integers(4, 12)),
        )
        width, weights = int(rng.choice([3, 8, 32])), []
        x = draw(int(rng.integers(1, 4)), width, 8, 8)
        for kind in kinds:
            if kind in ("conv", "stride", "one"):
                after = int(rng.choice([12, 32, 40]))
                side = 1 if kind == "one" else 3
                weights.append(
                    draw(after, width, side, side) * np.float32((width * side**2) ** -0.5)
                )
                width = after
            elif kind == "scale":
                weights.append(draw(width))
            elif kind == "join":
                width *= 2

        def f(x: Any, *given: Any, kinds: Any = kinds) -> Any:
            left, before = list(given), []
            for kind in kinds:
                before.append(x)
                if kind == "conv" or kind == "one":
                    x = conv(x, left.pop(0))
                elif kind == "stride":
                    x = conv(x, left.pop(0), 2)
                elif kind == "relu":
                    x = nn.relu(x)
                elif kind == "scale":
                    x = x * left.pop(0)[:, None, None]
                elif kind == "skip":
                    same = [y for y in before if y.shape == x.shape]
                    x = jnp.tanh(x) + same[0]
                elif kind == "halve":
                    window = (1, 1, 2, 2)
                    x = lax.reduce_window(x, -jnp.inf, lax.max, window, (1, 1, 1, 1), "SAME")
                elif kind == "double":
                    x = jnp.repeat(x, 2, 3)[:, :, :, ::2] if x.shape[3] > 8 else jnp.repeat(x, 2, 3)
                elif kind == "pad":
                    x = jnp.pad(x, ((0, 0), (0, 0), (1, 0), (0, 1)))[:, :, :-1, 1:]
                else:
                    x = jnp.concatenate([x, jnp.sin(x)], 1)
            return x, jnp.mean(x, (2, 3))

        changed += any(kind == ("conv", True, True) for kind in laid_out(f, x, *weights))
        agrees(f, x, *weights, tolerance=1e-4)
    assert changed >= count // 8
