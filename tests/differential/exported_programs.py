"""Programs that real jax exports, whose bytes and answers are stored: kiln loads and compiles them.

A program is a function of jax and of arrays; it returns a list of arrays. `symbolic` are the shapes
it is exported for, if their sizes have names.
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

DRAW = np.random.RandomState(0)
X = DRAW.uniform(-2, 2, (4, 5)).astype(np.float32)
M = DRAW.randn(5, 5).astype(np.float32)
SPD = (M @ M.T + 5 * np.eye(5)).astype(np.float32)
V = DRAW.randn(60).astype(np.float32)
LONG = (10 * DRAW.randn(600)).round().astype(np.float32) / 10
I = DRAW.randint(-50, 50, 6).astype(np.int32)
J = DRAW.randint(1, 7, 6).astype(np.int32)
PLACES = np.array([3, 1, 7, -2, 0], np.int32)
IMAGE = DRAW.randn(2, 8, 9, 3).astype(np.float32)
KERNEL = DRAW.randn(3, 3, 3, 4).astype(np.float32)
EDGES = np.array([1, np.nan, -0.0, 0, np.inf, -np.inf, -np.nan, 3, 3], np.float32)
KEY = np.array([1, 2], np.uint32)
CHANNELS = ("NHWC", "HWIO", "NHWC")


@dataclasses.dataclass(frozen=True)
class Program:
    """A function of jax and arrays, and the arrays."""

    function: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    symbolic: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ("cpu",)
    derivative: bool = False
    tolerance: float | None = None


def unary(names: str, where: str = "numpy", scale: float = 1.0) -> Callable[..., Any]:
    """Return a program that applies functions of one array."""

    def run(jax: Any, x: Any) -> list[Any]:
        module = importlib.import_module(f"jax.{where}")
        return [getattr(module, name)(x * scale) for name in names.split()]

    return run


def binary(names: str) -> Callable[..., Any]:
    """Return a program that applies functions of two arrays."""
    return lambda jax, x, y: [getattr(jax.numpy, name)(x, y) for name in names.split()]


def along(names: str) -> Callable[..., Any]:
    """Return a program that reduces along each axis."""
    return lambda jax, x: [getattr(jax.numpy, n)(x, axis=a) for n in names.split() for a in (0, 1)]


def running(jax: Any, x: Any) -> Any:
    """Reduce all elements up to each, or from it on."""
    lax = jax.lax
    down = lax.cumsum(x, 0, reverse=True), lax.cummin(x, 1, reverse=True)
    return [lax.cummax(x, 0), lax.cumprod(x, 1), lax.cumlogsumexp(x, 0), *down]


def order(jax: Any, x: Any, v: Any, i: Any, j: Any) -> Any:
    """Sort numbers, ties, nans, several keys, complex numbers."""
    jnp, lax = jax.numpy, jax.lax
    few = v[:20].round()
    return [
        *(jnp.argmax(x), jnp.argmin(x), jnp.sort(x), jnp.argsort(x), jnp.nanargmax(x)),
        *(*lax.top_k(x, 3), *lax.top_k(v.reshape(3, 20), 4)),
        *(jnp.sort(v, descending=True), jnp.argsort(-v.round(), stable=True)),
        *lax.sort((few, v[20:40].round(), v[40:]), num_keys=2),
        *(jnp.sort(few + 1j * v[20:40].round()), jnp.lexsort((i, j)), jnp.searchsorted(v, x)),
        *(jnp.unique(i, size=7), jnp.median(v), jnp.percentile(v, 30.0), jnp.sort(few > 0)),
        *(jnp.histogram(v, 10)[0], jnp.bincount(j, length=8), jnp.sort(i.reshape(2, 3), 0)),
    ]


def sorts(jax: Any, v: Any) -> Any:
    """Sort many numbers, which kiln and jax may pack."""
    jnp = jax.numpy
    return [jnp.sort(v), jnp.argsort(v), *jax.lax.sort((v, v * 2), num_keys=1)]


def reads(jax: Any, x: Any, i: Any) -> Any:
    """Read elements, rows, windows; inside and outside."""
    jnp, lax = jax.numpy, jax.lax
    modes = ("clip", "fill", "wrap")
    return [
        *(x[i % 4], x[:, i % 5], x[i], x[jnp.array([0, 1]), jnp.array([2, 9])], x[::2, ::-1]),
        *[jnp.take(x, i, axis=1, mode=mode) for mode in modes],
        *(jnp.take_along_axis(x, (i % 4)[None, :], 0), lax.dynamic_slice(x, (i[0], i[2]), (2, 3))),
        *(lax.dynamic_index_in_dim(x, i[0], 0), (x > 0)[i], x.astype(jnp.bfloat16)[i]),
    ]


def writes(jax: Any, x: Any, i: Any) -> Any:
    """Write elements, rows, windows; inside and outside."""
    jnp, lax = jax.numpy, jax.lax
    rows, flags = x.at[i], (x > 0).at[i]
    return [
        *(rows.set(9.0), rows.add(1.0), rows.mul(3.0), rows.min(0.0), rows.max(0.0)),
        *(rows.subtract(2.0), rows.divide(2.0), rows.set(1.0, mode="clip"), x.at[1, i].set(5.0)),
        *(x.at[i, i].add(2.0, mode="drop"), x.at[:, 1].set(0.0), flags.set(True), flags.max(True)),
        *(lax.dynamic_update_slice(x, jnp.ones((2, 2)), (i[0], i[2])), x.astype(int).at[i].add(3)),
        *(jax.ops.segment_sum(x, i[:4] % 3, 4), jax.ops.segment_max(x, i[:4] % 3, 4)),
    ]


def shapes(jax: Any, x: Any) -> Any:
    """Pad, join, repeat, transpose, tile."""
    jnp, lax = jax.numpy, jax.lax
    return [
        *(jnp.pad(x, 2, mode="reflect"), jnp.pad(x, ((1, 0), (0, 2)), constant_values=3)),
        *(lax.pad(x, 0.0, ((1, -1, 2), (0, 1, 0))), jnp.roll(x, 3), jnp.flip(x), jnp.tril(x)),
        *(jnp.concatenate([x, x], 1), jnp.stack([x, x], 1), jnp.tile(x, (2, 3))),
        *(jnp.repeat(x, 3, 0), jnp.diag(x[0]), jnp.rot90(x), jnp.moveaxis(x[None], 0, 2)),
        *(jnp.kron(x, x), x[:0], x[:0].sum(), x[:, :0] @ jnp.ones((0, 2)), jnp.sort(x[:0])),
    ]


def loops(jax: Any, x: Any) -> Any:
    """Scan, map, while, fori, with values from outside, and loops in loops."""
    jnp, lax = jax.numpy, jax.lax

    def nested(c: Any, row: Any) -> Any:
        c = lax.fori_loop(0, 3, lambda i, c: c * 0.5 + row[i] * x[0], c)
        return c, c.sum()

    flag, step = lambda c: (c[0] < 10) & (c[1].sum() < 1e3), lambda c: (c[0] + 1, c[1] * 1.5 + c[0])
    return [
        *jax.tree.leaves(lax.scan(lambda c, r: (c * 0.9 + r, (c, r * 2)), x[0], x)),
        *lax.scan(lambda c, r: (c * 0.9 + r, c), x[0], x, reverse=True),
        *lax.scan(nested, x[0], x),
        *(lax.associative_scan(jnp.add, x), lax.map(lambda r: r.sum(), x)),
        *lax.while_loop(flag, step, (0, jnp.abs(x))),
        lax.fori_loop(0, x[0, 0].astype(int) + 7, lambda i, c: c * 0.5 + i, x),
        lax.while_loop(lambda c: jnp.any(c < x + 3), lambda c: c + jnp.exp(x - c), x),
    ]


def branches(jax: Any, x: Any, i: Any) -> Any:
    """Choose by a flag, by a number inside and outside the range, and row by row."""
    jnp, lax = jax.numpy, jax.lax
    choices = [jnp.sin, jnp.cos, lambda x: x * 0 + 7]
    return [
        lax.cond(x[0, 0] > 0, lambda x: x + 1, lambda x: x * 2, x),
        *[lax.switch(i + at, choices, x) for at in (-9, 0, 1, 9)],
        jax.vmap(lambda r: lax.cond(r[0] > 0, jnp.sin, jnp.cos, r))(x),
        lax.cond(x[0, 0] > 0, lambda: jnp.exp(x), lambda: jnp.ones_like(x)),
    ]


def convolutions(jax: Any, a: Any, w: Any) -> Any:
    """Convolve with strides, padding, holes, groups; and differentiate."""
    lax = jax.lax

    def convolved(a: Any, w: Any, strides: Any = (1, 1), padding: Any = "SAME", **how: Any) -> Any:
        return lax.conv_general_dilated(a, w, strides, padding, dimension_numbers=CHANNELS, **how)

    depth = jax.numpy.tile(w[:, :, :1], (1, 1, 1, 3))
    return [
        convolved(a, w),
        convolved(a, w, (2, 1), ((1, 2), (0, 1)), lhs_dilation=(1, 2), rhs_dilation=(2, 1)),
        convolved(a, depth, padding="VALID", feature_group_count=3),
        lax.conv_transpose(a, w, (2, 2), "SAME"),
        *jax.grad(lambda a, w: (convolved(a, w, (2, 1)) ** 2).sum(), (0, 1))(a, w),
    ]


def pools(jax: Any, a: Any) -> Any:
    """Reduce windows; and differentiate."""
    jnp, lax = jax.numpy, jax.lax

    def pooled(start: float, op: Any, size: int, stride: int, **how: Any) -> Any:
        sizes, strides = (1, size, size, 1), (1, stride, stride, 1)
        return lambda a: lax.reduce_window(a, start, op, sizes, strides, "SAME", **how)

    largest, total = pooled(-jnp.inf, lax.max, 2, 2), pooled(0.0, lax.add, 3, 1)
    smallest = pooled(jnp.inf, lax.min, 3, 2)
    return [
        *(largest(a), total(a), smallest(a), pooled(1.0, lax.mul, 2, 2)(a)),
        pooled(jnp.inf, lax.min, 2, 1, window_dilation=(1, 2, 1, 1))(a),
        *[jax.grad(lambda a, f=f: (f(a) ** 2).sum())(a) for f in (largest, total, smallest)],
    ]


def reductions(jax: Any, x: Any) -> Any:
    """Reduce by functions, several arrays at once, from other initial values."""
    jnp, lax = jax.numpy, jax.lax
    zero, low = np.float32(0), np.float32(-np.inf)
    return [
        lax.reduce(x, np.float32(2), lax.add, (0,)),
        lax.reduce(x, np.float32(1), lambda a, b: a * b + a + b - 0 * a, (1,)),
        *lax.reduce((x, x), (zero, low), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (0,)),
        lax.reduce(x > 0, False, lax.bitwise_xor, (0,)),
        *(jnp.all(x > -1, 0), jnp.any(x > 1), jnp.sum(x.astype(jnp.bfloat16), 0)),
    ]


def products(jax: Any, x: Any, m: Any) -> Any:
    """Multiply matrices of several types, batches, with precision."""
    jnp, lax = jax.numpy, jax.lax
    pairs, batch = (((2,), (2,)), ((0,), (0,))), x.reshape(2, 2, 5)
    short = x.astype(jnp.bfloat16), m.astype(jnp.bfloat16)
    return [
        *(x @ m, x @ x.T, jnp.outer(x[0], x[1]), (x + 1j) @ m, jnp.einsum("ij,kj->ik", x, x)),
        *(lax.dot_general(batch, batch, pairs), jnp.matmul(x, m, precision="highest")),
        jnp.dot(*short, preferred_element_type=jnp.float32),
        (x * 9).astype(jnp.int8) @ (m * 9).astype(jnp.int8),
        lax.ragged_dot(x, jnp.ones((2, 5, 3)), jnp.array([1, 3])),
    ]


def transforms(jax: Any, x: Any) -> Any:
    """Apply Fourier transforms."""
    fft = jax.numpy.fft
    return [fft.fft(x), fft.ifft2(x), fft.rfft(x, axis=0), fft.irfft(x + 0j, 8), fft.fftshift(x)]


def factorizations(jax: Any, a: Any, m: Any) -> Any:
    """Factor and solve; also batches, singular matrices, complex ones."""
    jnp, linalg, sla = jax.numpy, jax.numpy.linalg, importlib.import_module("jax.scipy.linalg")
    c = m + 1j * m.T
    return [
        *(linalg.cholesky(a), linalg.solve(a, m), linalg.inv(a), linalg.det(a), linalg.eigh(a)[0]),
        *(*linalg.slogdet(m), linalg.svd(m, compute_uv=False), jnp.abs(linalg.qr(m)[1])),
        *(linalg.pinv(m), linalg.lstsq(a, m)[0], *sla.lu(m), sla.expm(a / 9), linalg.norm(m, 2)),
        *(sla.cho_solve(sla.cho_factor(a), m), sla.solve_triangular(a, m, lower=True, trans=1)),
        *(linalg.cholesky(jnp.stack([a, -a])), *jax.lax.linalg.lu(jnp.stack([a, a * 0]))),
        *(linalg.inv(c), linalg.eigvalsh(c + c.conj().T), linalg.cholesky(c @ c.conj().T + a)),
        jnp.sort(jnp.abs(linalg.eigvals(m))),
    ]


def draws(jax: Any, data: Any) -> Any:
    """Draw from distributions, with keys made of data."""
    r, jnp = jax.random, jax.numpy
    key = r.wrap_key_data(data)
    return [
        *(r.normal(key, (7,)), r.uniform(key, (3, 3)), r.bits(key, (5,)), r.permutation(key, 20)),
        *(r.randint(key, (9,), 0, 17), r.categorical(key, jnp.zeros((4, 6))), r.gamma(key, 2.3)),
        *(r.bernoulli(key, 0.3, (9,)), r.truncated_normal(key, -1, 1, (6,)), r.poisson(key, 3.0)),
        *(r.key_data(r.split(key, 3)), r.key_data(r.fold_in(key, 7)), r.exponential(key, (4,))),
        *(r.bits(r.key(3, impl="rbg"), (7,)), r.normal(r.key(3, impl="unsafe_rbg"), (5,))),
    ]


def bits(jax: Any, data: Any) -> Any:
    """Draw bits by each algorithm."""
    lax, jnp = jax.lax, jax.numpy
    kinds = lax.RandomAlgorithm
    made = []
    for algorithm in (kinds.RNG_DEFAULT, kinds.RNG_THREE_FRY, kinds.RNG_PHILOX):
        for dtype in (jnp.uint32, jnp.uint8):
            state = jnp.arange(4, dtype=jnp.uint32)
            made += lax.rng_bit_generator(state, (5,), dtype, algorithm=algorithm)
    return made


def complexes(jax: Any, x: Any) -> Any:
    """Apply functions of complex numbers."""
    jnp = jax.numpy
    z = x + 1j * x[::-1]
    names = ("exp", "sqrt", "abs", "angle", "sin", "cos", "tanh", "conj", "log", "square")
    return [*[getattr(jnp, name)(z) for name in names], z / (x - 2j), z**2, jnp.prod(z)]


def types(jax: Any, x: Any, i: Any) -> Any:
    """Convert between types, and to bits."""
    jnp, lax = jax.numpy, jax.lax
    names = ("int8", "uint8", "int32", "uint16", "bool", "bfloat16", "float16", "complex64")
    short = x.astype(jnp.bfloat16)
    return [
        *[(x * 7).astype(name) for name in names],
        *(
            short * short,
            short + jnp.arange(5, dtype=jnp.bfloat16) / 7,
            lax.reduce_precision(x, 5, 10),
        ),
        *(lax.bitcast_convert_type(x, jnp.int32), lax.bitcast_convert_type(x, jnp.uint8)),
        *(lax.clz(abs(i)), lax.population_count(i), (i * jnp.int32(1 << 30)).astype(np.float32)),
        *(x[0] + jnp.array([1j, 2, 3, 4, 5]), (x[0] > 0) & np.array([1, 0, 1, 1, 0], bool)),
    ]


def layers(jax: Any, x: Any) -> Any:
    """Apply functions of jax.nn."""
    nn = jax.nn
    names = "gelu softmax log_softmax relu silu elu softplus selu glu sigmoid logsumexp standardize"
    heads = x.reshape(1, 2, 2, 5)
    attended = nn.dot_product_attention(heads, heads, heads)
    even = x[:, :4]
    return [*[getattr(nn, name)(even) for name in names.split()], attended]


def step(jax: Any, m: Any, x: Any) -> Any:
    """Take a training step: a loss and its gradients, second derivatives."""
    jnp = jax.numpy
    value, slopes = jax.value_and_grad(
        lambda m, x: (jax.checkpoint(jnp.tanh)(x @ m) @ m.T).var(), (0, 1)
    )(m, x)
    curved = jax.hessian(lambda z: jnp.sum(jnp.sin(z) * z[::-1]))(x[0])
    return [value, *slopes, curved, *jax.jvp(jax.nn.relu, (x,), (x,))]


def signals(jax: Any, x: Any) -> Any:
    """Resize, interpolate, convolve, integrate."""
    jnp, image = jax.numpy, jax.image
    return [
        *(image.resize(x, (7, 9), "bilinear"), image.resize(x, (2, 3), "cubic")),
        *(jnp.convolve(x[0], x[1]), jnp.interp(x[0], jnp.arange(5.0), x[1]), jnp.gradient(x[0])),
    ]


def module(jax: Any, x: Any) -> Any:
    """Apply a network of flax: convolutions, normalization, attention, dense layers."""
    linen = importlib.import_module("flax.linen")

    class Network(linen.Module):  # type: ignore[misc, name-defined]
        @linen.compact
        def __call__(self, x: Any) -> Any:
            x = linen.avg_pool(linen.relu(linen.Conv(8, (3, 3))(x)), (2, 2), (2, 2))
            x = linen.LayerNorm()(x).reshape((x.shape[0], -1, 8))
            x = x + linen.MultiHeadDotProductAttention(2)(x)
            x = linen.GroupNorm(2)(linen.gelu(linen.Dense(16)(x)))
            cell = linen.RNN(linen.LSTMCell(6))
            return linen.log_softmax(linen.Dense(3)(cell(x)[:, -1]))

    network = Network()
    with jax.ensure_compile_time_eval():
        params = network.init(jax.random.key(0), np.zeros(x.shape, np.float32))
    return [network.apply(params, x)]


def sized(jax: Any, x: Any, y: Any) -> Any:
    """Compute with named sizes."""
    jnp, lax = jax.numpy, jax.lax
    return [
        *(jax.nn.softmax(x @ x.T) + x.shape[0], jnp.sort(x, 0), x.reshape(-1).cumsum(), x.mean(0)),
        *(
            jnp.concatenate([x, x])[: 2 * x.shape[0] - 1],
            lax.scan(lambda c, r: (c + r, c), x[0], x)[1],
        ),
        *(y[: x.shape[0]] * 2, jnp.arange(x.shape[0]), jnp.pad(x, ((0, 1), (0, 0))), x @ y.T),
    ]


def counted(jax: Any, x: Any) -> Any:
    """Loop as often as a named size says."""
    return [jax.lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], x[0] * 0)]


def chosen(jax: Any, x: Any) -> Any:
    """Choose by the platform."""
    return [jax.lax.platform_dependent(x, cpu=jax.numpy.sin, default=jax.numpy.cos)]


FUNCTIONS = (
    "sin cos tan tanh exp exp2 expm1 sinh cosh arcsinh arctan floor ceil rint sign abs square"
)
CHECKS = "reciprocal isnan isfinite isinf signbit sinc i0 nan_to_num log1p sqrt log cbrt"
SPECIAL = "erf erfc erfinv gammaln digamma i0e i1e i1 expit logit ndtr log_ndtr ndtri entr"
PAIRS = "add subtract multiply divide maximum minimum arctan2 hypot logaddexp mod floor_divide fmod"
INTEGERS = "add multiply floor_divide mod bitwise_and bitwise_xor left_shift right_shift gcd power"
ALONG = "sum prod max min mean var std all any argmax argmin cumsum cumprod sort argsort median"
POSITIVE = (np.abs(X) / 2.1 + 0.01).astype(np.float32)

PROGRAMS: dict[str, Program] = {
    "functions": Program(unary(f"{FUNCTIONS} {CHECKS}"), (X,)),
    "special": Program(unary(SPECIAL, "scipy.special"), (POSITIVE,), tolerance=1e-4),
    "pairs": Program(binary(f"{PAIRS} nextafter copysign heaviside"), (X, np.abs(X[::-1]) + 0.5)),
    "integers": Program(binary(INTEGERS), (I, J)),
    "along": Program(along(f"{ALONG} nansum ptp"), (X,)),
    "along integers": Program(along(ALONG), (I.reshape(2, 3),)),
    "running": Program(running, (X,)),
    "order": Program(order, (EDGES, V, I, J)),
    "sorts": Program(sorts, (LONG,)),
    "reads": Program(reads, (X, PLACES)),
    "writes": Program(writes, (X, PLACES)),
    "shapes": Program(shapes, (X,)),
    "loops": Program(loops, (X,)),
    "branches": Program(branches, (X, np.int32(1))),
    "convolutions": Program(convolutions, (IMAGE, KERNEL)),
    "pools": Program(pools, (IMAGE,)),
    "reductions": Program(reductions, (X,)),
    "products": Program(products, (X, M)),
    "transforms": Program(transforms, (X,)),
    "factorizations": Program(factorizations, (SPD, M), tolerance=2e-4),
    "draws": Program(draws, (KEY,)),
    "bits": Program(bits, (KEY,)),
    "complexes": Program(complexes, (X,)),
    "types": Program(types, (X, I)),
    "layers": Program(layers, (X,)),
    "step": Program(step, (M, X), derivative=True),
    "signals": Program(signals, (X,)),
    "module": Program(module, (IMAGE,), tolerance=1e-4),
    "sized": Program(sized, (X, X), ("b, _", "b, _"), derivative=True),
    "counted": Program(counted, (X,), ("b, _",)),
    "chosen": Program(chosen, (X,), platforms=("cpu", "tpu"), derivative=True),
}


def exported(jax: Any, program: Program) -> list[Any]:
    """Return the bytes of a program that jax exported, and the program's results."""

    def run(*args: Any) -> tuple[Any, ...]:
        return tuple(program.function(jax, *args))

    export = importlib.import_module("jax.export")
    # A program is one, whatever the oracle does elsewhere.
    with jax.disable_jit(False):
        args: Sequence[Any] = program.args
        if program.symbolic:
            args = export.symbolic_args_specs(args, program.symbolic)
        made = export.export(jax.jit(run), platforms=program.platforms)(*args)
        stored = made.serialize(vjp_order=int(program.derivative))
        return [np.frombuffer(bytes(stored), np.uint8), *jax.jit(run)(*program.args)]
