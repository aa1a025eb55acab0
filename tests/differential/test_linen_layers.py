"""Every layer and its options are flax's: names, first values, outputs, updates and gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from kiln.base.options.config import override
from tests.differential.linen_runs import Build, Run, Runs, cases, check
from tests.differential.operands import smooth
from tests.differential.oracle import Topic

BF16 = ml_dtypes.bfloat16
X = smooth("float32", (2, 3, 4))
ROWS = smooth("float32", (3, 4))
LINE = smooth("float32", (2, 7, 4), "line")
PLANE = smooth("float32", (2, 5, 6, 4), "plane")
SPACE = smooth("float32", (1, 3, 4, 2, 2), "space")
COMPLEX = smooth("complex64", (2, 3, 4))
KEPT = smooth("float32", (2, 3, 1), "kept") > -1
EACH = np.arange(24).reshape(2, 3, 4) % 7 != 2


def on(*inputs: Any, **options: Any) -> Callable[..., Run]:
    """Return a maker of runs on inputs."""

    def make(build: Build, **how: Any) -> Run:
        return Run(build, inputs, options, **how)

    return make


def masks(shape: tuple[int, ...]) -> np.ndarray:
    """Return a mask of about half ones."""
    return (smooth("float32", shape, "mask") > 0).astype(np.float32)


def linear() -> Iterator[tuple[str, Run]]:
    yield "dense", on(X)(lambda n: n.Dense(5))
    yield "dense vector", on(X[0, 0])(lambda n: n.Dense(5))
    yield "dense ints", on(np.arange(6).reshape(2, 3))(lambda n: n.Dense(5))
    yield "dense no bias", on(X)(lambda n: n.Dense(5, use_bias=False))
    yield "dense bfloat16", on(X)(lambda n: n.Dense(5, dtype=BF16))
    yield "dense bfloat16 parameters", on(X)(lambda n: n.Dense(5, param_dtype=BF16))
    yield "dense all bfloat16", on(X.astype(BF16))(lambda n: n.Dense(5, param_dtype=BF16))
    yield "dense complex", on(COMPLEX)(lambda n: n.Dense(5, param_dtype=np.complex64), slopes=False)
    yield (
        "dense initializers",
        on(X)(
            lambda n: n.Dense(
                5,
                kernel_init=n.initializers.orthogonal(),
                bias_init=n.initializers.normal(1.0),
                precision="highest",
            )
        ),
    )
    yield (
        "dense class",
        on(X)(
            lambda n: n.Dense(
                5, use_bias=False, dot_general_cls=lambda: lambda x, y, numbers, precision: x + 1
            )
        ),
    )
    yield (
        "dense promotion to bfloat16",
        on(X)(lambda n: n.Dense(5, promote_dtype=lambda *xs, dtype: [x.astype(BF16) for x in xs])),
    )
    yield "general", on(X)(lambda n: n.DenseGeneral(5))
    yield "general features", on(X)(lambda n: n.DenseGeneral((5, 2)))
    yield "general axes", on(X)(lambda n: n.DenseGeneral((5, 6), axis=(-1, 1)))
    yield "general first", on(X)(lambda n: n.DenseGeneral(5, axis=0))
    yield "general batch", on(X)(lambda n: n.DenseGeneral((5, 6), axis=(2, -2), batch_dims=(0,)))
    yield "general batches", on(X)(lambda n: n.DenseGeneral(5, batch_dims=(0, 1)))
    yield "general batch kept", on(X)(lambda n: n.DenseGeneral(5, batch_dims=(0,)))
    yield "general no bias", on(X)(lambda n: n.DenseGeneral(5, use_bias=False, dtype=BF16))
    yield (
        "general drawn",
        on(X)(
            lambda n: n.DenseGeneral(
                (5, 2), batch_dims=(0,), bias_init=n.initializers.normal(1.0), param_dtype=BF16
            )
        ),
    )
    for equation, shape in [
        ("bij,jk->bik", (4, 5)),
        ("bij,ijk->bik", (3, 4, 5)),
        ("bij,ijk->kib", (3, 4, 5)),
        ("...j,jk->...k", (4, 5)),
        ("b i j , j k -> b i k", (4, 5)),
        ("bij,bjk->bik", (2, 4, 5)),
        ("b...j,j...->b...", (4, 3)),
    ]:
        yield (
            f"einsum {equation}",
            on(X)(lambda n, e=equation, s=shape: n.Einsum(s, e, bias_init=n.initializers.normal())),
        )
    yield "einsum at call", on(X, einsum_str="bij,jk->bik")(lambda n: n.Einsum((4, 5)))
    yield (
        "einsum bfloat16 preferred",
        on(X.astype(BF16))(
            lambda n: n.Einsum(
                (4, 5),
                "bij,jk->bik",
                use_bias=False,
                param_dtype=BF16,
                preferred_element_type=np.float32,
            )
        ),
    )
    codes = np.array([[0, 3], [2, 4]])
    yield "embed", on(codes)(lambda n: n.Embed(5, 3))
    yield "embed outside", on(np.array([-1, 7]))(lambda n: n.Embed(5, 3), slopes=False)
    yield "embed uint8", on(codes.astype(np.uint8))(lambda n: n.Embed(5, 3, dtype=BF16))
    yield "embed one", on(np.array([0, 0]))(lambda n: n.Embed(1, 3))
    yield "embed bfloat16", on(codes)(lambda n: n.Embed(5, 3, param_dtype=BF16))
    yield "prelu", on(X)(lambda n: n.PReLU())
    yield "prelu bfloat16", on(X.astype(BF16))(lambda n: n.PReLU(negative_slope_init=0.3))
    yield "sequential", on(X)(lambda n: n.Sequential([n.Dense(3), n.relu, n.Dense(2)]))
    yield (
        "sequential tuple",
        on(X)(lambda n: n.Sequential([lambda x: (x, 2 * x), lambda x, y: x * y, n.Dense(2)])),
    )
    yield (
        "sequential dict",
        on(X)(lambda n: n.Sequential((lambda x: {"b": x}, lambda a=1.0, *, b: a + b, n.Dense(2)))),
    )
    yield (
        "batch apply",
        on(X)(lambda n: n.Sequential([n.BatchApply(n.standardize), n.BatchApply(n.relu, 3)])),
    )


def convolutions() -> Iterator[tuple[str, Run]]:
    for padding in ("SAME", "VALID", "CIRCULAR", "REFLECT", "CAUSAL", "SAME_LOWER", 2, [(1, 0)]):
        yield (
            f"line {padding}",
            on(LINE)(lambda n, p=padding: n.Conv(5, (3,), padding=p, kernel_dilation=2)),
        )
    for padding in ("SAME", "CIRCULAR", "REFLECT", 1, [0, (2, 1)]):
        yield (
            f"plane {padding}",
            on(PLANE)(lambda n, p=padding: n.Conv(5, (3, 2), strides=(2, 1), padding=p)),
        )
    yield "int size", on(LINE)(lambda n: n.Conv(5, 3))
    yield "even", on(LINE)(lambda n: n.Conv(5, (4,), padding="CIRCULAR", strides=2))
    yield "space", on(SPACE)(lambda n: n.Conv(3, (2, 3, 1), strides=None))
    yield "no batch", on(PLANE[0])(lambda n: n.Conv(5, (3, 3)))
    yield "batches", on(PLANE[None])(lambda n: n.Conv(5, (3, 3)))
    yield "batches of lines", on(PLANE)(lambda n: n.Conv(5, (3,), padding="REFLECT"))
    yield "groups", on(PLANE)(lambda n: n.Conv(6, (3, 3), feature_group_count=2))
    yield "depthwise", on(PLANE)(lambda n: n.Conv(8, (3, 3), feature_group_count=4, use_bias=False))
    yield "dilated", on(PLANE)(lambda n: n.Conv(5, (2, 2), kernel_dilation=(2, 1)))
    yield (
        "spread",
        on(LINE)(lambda n: n.Conv(5, (2,), input_dilation=2, padding=1)),
    )
    yield "mask", on(LINE)(lambda n: n.Conv(5, (3,), mask=masks((3, 4, 5))))
    yield "bfloat16", on(PLANE)(lambda n: n.Conv(5, (3, 3), dtype=BF16))
    yield "bfloat16 parameters", on(LINE.astype(BF16))(lambda n: n.Conv(5, (3,), param_dtype=BF16))
    yield (
        "initializers",
        on(LINE)(
            lambda n: n.Conv(
                5,
                (3,),
                kernel_init=n.initializers.he_uniform(),
                bias_init=n.initializers.normal(1.0),
                precision="highest",
            )
        ),
    )
    yield (
        "class",
        on(LINE)(
            lambda n: n.Conv(
                5, (3,), conv_general_dilated_cls=lambda: lambda x, w, *_, **__: x[..., :1]
            )
        ),
    )
    yield (
        "function",
        on(LINE)(lambda n: n.Conv(5, (3,), conv_general_dilated=lambda x, w, *_, **__: x[..., :1])),
    )
    for padding in ("SAME", "VALID", "CIRCULAR", "CAUSAL", 1):
        yield (
            f"local {padding}",
            on(LINE)(lambda n, p=padding: n.ConvLocal(5, (3,), strides=2, padding=p)),
        )
    yield "local plane", on(PLANE)(lambda n: n.ConvLocal(3, (2, 3), kernel_dilation=(1, 2)))
    yield "local no batch", on(LINE[0])(lambda n: n.ConvLocal(3, 2, use_bias=False))
    yield "local mask", on(LINE)(lambda n: n.ConvLocal(5, (3,), mask=masks((7, 12, 5))))
    yield "local bfloat16", on(LINE)(lambda n: n.ConvLocal(5, (3,), dtype=BF16))


def transposed() -> Iterator[tuple[str, Run]]:
    for padding in ("SAME", "VALID", "CIRCULAR", 1, [(1, 0)]):
        # Padding wider than the kernel reaches gives the gradient negative padding, with which XLA
        # on a CPU reads beyond the input.
        for size in (1, 2, 3, 4) if isinstance(padding, str) else (2, 3, 4):
            yield (
                f"line {padding} {size}",
                on(LINE)(lambda n, p=padding, k=size: n.ConvTranspose(5, k, (2,), p)),
            )
    for padding in ("SAME", "CIRCULAR"):
        for strides in (None, (1, 1), (2, 3), 2):
            yield (
                f"plane {padding} {strides}",
                on(PLANE)(lambda n, p=padding, s=strides: n.ConvTranspose(3, (3, 4), s, p)),
            )
            yield (
                f"kernel {padding} {strides}",
                on(PLANE)(
                    lambda n, p=padding, s=strides: n.ConvTranspose(
                        3, (3, 4), s, p, transpose_kernel=True
                    )
                ),
            )
    yield "dilated", on(LINE)(lambda n: n.ConvTranspose(5, (3,), (2,), kernel_dilation=(2,)))
    yield (
        "circular dilated",
        on(LINE)(lambda n: n.ConvTranspose(5, (9,), (1,), "CIRCULAR", kernel_dilation=2)),
    )
    yield "no batch", on(PLANE[0])(lambda n: n.ConvTranspose(5, (3, 3), use_bias=False))
    yield "batches", on(PLANE)(lambda n: n.ConvTranspose(5, (3,), padding="CIRCULAR"))
    yield "mask", on(LINE)(lambda n: n.ConvTranspose(5, (3,), mask=masks((3, 4, 5))))
    yield "bfloat16", on(LINE)(lambda n: n.ConvTranspose(5, (3,), dtype=BF16))
    yield (
        "bfloat16 preferred",
        on(LINE.astype(BF16))(
            lambda n: n.ConvTranspose(
                5, (3,), param_dtype=BF16, preferred_element_type=np.float32, use_bias=False
            ),
            slopes=False,
        ),
    )


def mapped(lib: Any, call: Any) -> Any:
    """Return the call mapped over the first axis, which has the name `examples`."""
    return lib.vmap(call, axis_name="examples")


def batch_norms() -> Iterator[tuple[str, Run]]:
    training = on(X, use_running_average=False)
    yield "training", training(lambda n: n.BatchNorm())
    yield "testing", on(X)(lambda n: n.BatchNorm(use_running_average=True))
    yield "axis", training(lambda n: n.BatchNorm(axis=1))
    yield "axes", training(lambda n: n.BatchNorm(axis=(-1, 0), momentum=0.5, epsilon=0.1))
    yield "no bias", training(lambda n: n.BatchNorm(use_bias=False))
    yield "no scale", training(lambda n: n.BatchNorm(use_scale=False))
    yield "slow", training(lambda n: n.BatchNorm(use_fast_variance=False))
    yield "bfloat16", training(lambda n: n.BatchNorm(dtype=BF16))
    yield "bfloat16 parameters", training(lambda n: n.BatchNorm(param_dtype=BF16))
    low = on(X.astype(BF16), use_running_average=False)
    yield "bfloat16 input", low(lambda n: n.BatchNorm())
    yield (
        "bfloat16 sums",
        low(lambda n: n.BatchNorm(param_dtype=BF16, force_float32_reductions=False)),
    )
    yield "complex", on(COMPLEX)(lambda n: n.BatchNorm(use_running_average=False), slopes=False)
    yield "mask", on(X, mask=KEPT)(lambda n: n.BatchNorm(use_running_average=False))
    yield "mask of each", on(X, mask=EACH)(lambda n: n.BatchNorm(False, use_fast_variance=False))
    drawn = {"scale_init": "normal", "bias_init": "uniform"}
    yield (
        "initializers",
        training(
            lambda n: n.BatchNorm(**{k: getattr(n.initializers, v)() for k, v in drawn.items()})
        ),
    )
    yield "named", training(lambda n: n.BatchNorm(axis_name="examples"), through=mapped)


def norms() -> Iterator[tuple[str, Run]]:
    for kind in ("LayerNorm", "RMSNorm", "GroupNorm", "InstanceNorm"):
        groups = {"num_groups": 2} if kind == "GroupNorm" else {}

        def of(kind: str = kind, groups: Any = groups, **options: Any) -> Build:
            return lambda n: getattr(n, kind)(**groups, **options)

        yield kind, on(X)(of())
        yield f"{kind} no scale", on(X)(of(use_scale=False))
        if kind != "RMSNorm":
            yield f"{kind} no bias", on(X)(of(use_bias=False, epsilon=0.1))
            yield f"{kind} slow", on(X)(of(use_fast_variance=False))
        yield f"{kind} bfloat16", on(X)(of(dtype=BF16))
        yield f"{kind} bfloat16 parameters", on(X)(of(param_dtype=BF16))
        yield f"{kind} bfloat16 input", on(X.astype(BF16))(of())
        yield (
            f"{kind} bfloat16 sums",
            on(X.astype(BF16))(of(force_float32_reductions=False, use_fast_variance=False)),
        )
        yield f"{kind} mask", on(X, mask=EACH)(of())
        yield f"{kind} plane", on(PLANE)(of())
        yield f"{kind} complex", on(COMPLEX)(of(), slopes=False)
    for kind in ("LayerNorm", "RMSNorm"):
        yield (
            f"{kind} axes",
            on(PLANE)(
                lambda n, k=kind: getattr(n, k)(reduction_axes=(1, 2, 3), feature_axes=(-1, 1))
            ),
        )
        yield f"{kind} other", on(X)(lambda n, k=kind: getattr(n, k)(reduction_axes=(0, 1)))
    yield "GroupNorm size", on(X)(lambda n: n.GroupNorm(None, 2))
    yield "GroupNorm axes", on(PLANE)(lambda n: n.GroupNorm(4, reduction_axes=(-1, -2)))
    yield "GroupNorm all", on(PLANE)(lambda n: n.GroupNorm(1, reduction_axes=(0, 1, 2, 3)))
    yield "InstanceNorm axes", on(PLANE)(lambda n: n.InstanceNorm(feature_axes=(-1, 1)))


def dropouts() -> Iterator[tuple[str, Run]]:
    training = on(X, deterministic=False)
    yield "half", training(lambda n: n.Dropout(0.5))
    yield "some", training(lambda n: n.Dropout(0.3))
    yield "testing", on(X)(lambda n: n.Dropout(0.5, deterministic=True))
    yield "none", training(lambda n: n.Dropout(0.0))
    yield "all", training(lambda n: n.Dropout(1.0))
    yield "broadcast", training(lambda n: n.Dropout(0.5, broadcast_dims=(0, -1)))
    yield "collection", training(lambda n: n.Dropout(0.5, rng_collection="params"), slopes=False)
    yield (
        "twice",
        on(X)(
            lambda n: n.Sequential(
                [n.Dropout(0.5, deterministic=False), n.Dropout(0.2, deterministic=False)]
            )
        ),
    )
    yield "bfloat16", on(X.astype(BF16), deterministic=False)(lambda n: n.Dropout(0.5))


def pooling() -> Iterator[tuple[str, Run]]:
    def of(name: str, *args: Any, **options: Any) -> Build:
        return lambda n: n.Sequential([lambda x: getattr(n.pooling, name)(x, *args, **options)])

    for name in ("avg_pool", "max_pool", "min_pool"):
        yield f"{name}", on(PLANE)(of(name, (2, 3)))
        yield f"{name} strides", on(PLANE)(of(name, (2, 2), strides=(2, 1)))
        yield f"{name} same", on(PLANE)(of(name, (3, 2), strides=(2, 2), padding="SAME"))
        yield f"{name} padding", on(PLANE)(of(name, (3, 2), padding=((1, 0), (1, 1))))
        yield f"{name} no batch", on(PLANE[0])(of(name, (2, 2), padding="SAME"))
        yield f"{name} batches", on(PLANE)(of(name, (2,), strides=(2,)))
        yield f"{name} bfloat16", on(PLANE.astype(BF16))(of(name, (2, 2)))
        yield f"{name} ints", on(np.arange(24).reshape(2, 4, 3))(of(name, (3,), padding="SAME"))
    for padding in ("SAME", ((1, 1), (0, 1))):
        yield (
            f"avg_pool inside {padding}",
            on(PLANE)(of("avg_pool", (3, 2), padding=padding, count_include_pad=False)),
        )


def wrappers() -> Iterator[tuple[str, Run]]:
    yield "weight", on(X)(lambda n: n.WeightNorm(n.Dense(5)))
    yield "weight no scale", on(X)(lambda n: n.WeightNorm(n.Dense(5), use_scale=False))
    yield "weight bfloat16", on(X)(lambda n: n.WeightNorm(n.Dense(5), dtype=BF16))
    yield (
        "weight all",
        on(LINE)(lambda n: n.WeightNorm(n.Conv(5, 3), feature_axes=None, variable_filter=None)),
    )
    yield (
        "weight bias",
        on(LINE)(
            lambda n: n.WeightNorm(
                n.Conv(5, 3),
                variable_filter={"bias"},
                scale_init=n.initializers.normal(1.0),
                epsilon=1e-3,
            )
        ),
    )
    yield "weight axes", on(LINE)(lambda n: n.WeightNorm(n.Conv(5, 3), feature_axes=(-1, 0)))
    for update in (True, False):
        run = on(LINE, update_stats=update)
        yield f"spectral {update}", run(lambda n: n.SpectralNorm(n.Dense(5)))
        yield f"spectral conv {update}", run(lambda n: n.SpectralNorm(n.Conv(5, 3), n_steps=3))
        yield (
            f"spectral bfloat16 {update}",
            run(lambda n: n.SpectralNorm(n.Dense(5), dtype=BF16, collection_name="spectra")),
        )
    yield "spectral no steps", run(lambda n: n.SpectralNorm(n.Dense(5), n_steps=0))


GROUPS: dict[str, Runs] = {
    "linear": linear,
    "convolutions": convolutions,
    "transposed": transposed,
    "batch norms": batch_norms,
    "norms": norms,
    "dropouts": dropouts,
    "pooling": pooling,
    "wrappers": wrappers,
}


def tolerance(name: str) -> float:
    """Gradients may be of float32 and made of products in bfloat16."""
    return 4e-2 if "bfloat16" in name else 1e-4


TOPIC = Topic("linen_layers", cases(GROUPS, tolerance))


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_flax(group: str) -> None:
    with override(engine="reference"):
        check(TOPIC, group)


@pytest.mark.parametrize(
    "group",
    [g if g == "dropouts" else pytest.param(g, marks=pytest.mark.full) for g in TOPIC.groups],
)
def test_compiled_as_flax(group: str) -> None:
    check(TOPIC, group)
