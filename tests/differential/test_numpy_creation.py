"""Arrays made of nothing or of Python data have jax's values, dtypes and weak types."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy
from tests.differential.operands import smooth
from tests.differential.oracle import Case, Topic

F = smooth("float32", (2, 3))
NP = Callable[[Any], Any]

GROUPS: dict[str, dict[str, NP]] = {
    "array": {
        "int": lambda np_: np_.array(1),
        "float": lambda np_: np_.array(1.0),
        "complex": lambda np_: np_.array(1j),
        "bool": lambda np_: np_.array(True),
        "list of ints": lambda np_: np_.array([1, 2]),
        "mixed list": lambda np_: np_.array([True, 1, 2.5]),
        "bools and int": lambda np_: np_.array([True, 1]),
        "int8 and int": lambda np_: np_.array([np.int8(1), 2]),
        "int8 and float": lambda np_: np_.array([np.int8(1), 2.5]),
        "nested": lambda np_: np_.array([[1, 2.0], [3, 4]]),
        "tuple": lambda np_: np_.array(((1, 2), (3, 4))),
        "empty list": lambda np_: np_.array([]),
        "list of arrays": lambda np_: np_.array([np_.asarray(1.0), np_.asarray(2)]),
        "list of vectors": lambda np_: np_.array([np_.arange(2), np_.ones(2)]),
        "array and number of other rank": lambda np_: np_.array([np_.arange(2), 1]),
        "ragged": lambda np_: np_.array([[1, 2], [3]]),
        "weak array": lambda np_: np_.array(np_.asarray(2.0)),
        "numpy int64": lambda np_: np_.array(np.arange(3)),
        "numpy float64": lambda np_: np_.array(np.ones(3)),
        "numpy scalar": lambda np_: np_.array(np.float64(3)),
        "range": lambda np_: np_.array(range(3)),
        "none": lambda np_: np_.array(None),
        "list with none": lambda np_: np_.array([None]),
        "string": lambda np_: np_.array("a"),
        "list of strings": lambda np_: np_.array(["a"]),
        "object": lambda np_: np_.array(object()),
        "int too large": lambda np_: np_.array(2**40),
        "list of ints too large": lambda np_: np_.array([2**40]),
        "uint8 too large": lambda np_: np_.array(300, dtype="uint8"),
        "uint8 too large in list": lambda np_: np_.array([300], dtype="uint8"),
        "uint8 negative": lambda np_: np_.array(-1, dtype="uint8"),
        "dtype float64": lambda np_: np_.array(1, dtype="float64"),
        "dtype int of float": lambda np_: np_.array(2.7, dtype=int),
        "dtype int of floats": lambda np_: np_.array([2.7, -2.7], dtype=int),
        "dtype bool": lambda np_: np_.array([0, 2, -1], dtype=bool),
        "dtype complex": lambda np_: np_.array([1, 2.5], dtype=complex),
        "dtype bfloat16": lambda np_: np_.array([1, 2.5], dtype=np_.bfloat16),
        "int to float": lambda np_: np_.array(3, dtype=np_.float32),
        "array with dtype": lambda np_: np_.array(np_.arange(3), dtype="float16"),
        "ndmin": lambda np_: np_.array([1, 2], ndmin=3),
        "bad dtype": lambda np_: np_.array(1, dtype="foo"),
        "order": lambda np_: np_.array(1, order="F"),
    },
    "asarray": {
        "int": lambda np_: np_.asarray(1),
        "weak with dtype": lambda np_: np_.asarray(np_.asarray(1), "int32"),
        "array": lambda np_: np_.asarray(np_.arange(3)),
        "copy": lambda np_: np_.copy(np_.asarray(1.0)),
        "copy of list": lambda np_: np_.copy([1]),
    },
    "scalar types": {
        "float32": lambda np_: np_.float32(1),
        "float64": lambda np_: np_.float64(1),
        "int8": lambda np_: np_.int8([1, 2]),
        "int8 too large": lambda np_: np_.int8(200),
        "uint8 of -1": lambda np_: np_.uint8(-1),
        "bool": lambda np_: np_.bool_(2),
        "complex64": lambda np_: np_.complex64(1.5),
        "bfloat16": lambda np_: np_.bfloat16(1.5),
        "of an array": lambda np_: np_.float16(np_.arange(3)),
    },
    "filled": {
        "zeros": lambda np_: np_.zeros((2, 3)),
        "zeros int": lambda np_: np_.zeros(3, int),
        "zeros of numpy shape": lambda np_: np_.zeros(np.array([2, 1])),
        "ones": lambda np_: np_.ones((), "bool"),
        "empty": lambda np_: np_.empty((0, 2)),
        "full": lambda np_: np_.full((2,), 1),
        "full scalar": lambda np_: np_.full((), 1.5),
        "full float16": lambda np_: np_.full(2, 1.5, "float16"),
        "full of array": lambda np_: np_.full((2, 2), np_.arange(2)),
        "full of weak": lambda np_: np_.full((2,), np_.asarray(1.0)),
        "full int of float": lambda np_: np_.full((2,), 2.7, int),
        "zeros_like int": lambda np_: np_.zeros_like(1),
        "zeros_like weak": lambda np_: np_.zeros_like(np_.asarray(1.0)),
        "zeros_like list": lambda np_: np_.zeros_like([1, 2]),
        "zeros_like dtype": lambda np_: np_.zeros_like(np_.asarray(1.0), "float32"),
        "ones_like shape": lambda np_: np_.ones_like(np_.arange(3), shape=(2, 2)),
        "full_like": lambda np_: np_.full_like(np_.arange(3), 2.7),
        "full_like weak": lambda np_: np_.full_like(np_.asarray(1.0), 3),
        "float shape": lambda np_: np_.zeros(3.0),
        "negative shape": lambda np_: np_.zeros((2, -1)),
        "string shape": lambda np_: np_.zeros("a"),
        "bad dtype": lambda np_: np_.zeros(3, "foo"),
    },
    "ranges": {
        "arange": lambda np_: np_.arange(5),
        "arange float": lambda np_: np_.arange(3.0),
        "arange weak": lambda np_: np_.arange(np_.asarray(2.0)),
        "arange step": lambda np_: np_.arange(1, 10, 3),
        "arange down": lambda np_: np_.arange(5, 0, -2),
        "arange floats": lambda np_: np_.arange(0.0, 1.0, 0.25),
        "arange float16": lambda np_: np_.arange(0, 1, 0.25, dtype="float16"),
        "arange int8": lambda np_: np_.arange(np.int8(3)),
        "arange nothing": lambda np_: np_.arange(1, 0),
        "arange of list": lambda np_: np_.arange([1]),
        "linspace": lambda np_: np_.linspace(0, 1, 5),
        "linspace open": lambda np_: np_.linspace(0, 1, 5, endpoint=False),
        "linspace one": lambda np_: np_.linspace(2, 3, 1),
        "linspace none": lambda np_: np_.linspace(2, 3, 0),
        "linspace int": lambda np_: np_.linspace(-3, 3, 4, dtype=int),
        "linspace arrays": lambda np_: np_.linspace(np_.arange(2), np_.ones(2), 3, axis=1),
        "linspace step": lambda np_: np_.linspace(0, 1, 5, retstep=True),
        "linspace bfloat16": lambda np_: np_.linspace(0, 1, 5, dtype="bfloat16"),
        "linspace negative": lambda np_: np_.linspace(0, 1, -1),
        "logspace": lambda np_: np_.logspace(0, 2, 3),
        "logspace base": lambda np_: np_.logspace(0, 3, 4, base=2, endpoint=False),
        "geomspace": lambda np_: np_.geomspace(1, 1000, 4),
        "geomspace negative": lambda np_: np_.geomspace(-1.0, -8.0, 4),
        "geomspace arrays": lambda np_: np_.geomspace(np_.arange(1, 3), 16, 3),
        "meshgrid": lambda np_: np_.meshgrid(np_.arange(3), np_.ones(2)),
        "meshgrid ij": lambda np_: np_.meshgrid(np_.arange(3), np_.ones(2), indexing="ij"),
        "meshgrid sparse": lambda np_: np_.meshgrid(np_.arange(3), np_.ones(2), sparse=True),
        "meshgrid 2d": lambda np_: np_.meshgrid(np_.ones((2, 2))),
        "mgrid": lambda np_: np_.mgrid[0:2, 0:3],
        "mgrid linspace": lambda np_: np_.mgrid[0:1:3j],
        "ogrid": lambda np_: np_.ogrid[0:2, 0:3],
        "r_": lambda np_: np_.r_[1:4, 0, 4],
        "r_ arrays": lambda np_: np_.r_[np_.ones(2), 0:1:3j],
        "r_ axis": lambda np_: np_.r_["0,2", np_.ones(2), np_.zeros(2)],
        "c_": lambda np_: np_.c_[np_.ones(2), np_.zeros(2)],
        "indices": lambda np_: np_.indices((2, 3)),
        "indices sparse": lambda np_: np_.indices((2, 3), sparse=True),
        "fromfunction": lambda np_: np_.fromfunction(lambda i, j: i + 2 * j, (2, 3)),
        "frombuffer": lambda np_: np_.frombuffer(b"\x01\x02\x03", "uint8"),
    },
    "matrices": {
        "eye": lambda np_: np_.eye(3),
        "eye rectangular": lambda np_: np_.eye(2, 4, 1, "int32"),
        "eye below": lambda np_: np_.eye(3, k=-1),
        "eye float k": lambda np_: np_.eye(3, k=1.0),
        "identity": lambda np_: np_.identity(2, "bool"),
        "tri": lambda np_: np_.tri(3, 4, 1),
        "tril": lambda np_: np_.tril(np_.asarray(F), -1),
        "triu": lambda np_: np_.triu(np_.asarray(F), 1),
        "triu stack": lambda np_: np_.triu(np_.ones((2, 3, 3), "int8")),
        "tril of vector": lambda np_: np_.tril(np_.ones(3)),
        "diag of matrix": lambda np_: np_.diag(np_.asarray(F)),
        "diag above": lambda np_: np_.diag(np_.asarray(F), 2),
        "diag outside": lambda np_: np_.diag(np_.asarray(F), 5),
        "diag of vector": lambda np_: np_.diag(np_.arange(3)),
        "diag of vector above": lambda np_: np_.diag(np_.arange(3), 1),
        "diag of vector below": lambda np_: np_.diag(np_.arange(2), -2),
        "diag of scalar": lambda np_: np_.diag(np_.asarray(1)),
        "diagflat": lambda np_: np_.diagflat(np_.ones((2, 2)), 1),
        "diagonal": lambda np_: np_.diagonal(np_.arange(24).reshape(2, 3, 4), 1, 1, 2),
        "diagonal of first axes": lambda np_: np_.diagonal(np_.arange(24).reshape(2, 3, 4)),
        "trace": lambda np_: np_.trace(np_.ones((2, 2), "uint8")),
        "trace offset": lambda np_: np_.trace(np_.asarray(F), 1),
        "trace bool": lambda np_: np_.trace(np_.ones((2, 2), bool)),
        "vander": lambda np_: np_.vander(np_.arange(3)),
        "vander increasing": lambda np_: np_.vander(np_.arange(3.0), 4, increasing=True),
        "matrix_transpose": lambda np_: np_.matrix_transpose(np_.ones((2, 3, 4))),
    },
    "dtypes": {
        "result_type": lambda np_: np_.zeros(0, np_.result_type("int32", "float16")),
        "result_type array": lambda np_: np_.zeros(0, np_.result_type(np_.ones(2), 1j)),
        "promote_types": lambda np_: np_.zeros(0, np_.promote_types("uint8", "int8")),
        "can_cast": lambda np_: [np_.can_cast("int8", "int32"), np_.can_cast("int32", "int8")],
        "issubdtype": lambda np_: np_.issubdtype("bfloat16", np_.floating),
        "isdtype": lambda np_: [np_.isdtype("int8", "integral"), np_.isdtype("int8", ("bool",))],
        "isdtype wrong": lambda np_: np_.isdtype("int8", "integer!"),
        "finfo": lambda np_: [float(np_.finfo("bfloat16").eps), float(np_.finfo("float32").max)],
        "iinfo": lambda np_: int(np_.iinfo("int8").max),
        "iscomplexobj": lambda np_: [np_.iscomplexobj(np_.ones(2)), np_.iscomplexobj(1j)],
        "isrealobj": lambda np_: np_.isrealobj(np_.ones(2)),
        "isscalar": lambda np_: [np_.isscalar(1.0), np_.isscalar(np_.ones(1))],
        "iterable": lambda np_: [np_.iterable(1), np_.iterable(np_.ones(1))],
        "names": lambda np_: [np_.pi, np_.e, np_.inf, np_.euler_gamma],
        "astype to int": lambda np_: np_.array([1.7, -1.7, 1e20, np.nan]).astype(int),
        "astype to uint8": lambda np_: np_.array([1.7, -1.7, 1e20, np.nan]).astype("uint8"),
        "astype complex to float": lambda np_: np_.array([1 + 2j]).astype(float),
        "astype wide int to int8": lambda np_: np_.array([300, -1]).astype("int8"),
        "astype weak": lambda np_: np_.asarray(1.0).astype("float32"),
        "view": lambda np_: np_.array([1.0, -1.0]).view("int32"),
        "view narrow": lambda np_: np_.array([1, 258]).view("uint8"),
        "view wide": lambda np_: np_.arange(4, dtype="uint8").view("uint16"),
    },
}


def _case(group: str, name: str, run: NP) -> Case:
    return Case(group, name, lambda lib: run(lib.numpy))


def cases() -> Iterator[Case]:
    for group, members in GROUPS.items():
        for name, run in members.items():
            yield _case(group, name, run)


TOPIC = Topic("numpy_creation", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
