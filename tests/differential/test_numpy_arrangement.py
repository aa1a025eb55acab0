"""Functions that rearrange, join, split, repeat and extend arrays give jax's arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

X = smooth("float32", (2, 3, 4))
V = np.array([3.0, 1.0, 2.0, 5.0], np.float32)
I = np.arange(6, dtype=np.int32)


def x(np_: Any) -> Any:
    return np_.asarray(X)


def v(np_: Any) -> Any:
    return np_.asarray(V)


def i(np_: Any) -> Any:
    return np_.asarray(I)


def weak(np_: Any) -> Any:
    return np_.full((3,), 2.0)


GROUPS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "reshape": {
        "shape": lambda n: n.reshape(x(n), (4, 6)),
        "minus one": lambda n: n.reshape(x(n), (3, -1)),
        "int": lambda n: n.reshape(x(n), -1),
        "fortran": lambda n: n.reshape(x(n), (4, 6), order="F"),
        "method": lambda n: x(n).reshape(6, 4),
        "method minus one": lambda n: x(n).reshape(-1, 2),
        "weak": lambda n: n.reshape(weak(n), (1, 3)),
        "wrong size": lambda n: n.reshape(v(n), (3, 3)),
        "wrong rest": lambda n: n.reshape(v(n), (3, -1)),
        "two unknown": lambda n: n.reshape(v(n), (-1, -1)),
        "list": lambda n: n.reshape([1, 2], (2, 1)),
        "ravel": lambda n: n.ravel(x(n)),
        "ravel fortran": lambda n: n.ravel(x(n), order="F"),
        "flatten": lambda n: x(n).flatten(),
        "resize": lambda n: n.resize(v(n), (3, 3)),
        "resize shorter": lambda n: n.resize(v(n), 2),
    },
    "transpose": {
        "reverse": lambda n: n.transpose(x(n)),
        "axes": lambda n: n.transpose(x(n), (2, 0, 1)),
        "negative axes": lambda n: n.transpose(x(n), (-1, 0, 1)),
        "method": lambda n: x(n).transpose(2, 0, 1),
        "T": lambda n: x(n).T,
        "mT": lambda n: x(n).mT,
        "permute_dims": lambda n: n.permute_dims(x(n), (1, 0, 2)),
        "wrong axes": lambda n: n.transpose(v(n), (0, 1)),
        "swapaxes": lambda n: n.swapaxes(x(n), 0, -1),
        "moveaxis": lambda n: n.moveaxis(x(n), 0, -1),
        "moveaxis two": lambda n: n.moveaxis(x(n), (0, 1), (2, 0)),
        "moveaxis wrong": lambda n: n.moveaxis(x(n), (0, 1), 0),
        "rollaxis": lambda n: n.rollaxis(x(n), 2),
        "rollaxis start": lambda n: n.rollaxis(x(n), 0, 3),
    },
    "axes": {
        "expand_dims": lambda n: n.expand_dims(x(n), 0),
        "expand_dims last": lambda n: n.expand_dims(x(n), -1),
        "expand_dims two": lambda n: n.expand_dims(v(n), (0, 2)),
        "expand_dims outside": lambda n: n.expand_dims(v(n), 2),
        "squeeze": lambda n: n.squeeze(n.ones((1, 3, 1))),
        "squeeze axis": lambda n: n.squeeze(n.ones((1, 3, 1)), -1),
        "squeeze wrong": lambda n: n.squeeze(v(n), 0),
        "atleast_1d": lambda n: [n.atleast_1d(n.asarray(1.0)), n.atleast_1d(v(n))],
        "atleast_2d": lambda n: [n.atleast_2d(n.asarray(1.0)), n.atleast_2d(v(n))],
        "atleast_3d": lambda n: [n.atleast_3d(a) for a in (n.asarray(1), v(n), x(n)[0])],
        "atleast several": lambda n: n.atleast_2d(v(n), n.asarray(1)),
        "broadcast_to": lambda n: n.broadcast_to(v(n), (2, 4)),
        "broadcast_to scalar": lambda n: n.broadcast_to(2.5, (2,)),
        "broadcast_to wrong": lambda n: n.broadcast_to(v(n), (2, 3)),
        "broadcast_arrays": lambda n: n.broadcast_arrays(v(n), n.ones((2, 1)), 3),
        "broadcast_shapes": lambda n: list(n.broadcast_shapes((2, 1), (3,), ())),
        "broadcast_shapes wrong": lambda n: n.broadcast_shapes((2,), (3,)),
        "flip": lambda n: n.flip(x(n)),
        "flip axes": lambda n: n.flip(x(n), (0, 2)),
        "fliplr": lambda n: n.fliplr(x(n)),
        "flipud": lambda n: n.flipud(x(n)),
        "rot90": lambda n: [n.rot90(x(n)[0], k) for k in range(-1, 4)],
        "rot90 axes": lambda n: n.rot90(x(n), 1, (1, 2)),
        "roll": lambda n: n.roll(x(n), 2),
        "roll axis": lambda n: n.roll(x(n), -1, 2),
        "roll axes": lambda n: n.roll(x(n), (1, 2), (0, 2)),
        "roll array": lambda n: n.roll(v(n), n.asarray(3)),
        "size": lambda n: [n.size(x(n)), n.size(x(n), 1), n.ndim(x(n)), *n.shape(x(n))],
        "iteration": lambda n: list(x(n)[0]),
        "iteration over scalar": lambda n: list(n.asarray(1)),
    },
    "join": {
        "concatenate": lambda n: n.concatenate([v(n), i(n)]),
        "concatenate axis": lambda n: n.concatenate([x(n), x(n)], -1),
        "concatenate flat": lambda n: n.concatenate([x(n), v(n)], None),
        "concatenate dtype": lambda n: n.concatenate([v(n), i(n)], dtype="float16"),
        "concatenate weak": lambda n: n.concatenate([weak(n), weak(n)]),
        "concatenate array": lambda n: n.concatenate(x(n)),
        "concatenate nothing": lambda n: n.concatenate([]),
        "concatenate scalars": lambda n: n.concatenate([1, 2]),
        "concatenate ranks": lambda n: n.concatenate([v(n), x(n)]),
        "concatenate shapes": lambda n: n.concatenate([n.ones((2, 3)), n.ones((2, 4))]),
        "concatenate list of list": lambda n: n.concatenate([[1], v(n)]),
        "concat": lambda n: n.concat([v(n), v(n)]),
        "stack": lambda n: n.stack([v(n), n.ones(4, int)]),
        "stack last": lambda n: n.stack([v(n), v(n)], -1),
        "stack scalars": lambda n: n.stack([1, 2.5]),
        "stack shapes": lambda n: n.stack([v(n), i(n)]),
        "stack outside": lambda n: n.stack([v(n), v(n)], 2),
        "vstack": lambda n: n.vstack([v(n), v(n)]),
        "hstack": lambda n: n.hstack([v(n), i(n)]),
        "hstack scalars": lambda n: n.hstack([1, 2.0]),
        "hstack matrices": lambda n: n.hstack([x(n)[0], x(n)[1]]),
        "dstack": lambda n: n.dstack([v(n), v(n)]),
        "column_stack": lambda n: n.column_stack([v(n), n.ones((4, 2))]),
        "block": lambda n: n.block([[n.ones((2, 2)), n.zeros((2, 1))], [n.ones((1, 3))]]),
        "append": lambda n: n.append(v(n), i(n)),
        "append axis": lambda n: n.append(x(n), x(n), 1),
        "insert": lambda n: n.insert(v(n), 1, 9),
        "insert several": lambda n: n.insert(v(n), np.array([0, 2, 4]), np.array([7, 8, 9])),
        "insert axis": lambda n: n.insert(x(n)[0], 1, 9.5, axis=1),
        "delete": lambda n: n.delete(v(n), 1),
        "delete several": lambda n: n.delete(x(n), np.array([0, 2]), axis=1),
        "delete slice": lambda n: n.delete(i(n), slice(1, 5, 2)),
        "delete flat": lambda n: n.delete(x(n), -1),
        "trim_zeros": lambda n: n.trim_zeros(n.array([0, 0, 1, 0, 2, 0])),
        "trim_zeros, all axes": lambda n: n.trim_zeros(n.array([[0, 0, 0], [0, 1, 0], [0, 2, 0]])),
        "trim_zeros, one axis": lambda n: n.trim_zeros(n.array([[0, 0], [0, 1]]), "f", axis=0),
    },
    "cut": {
        "split": lambda n: n.split(i(n), 3),
        "split at": lambda n: n.split(i(n), [1, 4]),
        "split axis": lambda n: n.split(x(n), 2, axis=2),
        "split uneven": lambda n: n.split(v(n), 3),
        "array_split": lambda n: n.array_split(v(n), 3),
        "array_split many": lambda n: n.array_split(v(n), 6),
        "hsplit": lambda n: n.hsplit(x(n), 3),
        "vsplit": lambda n: n.vsplit(x(n), 2),
        "dsplit": lambda n: n.dsplit(x(n), 2),
        "unstack": lambda n: n.unstack(x(n), axis=1),
        "unstack scalar": lambda n: n.unstack(n.asarray(1)),
    },
    "repeat": {
        "tile": lambda n: n.tile(v(n), 2),
        "tile axes": lambda n: n.tile(x(n)[0], (2, 1, 2)),
        "tile shorter": lambda n: n.tile(x(n), 2),
        "repeat": lambda n: n.repeat(v(n), 2),
        "repeat axis": lambda n: n.repeat(x(n), 2, axis=1),
        "repeat counts": lambda n: n.repeat(v(n), np.array([1, 0, 2, 1])),
        "repeat total": lambda n: n.repeat(v(n), n.array([1, 0, 2, 1]), total_repeat_length=6),
        "repeat total short": lambda n: n.repeat(
            v(n), n.array([2, 2, 2, 2]), total_repeat_length=5
        ),
        "repeat wrong": lambda n: n.repeat(v(n), np.array([1, 2])),
        "repeat scalar": lambda n: n.repeat(n.asarray(3), 2),
    },
    "pad": {
        "constant": lambda n: n.pad(v(n), 1),
        "constant int value": lambda n: n.pad(i(n), (1, 2), constant_values=7),
        "constant values": lambda n: n.pad(
            x(n)[0], ((1, 0), (0, 2)), constant_values=((1, 2), (3, 4))
        ),
        "weak": lambda n: n.pad(weak(n), 1),
        **{
            mode: lambda n, mode=mode: n.pad(x(n)[0], ((1, 2), (2, 1)), mode=mode)
            for mode in ("edge", "wrap", "reflect", "symmetric", "maximum", "minimum", "mean")
        },
        **{
            f"{mode} far": lambda n, mode=mode: n.pad(v(n), (6, 9), mode=mode)
            for mode in ("wrap", "reflect", "symmetric")
        },
        "odd": lambda n: n.pad(v(n), (2, 3), mode="reflect", reflect_type="odd"),
        "odd symmetric": lambda n: n.pad(v(n), (2, 3), mode="symmetric", reflect_type="odd"),
        "ramp": lambda n: n.pad(v(n), (2, 3), mode="linear_ramp", end_values=(0.0, 9.0)),
        "stat_length": lambda n: n.pad(v(n), (2, 3), mode="maximum", stat_length=2),
        "mean of ints": lambda n: n.pad(i(n), (1, 1), mode="mean", stat_length=2),
        "unknown": lambda n: n.pad(v(n), 1, mode="whatever"),
        "negative": lambda n: n.pad(v(n), -1),
        "wrong rank": lambda n: n.pad(v(n), ((1, 1), (2, 2))),
        "keywords": lambda n: n.pad(v(n), 1, mode="edge", constant_values=1),
    },
    "apply": {
        "along": lambda n: n.apply_along_axis(lambda a: a.sum() + a, 1, x(n)),
        "along to scalar": lambda n: n.apply_along_axis(lambda a: a[0] * 2, 0, x(n)),
        "over": lambda n: n.apply_over_axes(n.sum, x(n), (0, 2)),
        "vectorize": lambda n: n.vectorize(lambda a, b: a + b)(v(n), n.ones((2, 1))),
        "vectorize signature": lambda n: n.vectorize(n.dot, signature="(m),(m)->()")(x(n), v(n)),
        "vectorize excluded": lambda n: n.vectorize(lambda a, k: a * k, excluded={1})(v(n), 2),
        "vectorize wrong size": lambda n: n.vectorize(n.dot, signature="(m),(m)->()")(x(n), i(n)),
        "vectorize wrong signature": lambda n: n.vectorize(n.dot, signature="m->n")(x(n), i(n)),
    },
    "ufunc": {
        "add.reduce": lambda n: n.add.reduce(x(n)),
        "add.reduce axis": lambda n: n.add.reduce(x(n), axis=(0, 2), keepdims=True),
        "add.accumulate": lambda n: n.add.accumulate(x(n), axis=1),
        "add.outer": lambda n: n.add.outer(v(n), i(n)),
        "add.at": lambda n: n.add.at(v(n), n.array([0, 0, 2]), 1.0, inplace=False),
        "add.identity": lambda n: [n.add.identity, n.multiply.identity],
        "multiply.reduce": lambda n: n.multiply.reduce(v(n), initial=2.0),
        "multiply.accumulate": lambda n: n.multiply.accumulate(v(n)),
        "maximum.reduce": lambda n: n.maximum.reduce(x(n), axis=1),
        "minimum.at": lambda n: n.minimum.at(v(n), n.array([0, 1]), 0.5, inplace=False),
        "subtract.reduce": lambda n: n.subtract.reduce(v(n)),
        "subtract.accumulate": lambda n: n.subtract.accumulate(v(n)),
        "logical_and.reduce": lambda n: n.logical_and.reduce(x(n) > 0, axis=2),
        "bitwise_or.reduce": lambda n: n.bitwise_or.reduce(i(n)),
        "bitwise_xor.reduce": lambda n: n.bitwise_xor.reduce(i(n)),
        "frompyfunc": lambda n: n.frompyfunc(lambda a, b: a * b + 1, 2, 1)(v(n), 2.0),
        "frompyfunc.reduce": lambda n: n.frompyfunc(lambda a, b: 2 * a - b, 2, 1).reduce(v(n)),
        "frompyfunc.accumulate": lambda n: n.frompyfunc(lambda a, b: 2 * a - b, 2, 1).accumulate(
            v(n)
        ),
        "frompyfunc.outer": lambda n: n.frompyfunc(lambda a, b: a - b, 2, 1).outer(v(n), i(n)),
        "in place": lambda n: n.add.at(v(n), 0, 1.0),
    },
    "bits": {
        "packbits": lambda n: n.packbits(n.arange(20) % 3 == 0),
        "packbits axis": lambda n: n.packbits(n.arange(20).reshape(2, 10) % 3, axis=1),
        "packbits little": lambda n: n.packbits(n.arange(20) % 3 == 0, bitorder="little"),
        "unpackbits": lambda n: n.unpackbits(n.array([5, 130], dtype="uint8")),
        "unpackbits count": lambda n: n.unpackbits(n.array([5, 130], dtype="uint8"), count=11),
        "unpackbits of int": lambda n: n.unpackbits(n.array([5])),
    },
}


def cases() -> Iterator[Case]:
    for group, members in GROUPS.items():
        for name, run in members.items():
            yield Case(group, name, lambda lib, run=run: run(lib.numpy))


TOPIC = Topic("numpy_arrangement", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
