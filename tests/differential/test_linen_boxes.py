"""Lifted transformations tell the boxes of variables about the axes they add, as in flax."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.linen
from kiln.base.options.config import override
from tests.differential.oracle import Case, Topic

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
NAME = "partition_name"
Run = Callable[[Any], Any]


def _dense(nn: Any, wrap: str = "with_partitioning") -> Any:
    """Return a layer with boxed parameters that keeps the shape."""
    boxed = getattr(nn, wrap)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            kernel = boxed(nn.initializers.lecun_normal(), ("rows", "columns"))
            bias = boxed(nn.initializers.zeros, ("columns",))
            return nn.Dense(4, kernel_init=kernel, bias_init=bias)(x)

    return Layer


def _carrying(nn: Any, layer: Any) -> Any:
    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any, _: Any) -> Any:
            return nn.tanh(layer()(x)), x.sum()

    return Block


def _mapped(nn: Any, axis: int, name: Any, **options: Any) -> Any:
    return nn.vmap(
        _dense(nn),
        variable_axes={"params": axis},
        split_rngs={"params": True},
        in_axes=None,
        axis_size=2,
        metadata_params={NAME: name},
        **options,
    )()


def _scanned(nn: Any, axis: int, name: Any, layer: Any = None) -> Any:
    return nn.scan(
        _carrying(nn, layer or _dense(nn)),
        variable_axes={"params": axis},
        split_rngs={"params": True},
        length=2,
        metadata_params={NAME: name},
    )()


def _told(lib: Any, variables: Any) -> Any:
    """Return each box's path, class, names and shape, as bytes of text."""
    nn = lib.linen
    leaves = lib.tree_util.tree_flatten_with_path(
        variables, is_leaf=lambda x: isinstance(x, nn.Partitioned)
    )[0]
    told = [
        (
            lib.tree_util.keystr(path),
            type(x).__name__,
            getattr(x, "names", None),
            np.shape(getattr(x, "value", x)),
        )
        for path, x in leaves
    ]
    return np.frombuffer(repr(told).encode(), np.uint8)


def _asked(make: Callable[[Any], Any], *inputs: Any) -> Run:
    """Return boxes after `init`, what the module gives, and the boxes of the gradient."""

    def run(lib: Any) -> Any:
        module = make(lib.linen)
        with lib.threefry_partitionable(True):
            variables = module.init(lib.random.key(0), *inputs)
        numbers = lib.tree_util.tree_map(
            lambda v: np.sin(np.arange(v.size, dtype=np.float32)).reshape(v.shape), variables
        )

        def total(v: Any) -> Any:
            out = module.apply(v, *inputs)
            return lib.numpy.sum(lib.tree_util.tree_leaves(out)[0] ** 2)

        slopes = lib.grad(total)(numbers)
        out = module.apply(numbers, *inputs)
        return [
            _told(lib, variables),
            _told(lib, slopes),
            *lib.tree_util.tree_leaves([out, slopes]),
        ]

    return run


def _nested(nn: Any) -> Any:
    inner = nn.vmap(
        _dense(nn),
        variable_axes={"params": 0},
        split_rngs={"params": True},
        in_axes=0,
        metadata_params={NAME: "heads"},
    )
    return _scanned(nn, 1, "layers", inner)


def _without(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(nn: Any) -> Any:
        return nn.vmap(make(nn), {"params": 0}, {"params": True}, in_axes=None, axis_size=2)()

    return run


MODULES: dict[str, tuple[Callable[[Any], Any], int]] = {
    **{
        f"vmap {axis} {name}": (lambda nn, a=axis, n=name: _mapped(nn, a, n), 1)
        for axis in (0, 1)
        for name in ("heads", None)
    },
    **{
        f"scan {axis} {name}": (lambda nn, a=axis, n=name: _scanned(nn, a, n), 2)
        for axis in (0, 1)
        for name in ("layers", None)
    },
    "scan of vmap": (_nested, 2),
    "remat": (lambda nn: nn.remat(_dense(nn))(), 1),
    "jit": (lambda nn: nn.jit(_dense(nn))(), 1),
    "scan of remat": (lambda nn: _scanned(nn, 0, "layers", nn.remat(_dense(nn))), 2),
    "scan of jit": (lambda nn: _scanned(nn, 0, "layers", nn.jit(_dense(nn))), 2),
    "logical scan": (
        lambda nn: _scanned(nn, 0, "layers", _dense(nn, "with_logical_partitioning")),
        2,
    ),
    "vmap without a name": (_without(_dense), 1),
    "shared in vmap": (
        lambda nn: nn.vmap(
            _dense(nn),
            variable_axes={"params": None},
            split_rngs={"params": False},
            in_axes=0,
            metadata_params={NAME: "heads"},
        )(),
        1,
    ),
    "metadata axis": (
        lambda nn: nn.add_metadata_axis(
            _dense(nn), {"params": 0}, metadata_params={NAME: "more"}
        )(),
        1,
    ),
}


def _cases() -> Iterator[Case]:
    for name, (make, count) in MODULES.items():
        yield Case("modules", name, _asked(make, X, *[None] * (count - 1)))


TOPIC = Topic("linen_boxes", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_in_flax(group: str) -> None:
    with override(threefry_partitionable=True):
        TOPIC.check(group, kiln)
