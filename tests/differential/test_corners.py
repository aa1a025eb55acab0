"""Corner cases are jax's: seeds, keys beside numbers, masks, empty arrays, dtypes of things, modes.

Expressions are evaluated eagerly and, where it says so, with 64-bit types or in a strict mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import kiln
import kiln.lax
import kiln.nn
import kiln.numpy
import kiln.random
from kiln.base.options.config import override
from tests.differential.expressions import case, lines, names
from tests.differential.oracle import Case, Topic

SEEDS = (-1, -2, -(2**31), -(2**32) - 1, -(2**40) - 3, -(2**63), -(2**63) - 1)
SEEDS += (2**32, 2**40 + 3, 2**63 - 1, 2**63, 2**64 - 1, 2**64)
SEEDED = [f"jax.random.{make}" for make in ("PRNGKey({})", "key_data(jax.random.key({}))")]
STAGED = ["jax.jit(lambda: jax.random.PRNGKey({}))()", "jax.jit(jax.random.PRNGKey)({})"]

GROUPS = {
    "keys are no numbers": """
        int(jax.random.key(0))
        float(jax.random.key(0))
        complex(jax.random.key(0))
        bool(jax.random.key(0))
        np.asarray(jax.random.key(0))
        np.arange(3)[jax.random.key(0)]
        jnp.zeros(jax.random.key(0))
        jnp.zeros((jax.random.key(0), 2))
        jnp.arange(jax.random.key(0))
        jnp.linspace(0, 1, jax.random.key(0))
        jnp.bartlett(jax.random.key(0))
        jnp.sum(jax.random.key(0))
        jnp.prod(jax.random.key(0))
        jnp.max(jax.random.key(0))
        jnp.min(jax.random.key(0))
        jnp.nansum(jax.random.key(0))
        jnp.sum(jax.random.split(jax.random.key(0)))
        jnp.sort(jax.random.split(jax.random.key(0)))
        jnp.argsort(jax.random.split(jax.random.key(0)))
        jnp.unique(jax.random.split(jax.random.key(0)))
        jnp.union1d(jax.random.split(jax.random.key(0)), jax.random.split(jax.random.key(0)))
        jnp.nonzero(jax.random.split(jax.random.key(0)))
        jnp.isreal(jax.random.key(0))
        jnp.iscomplex(jax.random.key(0))
        jnp.array_equiv(jax.random.key(0), 1.0)
        jnp.from_dlpack(jax.random.key(0))
        lax.sort(jax.random.split(jax.random.key(0)))
        jax.random.key_data(jnp.where(True, *jax.random.split(jax.random.key(0))))
    """,
    "multinomial": """
        jax.random.multinomial(jax.random.key(0), 10., jnp.array([.2, .3, .5]), shape=(7, 5, 3))
        jax.random.multinomial(jax.random.key(0), 10., jnp.array([.2, .3, .5]), shape=(7, 5))
        jax.random.multinomial(jax.random.key(0), 10., jnp.array([.2, .3, .5]))
        jax.random.multinomial(jax.random.key(0), arr([5., 9.], 'f4'), jnp.array([.2, .3, .5]))
        jax.random.multinomial(jax.random.key(0), arr([5., 9.], 'f4'), jnp.ones(3) / 3, shape=(2, 3))
        jax.random.multinomial(jax.random.key(0), 10, jnp.ones((2, 3)) / 3, shape=(4, 2, 3))
        jax.random.multinomial(jax.random.key(0), 10, jnp.ones((2, 3)) / 3, shape=(4,))
        jax.random.multinomial(jax.random.key(0), 10, jnp.ones((2, 3)) / 3, shape=())
        jax.random.multinomial(jax.random.key(0), 10, jnp.ones((2, 3)) / 3, unroll=3)
    """,
    "where is bools": """
        jnp.sum(f(3), where=1)
        jnp.sum(f(3), where=True)
        jnp.sum(f(3), where=arr([1, 0, 1]))
        jnp.sum(f(3), where=arr([1., 0, 1]))
        jnp.prod(f(3), where=arr([1, 0, 1]))
        jnp.max(f(3), where=arr([1, 0, 1]), initial=0)
        jnp.min(f(3), where=arr([1, 0, 1]), initial=0)
        jnp.all(f(3), where=arr([1, 0, 1]))
        jnp.any(f(3), where=arr([1, 0, 1]))
        jnp.mean(f(3), where=arr([1, 0, 1]))
        jnp.var(f(3), where=arr([1, 0, 1]))
        jnp.std(f(3), where=arr([1, 0, 1]))
        jnp.nansum(f(3), where=arr([1, 0, 1]))
        jnp.nanmax(f(3), where=arr([1, 0, 1]), initial=0)
        jnp.nanmean(f(3), where=arr([1, 0, 1]))
        jnp.nanvar(f(3), where=arr([1, 0, 1]))
        jax.nn.softmax(f(3), where=arr([1, 0, 1]))
        jax.nn.log_softmax(f(3), where=arr([1, 0, 1]))
        jax.nn.logsumexp(f(3), where=arr([1, 0, 1]))
        jax.nn.standardize(f(3), where=arr([1, 0, 1]))
    """,
    "average": """
        jnp.average(f(2, 3, 4), axis=(0, 1), weights=abs(f(2, 3)))
        jnp.average(f(2, 3, 4), axis=(1, 0), weights=abs(f(3, 2)))
        jnp.average(f(2, 3, 4), axis=(2, 0), weights=abs(f(4, 2)), returned=True)
        jnp.average(f(2, 3, 4), axis=(0, 2), weights=abs(f(4, 2)))
        jnp.average(f(2, 3, 4), axis=(0, -1), weights=abs(f(2, 4)), keepdims=True)
        jnp.average(f(2, 3, 4), weights=abs(f(3)))
    """,
    "empty arrays": """
        f(3)[np.empty((3, 0), bool)]
        f(3, 4)[np.empty((3, 0), bool)]
        f(3, 4)[np.empty((0, 4), bool)]
        f(3)[np.empty((0,), bool)]
        f(3, 4)[np.empty((2, 0), bool)]
        f(0)[0]
        f(0)[jnp.array([0])]
        f(0, 3)[:, 0]
        f(3, 0)[:, 0]
        jnp.take(f(0), 0)
        jnp.diff(f(0))
        jnp.diff(f(0), n=2)
        jnp.diff(f(1), n=3)
        jnp.diff(f(0, 3))
        jnp.diff(f(3, 0))
        jnp.diff(f(0), prepend=1.)
        jnp.diff(jnp.array([], bool))
        jnp.ediff1d(f(0))
        jnp.ediff1d(f(0), to_end=f(2))
    """,
    "shapes of lists": """
        jnp.shape([1, 2, 3])
        jnp.shape([[1, 2, 3]])
        jnp.shape([f(2), f(2)])
        jnp.shape(1)
        jnp.shape(f(2, 3))
        jnp.ndim([1, 2])
        jnp.size([1, 2])
        jnp.size([[1, 2]], 1)
        jax.jit(lambda x: jnp.zeros(jnp.shape(x)))(f(2))
    """,
    "delete": """
        jnp.delete(f(5), jnp.array([1, 2]), assume_unique_indices=True)
        jax.jit(lambda x, i: jnp.delete(x, i, assume_unique_indices=True))(f(5), arr([3, 1]))
        jax.jit(lambda x, i: jnp.delete(x, i, 1, assume_unique_indices=True))(f(5, 4), arr([1, -1]))
        jax.jit(lambda x, i: jnp.delete(x, i, 0, assume_unique_indices=True))(f(3, 4), arr([2, 0, 1]))
        jax.jit(lambda x, i: jnp.delete(x, i, assume_unique_indices=True))(f(5), arr([], 'int32'))
        jax.jit(lambda x, i: jnp.delete(x, i))(f(5), arr([1, 2]))
    """,
    "one hot": """
        jax.nn.one_hot(1, jnp.asarray(2))
        jax.nn.one_hot(arr([0, 1]), np.int32(2))
        jax.nn.one_hot(arr([0, 1]), 0)
        jax.nn.one_hot(arr([0, 1]), 2.5)
        jax.jit(lambda n: jax.nn.one_hot(arr([0, 1]), n))(2)
    """,
    "dtypes of things": """
        jnp.iscomplexobj(jnp.complex64)
        jnp.iscomplexobj(np.complex64)
        jnp.iscomplexobj(jax.ShapeDtypeStruct((2,), jnp.complex64))
        jnp.iscomplexobj('complex64'), jnp.iscomplexobj('a'), jnp.iscomplexobj(None)
        jnp.iscomplexobj([1j]), jnp.iscomplexobj(1j), jnp.iscomplexobj(z(2))
        jnp.isrealobj(jnp.float32), jnp.isrealobj(None)
        jnp.issubdtype(f(2), jnp.floating), jnp.issubdtype(z(2), jnp.floating)
        jnp.issubdtype(None, jnp.floating), jnp.issubdtype(None, jnp.integer)
        jnp.issubdtype(jnp.floating, None), jnp.issubdtype(np.float64, None)
        jnp.issubdtype(jnp.floating, f(2))
        jnp.issubdtype(jax.ShapeDtypeStruct((2,), jnp.float32), jnp.floating)
        jnp.issubdtype(np.float32(1), jnp.floating)
        jnp.issubdtype(1, jnp.floating)
        jnp.isdtype(f(2), 'real floating'), jnp.isdtype(None, 'real floating')
        jnp.zeros(1, jax.dtypes.canonicalize_dtype(None))
        jnp.zeros(1, jax.dtypes.canonicalize_dtype(jax.ShapeDtypeStruct((), 'float64')))
        jnp.zeros(1, jax.dtypes.canonicalize_dtype(np.float64(2)))
        jnp.zeros(1, jnp.result_type(None)), jnp.zeros(1, jnp.result_type(f16(2), None))
        jnp.zeros(1, jnp.result_type(i(2), None))
        jnp.can_cast(f(2), 'int32'), jnp.can_cast('int8', i(2))
        jnp.can_cast(None, 'int32')
        jnp.zeros(1, jax.ShapeDtypeStruct((), 'float16')), jnp.zeros(1, np.float16(1))
        int(jnp.iinfo(i(2)).max), int(jnp.iinfo(1).max), int(jnp.iinfo(np.int8(1)).max)
        int(jnp.iinfo(jax.ShapeDtypeStruct((2,), 'int8')).max), int(jnp.iinfo(jnp.int4(1)).max)
        int(jax.dtypes.iinfo(i8(2)).max), float(jax.dtypes.finfo(f16(2)).max)
        float(jnp.finfo(f(2)).max), float(jnp.finfo(bf(2)).max), float(jnp.finfo(z(2)).max)
        float(jnp.finfo(None).max), float(jnp.finfo(np.ones(2, 'float16')).max)
        float(jnp.finfo(jax.ShapeDtypeStruct((2,), 'float16')).max)
        jnp.finfo(i(2))
        jnp.iinfo(f(2))
        jnp.finfo(1.0)
    """,
    "NumPy operands of lax": """
        lax.add(np.ones((1, 3), 'float32'), f(2, 3)), lax.add(f(2, 3), np.ones((2, 1), 'float32'))
        lax.add(np.ones((1, 3), 'float32'), np.ones((2, 3), 'float32'))
        lax.add(np.ones((2, 1), 'float32'), f(1, 3))
        lax.max(np.ones((1, 3), 'int32'), i(2, 3)), lax.shift_left(np.ones((1, 3), 'int32'), i(2, 3))
        lax.eq(np.ones((1, 3), 'float32'), f(2, 3)), lax.pow(np.ones((1, 3), 'float32'), f(2, 3))
        lax.atan2(np.ones((1, 3), 'float32'), f(2, 3)), lax.complex(np.zeros((1, 3), 'f4'), f(2, 3))
        lax.nextafter(np.zeros((1, 3), 'float32'), f(2, 3))
        lax.add(np.ones((3,), 'float32'), f(2, 3))
        lax.add(np.ones((2, 3), 'float32'), f(3, 3))
    """,
    "order of complex numbers": """
        lax.lt(z(2), z(2))
        lax.le(z(2), z(2))
        lax.gt(z(2), z(2))
        lax.ge(z(2), z(2))
        jnp.less(z(3), z(3, seed='y')), z(3) >= z(3, seed='y')
        jnp.sort(z(5)), jnp.argmax(z(5))
    """,
    "starts of one dtype": """
        lax.dynamic_slice(f(3, 4), (jnp.int32(0), jnp.int8(0)), (1, 1))
        lax.dynamic_slice(f(3, 4), (np.int8(0), 1), (1, 1))
        lax.dynamic_slice(f(3, 4), (jnp.uint32(0), jnp.int32(1)), (1, 1))
        lax.dynamic_slice(f(3, 4), (np.int8(0), np.int8(1)), (1, 1))
        lax.dynamic_slice(f(3, 4), (np.int64(0), 1), (1, 1))
        lax.dynamic_slice(f(3, 4), (0., 1), (1, 1))
        lax.dynamic_update_slice(f(3, 4), f(1, 1), (jnp.uint8(0), 0))
        lax.dynamic_update_slice(f(3, 4), f(1, 1), (jnp.uint8(0), jnp.uint8(2)))
        lax.dynamic_slice_in_dim(f(3, 4), np.int8(0), 1)
        lax.dynamic_update_slice_in_dim(f(3, 4), f(1, 4), jnp.uint8(0), 0)
    """,
    "residual of attention": """
        jax.nn.dot_product_attention(*[f16(1, 2, 1, 4)] * 3, return_residual=True)
        jax.nn.dot_product_attention(*[bf(1, 2, 1, 4)] * 3, return_residual=True)
        jax.nn.dot_product_attention(*[f(1, 2, 1, 4)] * 3, return_residual=True)
    """,
}

STRICT = {
    "numpy_rank_promotion": """
        jnp.polyfit(f(5), f(5, seed='y'), 2)
        jnp.polyfit(f(5), f(5, 2, seed='y'), 1, w=abs(f(5)) + 1)
        jnp.trapezoid(f(3, 4), f(4)), jnp.trapezoid(f(3, 4), f(3), axis=0)
        jnp.isin(i(5), i(3)), jnp.isin(i(2, 3), i(3)), jnp.setdiff1d(i(5), i(3))
        jnp.isin(f(), f(3))
        jax.random.multivariate_normal(jax.random.key(0), f(2), jnp.eye(2))
        jax.random.multivariate_normal(jax.random.key(0), f(2), jnp.eye(2), (4,), method='svd')
        jnp.cov(f(3, 4), aweights=abs(f(4)) + 1), jnp.cov(f(3, 4), fweights=abs(i(4)) + 1)
        jnp.linalg.pinv(f(2, 3, 4))
        jnp.linalg.pinv(f(3, 4)), jnp.linalg.pinv(f(2, 3, 4), rtol=arr([1e-3, 1e-2], 'f4'))
        jnp.add.outer(f(3), f(4)), jnp.multiply.outer(f(2, 3), f(4))
        jnp.average(f(3, 4), 1, abs(f(4)) + 1), jnp.mean(f(3, 4), 0, where=b(3, 4))
        f(3, 4) + f(4)
        f(3, 4) + f()
    """,
    "numpy_dtype_promotion": """
        jnp.mean(f(3, 4), dtype='float16'), jnp.mean(f16(3, 4), dtype='float32')
        jnp.mean(f(3, 4), dtype='int32'), jnp.mean(i(3, 4), dtype='float32')
        jnp.var(f(3, 4), dtype='float16'), jnp.std(f16(3, 4), dtype='float32')
        jnp.nanmean(f(3, 4), dtype='float16'), jnp.nanstd(f(3, 4), 1, dtype='float16')
        jnp.linspace(0, 5, 4, dtype='int32'), jnp.linspace(0, 5, 4, dtype='float16')
        jnp.fft.fft(f(5)), jnp.fft.irfft(f(5)), jnp.fft.fftn(f(3, 4))
        jnp.sum(i(3), dtype='float32'), jnp.cumsum(i(3), dtype='float32')
        f(3) + 1
    """,
}


def _strict(option: str, line: str) -> Case:
    mode = "raise" if option == "numpy_rank_promotion" else "strict"

    def run(lib: Any) -> Any:
        with (
            warnings.catch_warnings(),
            getattr(lib, option)(mode),
            lib.threefry_partitionable(True),
        ):
            warnings.simplefilter("ignore")
            return lib.tree.leaves(eval(line, names(lib)))

    # Fits and inverses of small numbers are not exact to the last bits.
    return Case(option, line, run, 1e-3)


def cases() -> Iterator[Case]:
    for wide in (False, True):
        group = f"seeds, {64 if wide else 32} bits"
        for seed in SEEDS:
            for make in SEEDED + (STAGED if seed in (-1, 2**40 + 3, 2**63) else []):
                yield case(group, make.format(seed), x64=wide)
    for group, text in GROUPS.items():
        for line in lines(text):
            yield case(group, line)
    for option, text in STRICT.items():
        for line in lines(text):
            yield _strict(option, line)


TOPIC = Topic("corners", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax_by_meaning(group: str) -> None:
    with override(engine="reference"):
        TOPIC.check(group, kiln)


@pytest.mark.parametrize("group", ["seeds, 32 bits", "seeds, 64 bits", "order of complex numbers"])
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
