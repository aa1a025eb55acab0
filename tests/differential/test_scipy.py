"""kiln.scipy computes what jax.scipy does: values, dtypes and derivatives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kiln
from tests.differential.expressions import case, lines
from tests.differential.oracle import Case, Topic

# One operand, two, and so on, where jax is accurate; beside each, where it is evaluated.
SPECIAL = {
    "beta": "2.5 1.5",
    "betainc": "2.5 1.5 0.3",
    "betaln": "2.5 1.5",
    "boxcox": "2.5 0.5",
    "boxcox1p": "2.5 0.5",
    "comb": "7.0 3.0",
    "dawsn": "0.7",
    "digamma": "2.5",
    "entr": "0.3",
    "erf": "0.3",
    "erfc": "0.3",
    "erfcx": "1.5",
    "erfinv": "0.3",
    "exp1": "0.7",
    "expi": "0.7",
    "expit": "0.7",
    "expn": "2.0 0.7",
    "factorial": "4.0",
    "gamma": "2.7",
    "gammainc": "1.7 2.3",
    "gammaincc": "1.7 2.3",
    "gammaln": "2.7",
    "gammasgn": "-1.5",
    "hyp1f1": "0.5 1.5 0.7",
    "hyp2f1": "0.5 1.5 2.5 0.4",
    "i0": "1.3",
    "i0e": "1.3",
    "i1": "1.3",
    "i1e": "1.3",
    "kl_div": "0.5 0.9",
    "log_ndtr": "0.7",
    "logit": "0.3",
    "ndtr": "0.7",
    "ndtri": "0.3",
    "owens_t": "0.7 0.4",
    "poch": "1.5 2.0",
    "rel_entr": "0.5 0.9",
    "spence": "1.7",
    "xlog1py": "1.5 0.7",
    "xlogy": "1.5 0.7",
    "zeta": "2.5 1.5",
}
# By which operand jax has no derivative, or none that is right.
NO_SLOPE = {
    "comb": (0, 1),
    "expn": (0,),
    "gammasgn": (0,),
    "owens_t": (0, 1),
    "poch": (0, 1),
    "betainc": (0, 1),
    "zeta": (0,),
    "spence": (0,),
    "factorial": (0,),
    "kl_div": (0, 1),
    "hyp2f1": (0, 1, 2, 3),
    "erfcx": (0,),
    "dawsn": (0,),
}
OTHERS = """
    S.sici(arr([0.3, 5.0], 'float32'))
    S.fresnel(arr([0.3, 2.0], 'float32'))
    S.bernoulli(5)
    S.multigammaln(arr([2.5, 4.0], 'float32'), 3)
    S.polygamma(arr([1, 2]), arr([0.5, 3], 'float32'))
    S.sph_harm_y(arr([2]), arr([1]), arr([0.5], 'float32'), arr([0.7], 'float32'), n_max=3)
    S.loggamma(arr([0.5, 3], 'float32'))
    S.loggamma(arr([0.5 + 1j, -2.5 + 3j], 'complex64'))
    S.wofz(arr([0.5 + 1j, 2 - 1j], 'complex64'))
    S.softmax(f(2, 3))
    S.log_softmax(f(2, 3), axis=1)
    S.logsumexp(f(2, 3), axis=1, b=f(2, 3), return_sign=True)
    S.zeta(f(2))
    S.bernoulli(-1)
    S.bernoulli(1.5)
    S.factorial(f(2), exact=True)
    S.log_ndtr(f(2), series_order=31)
    S.log_ndtr(f(2), series_order=1.5)
    S.beta(z(2), z(2))
"""
DISTRIBUTIONS = {
    "beta": "2.1, 1.3",
    "cauchy": "",
    "chi2": "3.1",
    "expon": "",
    "gamma": "2.3",
    "gennorm": "1.4",
    "gumbel_l": "",
    "gumbel_r": "",
    "laplace": "",
    "logistic": "",
    "norm": "",
    "pareto": "2.2",
    "t": "3.3",
    "truncnorm": "-1.5, 1.9",
    "uniform": "",
    "vonmises": "2.0",
    "wrapcauchy": "0.3",
}
DISCRETE = {
    "bernoulli": "arr(0.3, 'float32')",
    "betabinom": "5, arr(1.2, 'float32'), 2.2",
    "binom": "5, arr(0.3, 'float32')",
    "geom": "arr(0.3, 'float32')",
    "nbinom": "3, arr(0.4, 'float32')",
    "poisson": "arr(2.2, 'float32')",
}
GROUPS = {
    "stats": """
        T.mode(arr([1, 2, 2, 3, 3]))
        T.mode(i(3, 4), axis=1, keepdims=True)
        T.rankdata(arr([3, 1, 1, 2]))
        T.rankdata(f(3, 4), 'min', axis=1)
        T.rankdata(f(4), 'best')
        T.sem(f(3, 4), axis=1, keepdims=True)
        T.sem(f(3), nan_policy='raise')
        T.poisson.entropy(arr([0.5, 5, 200], 'float32'))
        T.poisson.cdf(arr([0, 2, 7]), arr(2.2, 'float32'))
        T.bernoulli.ppf(arr([0.1, 0.9], 'float32'), 0.3)
        T.dirichlet.logpdf(arr([0.2, 0.3, 0.5], 'float32'), arr([1, 2, 3], 'float32'))
        T.multinomial.logpmf(arr([1, 2, 3]), 6, arr([0.2, 0.3, 0.5], 'float32'))
        T.multivariate_normal.logpdf(f(4, 3), f(3), arr(np.eye(3) * 2, 'float32'))
        T.multivariate_normal.logpdf(f(4), 1.0, 2.0)
        T.multivariate_normal.logpdf(f(3), f(3), f(2, 2))
        T.gaussian_kde(f(9)).logpdf(arr([0, 1], 'float32'))
        T.gaussian_kde(f(2, 9), 'silverman').evaluate(f(2, 3))
        T.gaussian_kde(f(9)).integrate_box_1d(0.0, 2.0)
        T.gaussian_kde(f(1))
    """,
    "linalg": """
        L.block_diag(arr([1, 2]), f(2, 2), 3)
        L.block_diag(f(2, 2, 2))
        L.cho_solve(L.cho_factor(arr([[4, 1], [1, 3]], 'float32')), f(2))
        L.cholesky(arr([[4, 1], [1, 3]], 'float32'))
        L.circulant(arr([1, 2, 3]))
        L.companion(arr([1, 2, 3]))
        L.convolution_matrix(arr([1, 2, 3]), 4, 'same')
        L.convolution_matrix(arr([1, 2, 3]), 4, 'wide')
        L.det(arr([[4, 1], [1, 3]], 'float32'))
        L.dft(3, 'sqrtn')
        L.eigh(arr([[4, 1], [1, 3]], 'float32'), eigvals_only=True)
        L.eigh(f(2, 2), f(2, 2))
        L.eigh_tridiagonal(arr([1, 2, 3], 'float32'), arr([0.1, 0.2], 'float32'), eigvals_only=True)
        L.expm(arr([[0.4, 1], [1, 0.3]], 'float32'))
        L.expm_frechet(arr([[0.4, 1], [1, 0.3]], 'float32'), arr([[1, 0], [0, 2]], 'float32'))
        L.fiedler(arr([1, 2, 4]))
        L.fiedler_companion(arr([1, 2, 3, 4], 'float32'))
        L.funm(arr([[0.4, 1], [1, 0.3]], 'float32'), jnp.sin)
        L.hadamard(4)
        L.hadamard(3)
        L.hankel(arr([1, 2, 3]))
        L.helmert(3)
        L.hilbert(3)
        L.inv(arr([[4, 1], [1, 3]], 'float32'))
        L.invhilbert(3)
        L.invpascal(3)
        L.leslie(arr([1, 2, 3]), arr([4, 5]))
        L.lu(arr([[1, 2], [3, 4]], 'float32'))
        L.lu_factor(arr([[1, 2], [3, 4]], 'float32'))
        L.lu_solve(L.lu_factor(arr([[1, 2], [3, 4]], 'float32')), f(2), 1)
        L.pascal(3, 'lower')
        L.pascal(3, 'left')
        L.polar(arr([[4, 1], [1, 3]], 'float32'))
        [abs(x) for x in L.qr(arr([[1, 2], [3, 4]], 'float32'), pivoting=True)]
        L.qr(f(2, 2), mode='thin')
        [abs(x) for x in L.schur(arr([[4, 1], [1, 3]], 'float32'))]
        L.schur(f(2, 2), 'whole')
        L.solve(arr([[4, 1], [1, 3]], 'float32'), f(2), assume_a='pos')
        L.solve(f(2, 2), f(2), assume_a='nice')
        L.solve_sylvester(arr([[4, 1], [1, 3]], 'float32'), arr([[1, 0], [0, 2]], 'float32'), f(2, 2))
        L.solve_triangular(arr([[4, 0], [1, 3]], 'float32'), f(2), lower=True, trans='T')
        L.sqrtm(arr([[4, 1], [1, 3]], 'float32'))
        L.sqrtm(f(2, 2), 2)
        L.svd(arr([[4, 1], [1, 3]], 'float32'), compute_uv=False)
        L.toeplitz(arr([1, 2, 3]), arr([1, 4]))
        abs(L.hessenberg(arr([[4, 1, 2], [1, 3, 0], [2, 5, 1]], 'float32')))
    """,
    "signal": """
        G.convolve(f(5), f(3))
        G.convolve(f(5), f(4), 'same')
        G.convolve(f(4, 5), f(2, 3), 'valid', method='fft')
        G.convolve(f(5), f(3), method='slow')
        G.convolve(f(5), f(3, 2))
        G.correlate(f(5), f(3), 'same')
        G.correlate(z(3), z(5), 'valid')
        G.convolve2d(f(4, 5), f(2, 3))
        G.convolve2d(f(4, 5), f(2, 3), boundary='wrap')
        G.correlate2d(f(4, 5), f(3, 3), 'same')
        G.fftconvolve(f(4, 5), f(2, 3), 'same')
        G.detrend(f(3, 7))
        G.detrend(f(3, 7), type='constant', axis=0)
        G.detrend(f(7), type='square')
        G.welch(f(2, 40), nperseg=16)
        G.welch(f(2, 40))
        G.csd(f(40), f(40, seed='b'), nperseg=16, average='median')
        G.stft(f(40), nperseg=16)
        G.istft(G.stft(f(40), nperseg=16)[2])
        jax.scipy.fft.dct(f(3, 5))
        jax.scipy.fft.dct(f(3, 4), axis=0, norm='ortho', n=6)
        jax.scipy.fft.idct(f(3, 5), norm='ortho')
        jax.scipy.fft.dctn(f(3, 5))
        jax.scipy.fft.idctn(f(3, 5), axes=(1,))
        jax.scipy.fft.dct(arr([1, 2, 3]))
    """,
    "others": """
        jax.scipy.integrate.trapezoid(f(3, 4), dx=0.5)
        jax.scipy.ndimage.map_coordinates(f(4, 5), [f(6), f(6, seed='b')], 1)
        jax.scipy.ndimage.map_coordinates(f(4, 5), [f(6), f(6, seed='b')], 1, 'reflect')
        jax.scipy.ndimage.map_coordinates(f(4, 5), [f(6), f(6, seed='b')], 0, 'wrap')
        jax.scipy.ndimage.map_coordinates(f(4, 5), [f(6), f(6, seed='b')], 1, 'mirror')
        jax.scipy.ndimage.map_coordinates(i(4, 5), [f(6), f(6, seed='b')], 1, 'nearest')
        jax.scipy.ndimage.map_coordinates(f(4, 5), [i(6), i(6, seed='b')], 1, cval=2.0)
        jax.scipy.ndimage.map_coordinates(f(4, 5), [f(6)], 1)
        jax.scipy.ndimage.map_coordinates(f(4), [f(6)], 3)
        jax.scipy.ndimage.map_coordinates(f(4), [f(6)], 1, 'round')
        jax.scipy.cluster.vq.vq(f(6, 2), f(3, 2, seed='b'))
        R((arr([0, 1, 3], 'float32'),), f(3))(arr([[0.5], [2], [-1]], 'float32'))
        R((arr([0, 1, 3], 'float32'),), f(3), 'nearest', fill_value=None)(arr([[0.6], [9]], 'float32'))
        R((arr([0, 1], 'float32'), arr([0, 2], 'float32')), f(2, 2))(arr([[0.5, 0.3]], 'float32'))
        R((arr([0, 1, 3], 'float32'),), f(3), method='cubic')
        jax.scipy.sparse.linalg.cg(arr([[4, 1], [1, 3]], 'float32'), f(2), tol=1e-7)[0]
        jax.scipy.sparse.linalg.gmres(arr([[4, 1], [0, 3]], 'float32'), f(2), tol=1e-7)[0]
        jax.scipy.sparse.linalg.bicgstab(arr([[4, 1], [0, 3]], 'float32'), f(2), tol=1e-7)[0]
        jax.scipy.sparse.linalg.cg(f(2, 3), f(2))
        jax.scipy.sparse.linalg.cg('matrix', f(2))
        Q.from_quat(f(3, 4)).as_matrix()
        Q.from_rotvec(arr([0.1, 0.2, 0.3], 'float32')).as_quat()
        Q.from_euler('xyz', arr([0.1, 0.2, 0.3], 'float32')).as_euler('zyx')
        Q.from_euler('xq', arr([0.1, 0.2], 'float32'))
        Q.from_quat(f(3, 4)).apply(f(3, 3))
        Q.from_quat(f(3, 4)).as_rotvec(), Q.from_quat(f(3, 4)).magnitude()
        (Q.from_quat(f(3, 4)) * Q.from_quat(f(3, 4, seed='b'))).inv().as_mrp()
        Q.identity().as_matrix()
        M(lambda x: ((x - 1) ** 2).sum() + 2, f(3), method='BFGS', tol=1e-3).x
        M(lambda x: x.sum(), f(3), method='simplex')
    """,
}
NAMES = """
    [S := jax.scipy.special, T := jax.scipy.stats, L := jax.scipy.linalg, G := jax.scipy.signal,
    R := jax.scipy.interpolate.RegularGridInterpolator, M := __import__(jax.__name__ +
    '.scipy.optimize', fromlist=['x']).minimize, Q := __import__(jax.__name__ +
    '.scipy.spatial.transform', fromlist=['x']).Rotation, __import__(jax.__name__ +
    '.scipy.sparse.linalg'), __import__(jax.__name__ + '.scipy.cluster.vq')]
"""
HEAD = " ".join(NAMES.split())


def _case(group: str, text: str, tolerance: float | None = None) -> Case:
    found = case(group, f"({HEAD}, {text})[1]", tolerance)
    return Case(group, text, found.run, tolerance)


def cases() -> Iterator[Case]:
    for name, places in SPECIAL.items():
        numbers = [float(p) for p in places.split()]
        arrays = ", ".join(f"arr([{p}], 'float32')" for p in numbers)
        yield _case("special", f"S.{name}({arrays})", 4e-5)
        scalars = ", ".join(f"arr({p}, 'float32')" for p in numbers)
        whole = ", ".join(f"arr([{max(1, round(abs(p)))}])" for p in numbers)
        if name not in ("logit", "erfinv", "ndtr", "ndtri", "log_ndtr", "spence", "betainc"):
            yield _case("special", f"S.{name}({whole}).dtype.name == 'float32'")
        for i in range(len(numbers)):
            if i not in NO_SLOPE.get(name, ()):
                yield _case("special slopes", f"jax.grad(S.{name}, {i})({scalars})", 1e-4)
    for line in lines(OTHERS):
        yield _case("special", line, 1e-4)
    for name, given in DISTRIBUTIONS.items():
        parameters = f", {given}" if given else ""
        place = "1.2" if name == "pareto" else "0.6"
        yield _case("stats", f"T.{name}.logpdf(arr([{place}, -3], 'float32'){parameters})", 4e-5)
        yield _case("stats", f"T.{name}.pdf({place}{parameters})", 4e-5)
        yield _case(
            "stats slopes", f"jax.grad(T.{name}.logpdf)(arr({place}, 'float32'){parameters})", 1e-4
        )
    for name, given in DISCRETE.items():
        yield _case("stats", f"T.{name}.logpmf(arr([1, -1]), {given})", 4e-5)
        yield _case("stats", f"T.{name}.pmf(1, {given})", 4e-5)
    for name in ("norm", "cauchy", "expon", "gumbel_r", "gumbel_l"):
        for fun in ("cdf", "logcdf", "sf", "logsf"):
            yield _case("stats", f"T.{name}.{fun}(arr([0.6, 2], 'float32'), 0.1, 1.5)", 4e-5)
        yield _case("stats", f"T.{name}.ppf(arr([0.3, 0.8], 'float32'), 0.1, 1.5)", 4e-5)
    for group, text in GROUPS.items():
        for line in lines(text):
            yield _case(group, line, 1e-4)


TOPIC = Topic("scipy", cases())


@pytest.mark.parametrize("group", TOPIC.groups)
def test_as_jax(group: str) -> None:
    TOPIC.check(group, kiln)
