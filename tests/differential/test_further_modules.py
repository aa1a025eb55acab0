"""The modules beside numpy and lax, and what programs add to them, give jax's values.

In an expression a module is known by its last name: `image`, `special`, `optimizers`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

import kiln
from tests.differential.expressions import lines, names
from tests.differential.oracle import Case, Topic

MODULES = (
    "flatten_util",
    "image",
    "test_util",
    "example_libraries.optimizers",
    "example_libraries.stax",
    "scipy.special",
    "scipy.stats",
)

VALUES: dict[str, str] = {
    "images": """
        image.resize(f(5, 4), (9, 3), 'nearest')
        image.resize(f(5, 4), (9, 3), 'linear')
        image.resize(f(5, 4), (2, 8), 'bilinear', antialias=False)
        image.resize(f(5, 4, 3), (3, 9, 3), 'cubic')
        image.resize(f(5, 4), (8, 9), 'bicubic-pytorch', antialias=False)
        image.resize(f(5, 4), (3, 9), 'bicubic-pytorch')
        image.resize(f(6, 7), (9, 3), 'lanczos3')
        image.resize(f(6, 7), (9, 3), 'lanczos5')
        image.resize(f(6, 7), (3, 14), 'area')
        image.resize(i(6, 7), (3, 14), 'linear')
        image.resize(f(6, 7), (6, 7), 'linear')
        image.resize(f(6, 7), (6, 7), image.ResizeMethod.CUBIC)
        image.resize(bf(6, 7), (3, 7), 'linear')
        image.scale_and_translate(f(5, 4), (7, 6), (0, 1), arr([1.5, 0.7], 'float32'), arr([0.3, -0.2], 'float32'), 'linear')
        image.scale_and_translate(f(5, 4), (7, 4), (0,), arr([1.5], 'float32'), arr([1.3], 'float32'), 'cubic', antialias=False)
        jax.grad(lambda x: (image.resize(x, (7, 3), 'linear') ** 2).sum())(f(5, 4))
        jax.jit(lambda x: image.resize(x, (7, 3), 'lanczos3'))(f(5, 4))
        image.resize(f(5, 4), (3,), 'linear')
        image.resize(f(5, 4), (3, 3), 'no such method')
        image.scale_and_translate(f(5, 4), (7, 6), (0,), arr([1.5]), arr([0.3]), 'nearest')
    """,
    "trees as vectors": """
        flatten_util.ravel_pytree({'a': f(2, 3), 'b': [f(4), 1.5]})[0]
        flatten_util.ravel_pytree({'a': i(2), 'b': f(2)})[0]
        flatten_util.ravel_pytree([])[0]
        flatten_util.ravel_pytree(f(2, 2))[1](f(4, seed='2'))
        list(flatten_util.ravel_pytree({'a': i(2), 'b': f(2)})[1](f(4)).values())
        flatten_util.ravel_pytree({'a': i(2), 'b': f(2)})[1](i(4))
        flatten_util.ravel_pytree(f(2))[1](f(3))
        jax.grad(lambda x: flatten_util.ravel_pytree({'a': x, 'b': x * 2})[0].sum())(f(3))
    """,
    "special functions": """
        special.logsumexp(f(3, 4), axis=1)
        special.xlogy(arr([0.0, 1.0, 2.5, 0.0], 'float32'), arr([0.0, 3.0, 0.5, 2.0], 'float32'))
        special.xlogy(2, arr([1, 2, 3]))
        special.xlog1py(arr([0.0, 1.0, 2.5], 'float32'), arr([-1.0, 3.0, 0.5], 'float32'))
        jax.grad(special.xlogy, (0, 1))(2.0, 3.0)
        jax.grad(special.xlogy, 1)(0.0, 3.0)
        jax.grad(special.xlog1py, (0, 1))(2.0, 3.0)
        special.entr(arr([-1.0, 0.0, 0.5, 2.0], 'float32'))
        special.rel_entr(arr([0.5, 0.0, 0.5, -1.0], 'float32'), arr([0.2, 0.3, 0.0, 1.0], 'float32'))
        special.kl_div(arr([0.5, 0.0, 0.5, 1.0], 'float32'), arr([0.2, 0.3, 0.0, 1.0], 'float32'))
        special.logit(arr([0.1, 0.5, 0.9, 0.0, 1.0], 'float32'))
        jax.grad(special.logit)(0.3)
        special.expit(f(5))
        special.expit(i(5))
        special.multigammaln(arr([2.5, 3.5, 10.0], 'float32'), 3)
        special.erf(f(4)), special.erfc(f(4)), special.erfinv(arr([-0.5, 0.0, 0.7], 'float32'))
        special.gammaln(abs(f(4)) + 1), special.digamma(abs(f(4)) + 1)
        special.polygamma(2, abs(f(4)) + 1), special.zeta(arr([2.0, 3.0], 'float32'), 1.5)
        special.gammainc(2.0, abs(f(4))), special.gammaincc(2.0, abs(f(4)))
        special.betainc(2.0, 3.0, arr([0.1, 0.5, 0.9], 'float32'))
        special.i0e(f(4)), special.i1e(f(4))
        special.softmax(f(3, 4), axis=0), special.log_softmax(f(3, 4), axis=1)
        special.softmax(f(3, 4)), special.log_softmax(f(3, 4))
        special.zeta(2.0)
        stats.norm.logpdf(f(4)), stats.norm.logpdf(f(4), 1.0, 2.0), stats.norm.pdf(f(4), 0.5)
        stats.norm.logpdf(i(4))
    """,
    "example libraries": """
        run(optimizers.sgd(0.1))
        run(optimizers.momentum(0.1, 0.9))
        run(optimizers.nesterov(0.1, 0.9))
        run(optimizers.adagrad(0.1))
        run(optimizers.rmsprop(0.1))
        run(optimizers.rmsprop_momentum(0.1))
        run(optimizers.adam(0.1))
        run(optimizers.adamax(0.1))
        run(optimizers.sm3(0.1))
        run(optimizers.sgd(optimizers.exponential_decay(0.1, 3, 0.5)))
        run(optimizers.sgd(optimizers.inverse_time_decay(0.1, 3, 0.5, staircase=True)))
        run(optimizers.sgd(optimizers.polynomial_decay(0.1, 3, 0.01, 2.0)))
        run(optimizers.sgd(optimizers.piecewise_constant([1, 2], [0.1, 0.2, 0.3])))
        optimizers.l2_norm({'a': f(3), 'b': f(2, 2)})
        list(optimizers.clip_grads({'a': f(3), 'b': f(2, 2)}, 0.1).values())
        run(optimizers.pack_optimizer_state and optimizers.adam(0.05, eps=0.1))
        optimizers.piecewise_constant([1], [0.1])
        net(stax.serial(stax.Conv(4, (3, 3), padding='SAME'), stax.Relu, stax.MaxPool((2, 2), (2, 2)), stax.Flatten, stax.Dense(3), stax.LogSoftmax), (2, 8, 8, 3))
        net(stax.serial(stax.ConvTranspose(2, (3, 3), (2, 2)), stax.BatchNorm(), stax.AvgPool((2, 2)), stax.SumPool((2, 2))), (2, 4, 4, 3))
        net(stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Identity), stax.FanInConcat()), (2, 4))
        net(stax.serial(stax.FanOut(2), stax.parallel(stax.Dense(3), stax.Dense(3)), stax.FanInSum, stax.Selu), (2, 4))
        net(stax.shape_dependent(lambda shape: stax.Dense(shape[-1])), (2, 4))
    """,
    "matrices": """
        lax.linalg.tridiagonal_solve(f(2, 5), f(2, 5, seed='d') + 9, f(2, 5, seed='u'), f(2, 5, 3))
        lax.linalg.tridiagonal_solve(f(5), f(5, seed='d'), f(5, seed='u'), f(5, 1))
        lax.linalg.tridiagonal_solve(f(1), f(1) + 2, f(1), f(1, 2))
        jax.grad(lambda d: lax.linalg.tridiagonal_solve(f(5), d + 9, f(5), f(5, 1)).sum())(f(5))
        lax.linalg.tridiagonal_solve(f(5), f(4), f(5), f(5, 1))
        lax.linalg.tridiagonal_solve(f(5), f(5), f(5), f(5))
        jnp.tril(lax.linalg.symmetric_product(f(3, 4), f(3, 3) + f(3, 3).T, alpha=2.0, beta=0.5))
        lax.linalg.symmetric_product(f(3, 4), f(3, 3) + f(3, 3).T, symmetrize_output=True)
        abs(lax.linalg.cholesky_update(jnp.triu(f(4, 4)) + 9 * jnp.eye(4), f(4)))
        lax.linalg.ormqr(*reflectors(f(5, 3)), f(5, 2))
        lax.linalg.ormqr(*reflectors(f(5, 3)), f(5, 2), transpose=True)
        lax.linalg.ormqr(*reflectors(f(5, 3)), f(2, 5), left=False)
        lax.linalg.ormqr(*reflectors(z(5, 3)), z(2, 5), left=False, transpose=True)
        lax.linalg.ormqr(*reflectors(z(5, 3)), z(5, 2), transpose=True)
        lax.linalg.qdwh(f(4, 4) + 5 * jnp.eye(4))[:2]
        lax.ragged_dot(f(6, 3), f(4, 3, 2), arr([2, 1, 0, 2]))
        jax.grad(lambda y: lax.ragged_dot(f(6, 3), y, arr([2, 1, 0, 2])).sum())(f(4, 3, 2))
        lax.ragged_dot(f(6, 3), f(4, 2, 2), arr([2, 1, 0, 2]))
        lax.dot(f(3, 4), f(4, 2), precision=lax.DotAlgorithmPreset.F32_F32_F32)
        lax.dot(f(3, 4), f(4, 2), precision='F32_F32_F32')
        lax.dot(f(3, 4), f(4, 2), precision=lax.DotAlgorithmPreset.DEFAULT)
    """,
    "programs": """
        lax.composite(lambda x, *, k: jnp.sin(x) * k, 'my.op')(f(3), k=2.0)
        lax.platform_dependent(f(3), cpu=jnp.sin, default=jnp.cos)
        lax.platform_dependent(f(3), tpu=jnp.sin, default=jnp.cos)
        lax.platform_dependent(f(3), tpu=jnp.sin)
        np.asarray(lax.conv_shape_tuple((2, 3, 9, 8), (4, 3, 3, 2), (2, 1), 'VALID'))
        np.asarray(lax.conv_general_shape_tuple((2, 9, 8, 3), (3, 2, 3, 4), (2, 1), 'SAME', ('NHWC', 'HWIO', 'NHWC')))
        np.asarray(lax.conv_transpose_shape_tuple((2, 9, 8, 3), (3, 2, 3, 4), (2, 1), 'VALID', ('NHWC', 'HWIO', 'NHWC')))
        np.asarray(lax.conv_general_permutations(('NHWC', 'HWIO', 'NHWC')))
        np.asarray(lax.reduce_window_shape_tuple((9, 8), (3, 2), (2, 1), ((0, 1), (1, 0)), (1, 2), (2, 1)))
        lax.shape_as_value((2, 3))
        list(jax.fwd_and_bwd(lambda x, y: jnp.sin(x) * y, (0, 1))[0](f(3), f(3))[:1])
        passes(lambda x, y: jnp.sin(x) * y, (0, 1))
        passes(lambda x, y: jnp.sin(x) * y, 1)
        jax.named_call(jnp.sin, name='a')(f(3))
        jax.jit(jax.named_scope('a')(jnp.sin))(f(3))
        np.asarray(jax.dtypes.itemsize_bits('bfloat16')), np.asarray(jax.dtypes.itemsize_bits('bool'))
        np.asarray(jax.typeof(f(3, 4)).shape)
    """,
    "devices": """
        jax.pmap(lambda x: x * 2)(f(8, 3))
        jax.pmap(lambda x: lax.psum(x, 'i'), axis_name='i')(f(8, 3))
        jax.pmap(lambda x, y: (x * y, y), in_axes=(1, None), out_axes=(1, 0))(f(3, 4), f(3))
        jax.pmap(lambda x, n: x * n, static_broadcasted_argnums=1)(f(4), 3)
        jax.pmap(lambda x: {'a': x + lax.axis_index('i')}, axis_name='i')(f(4))['a']
        jax.pmap(lambda x: x)(f(9))
        jax.pmap(lambda x, y: x + y)(f(3), f(4))
        jax.pmap(lambda x: x)(2.0)
        jax.pmap(lambda x: x, axis_size=3)(f(3))
        jax.grad(lambda x: jax.pmap(jnp.sin)(x).sum())(f(4))
    """,
}


def _module(lib: Any, name: str) -> Any:
    if isinstance(lib, ModuleType):
        return importlib.import_module(f"{lib.__name__}.{name}")
    return functools.reduce(getattr, name.split("."), lib)


def expand(lib: Any, text: str) -> Any:
    """Evaluate an expression with the names of a library."""
    known = names(lib)
    for name in MODULES:
        known[name.rpartition(".")[2]] = _module(lib, name)
    _module(lib, "scipy.stats.norm")
    jnp, random = lib.numpy, lib.random

    def run(optimizer: Any) -> list[Any]:
        init, update, get_params = optimizer
        state = init({"a": known["f"](2, 3), "b": known["f"](4)})
        for step in range(3):
            state = update(
                step, {"a": known["f"](2, 3, seed="g"), "b": known["f"](4, seed="g")}, state
            )
        return list(get_params(state).values())

    def net(layer: Any, shape: tuple[int, ...]) -> list[Any]:
        with lib.threefry_partitionable(True):
            out_shape, params = layer[0](random.key(0), shape)
        return [layer[1](params, known["f"](*shape)), jnp.asarray(out_shape)]

    def passes(fun: Any, argnums: Any) -> Any:
        fwd, bwd = lib.fwd_and_bwd(fun, argnums)
        value, residuals = fwd(known["f"](3), known["f"](3, seed="y"))
        return [value, *bwd(residuals, known["f"](3, seed="c"))]

    def reflectors(x: Any) -> Any:
        # The transpose of what NumPy calls raw.
        h, taus = jnp.linalg.qr(x, mode="raw")
        return h.mT, taus

    known |= {"run": run, "net": net, "passes": passes, "reflectors": reflectors}
    return eval(text, known)


def _cases() -> Iterable[Case]:
    for group, text in VALUES.items():
        for line in lines(text):
            yield Case(group, line, functools.partial(expand, text=line), tolerance=1e-4)


TOPIC = Topic("further_modules", _cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
