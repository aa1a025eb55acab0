# ruff: noqa: E501
"""Rows of `kiln.scipy`, apart from distributions."""

from __future__ import annotations

LINALG = """
block_diag(x, y[0], s)
~cho_factor: cho_factor(H)[0]
~cho_factor: cho_factor(h, lower=True)[0]
~cho_solve: cho_solve(cho_factor(h), v[:3])
~cho_solve: cho_solve(cho_factor(H, lower=True), B[..., :3])
~cho_solve: cho_solve((s, True), v[:3])
~cho_solve: cho_solve((s, False), v[:3])
~cholesky(H)
~cholesky(h, lower=True)
~circulant(v)
companion(g[0])
convolution_matrix(v, 3)
~det(S)
eigh(H)
eigh: eigh(H, lower=False)
~eigh: eigh(H, lower=False, eigvals_only=True)
~eigh: jnp.abs(eigh(h)[1])
eigh_tridiagonal(v * np.arange(1, 5), u[:3])
eigh_tridiagonal: eigh_tridiagonal(v * np.arange(1, 5), u[:3], eigvals_only=True, select='i', select_range=(0, 1))
~expm(S / 3)
expm: expm(s * 4)
expm: expm(jnp.triu(s), upper_triangular=True)
expm_frechet: expm_frechet(s / 3, h / 4)
fiedler(v)
fiedler_companion(g[0])
~hankel(v, u)
hessenberg(s)
~hessenberg: hessenberg(S, calc_q=True)
~inv(S)
leslie(v, u[:3])
lu(S)
~lu: lu(t, permute_l=True)
lu: lu(W)
~lu_factor(S)
lu_factor(t)
lu_factor(W)
~lu_solve: lu_solve(lu_factor(s), v[:3])
~lu_solve: lu_solve(lu_factor(s), v[:3], trans=1)
~lu_solve: lu_solve(lu_factor(S), B[..., :3], trans=2)
~rsf2csf: rsf2csf(jnp.triu(s), h)
~rsf2csf: rsf2csf(jnp.triu(s) + np.eye(3, k=-1) * np.array([[0.0], [1.0], [0.0]]) * (x[0, 0] + 3), h)
!!schur(s)
!!sqrtm(s)
!!funm: funm(s, jnp.sin)
~polar(t)
polar: polar(S, side='left')
polar: polar(W, side='left')
qr(t)
qr: qr(S, mode='economic')
qr: qr(t, mode='r', pivoting=True)
qr: qr(W, pivoting=True)
qr_multiply(s, m[0:1] * np.ones((3, 1)), mode='left')
qr_multiply: qr_multiply(t, x[0], mode='left', pivoting=True)
qr_multiply: qr_multiply(s, x, conjugate=True)
~solve(S, B[..., :3])
~solve: solve(H, B[..., :3], assume_a='pos')
~solve: solve(h, v[:3], assume_a='pos', lower=True)
~solve: solve(s, v[:3], assume_a='sym')
~solve: solve(s, v[:3], assume_a='her')
solve_sylvester: solve_sylvester(s, h, s * h, method='eigen')
~solve_triangular(s, v[:3])
~solve_triangular: solve_triangular(S, B[..., :3], trans=1, lower=True)
~solve_triangular: solve_triangular(s, x.T, trans='C', lower=True, unit_diagonal=True)
svd: svd(W, full_matrices=False)
~svd: svd(t, compute_uv=False)
toeplitz(v, u)
~toeplitz: toeplitz(v)
"""

SPECIAL = """
bernoulli: x * bernoulli(3)[1]
bessel_jn: bessel_jn(p, v=3, n_iter=30)
beta(p, q)
betainc: betainc(0.7, 1.3, o)
betaln(p, q)
boxcox(p, x)
boxcox1p(p, x)
comb(p + 3, q)
dawsn(x)
digamma(p)
digamma(x)
entr(p)
erf(x)
erfc(x)
erfcx(x)
erfinv(d)
exp1(p)
expi(x)
expit(x)
expn(3, p)
factorial(p)
fresnel(x)
gamma(p)
gamma(x)
!gammainc(p, q)
!gammaincc(p, q)
gammaln(p)
gammaln(x)
gammasgn(x)
hyp1f1(p, q, x)
hyp2f1: hyp2f1(0.5, 1.5, 2.2, d)
hyp2f1(p, q, g, o)
i0(x)
i0e(x)
i1(x)
i1e(x)
kl_div(p, q)
log_ndtr(x)
log_softmax(x)
~loggamma(p)
logit(o)
logsumexp(x, 1)
logsumexp: logsumexp(x, 1, b=y, return_sign=True)
multigammaln(g, 2)
ndtr(x)
ndtri(o)
owens_t(x, y)
poch(p, q)
polygamma(2, p)
rel_entr(p, q)
sici(p)
softmax: M.softmax(x)
spence(p)
sph_harm_y(np.array([1, 2, 2]), np.array([0, 1, -1]), p, x, n_max=3)
~wofz(x)
xlog1py(x, p)
xlogy(x, p)
zeta: zeta(2.5, p)
"""

OTHER = {
    "scipy.fft": """
dct(x)
dct: dct(x, norm='ortho', axis=0)
dctn(x)
idct(x)
idct: idct(x, 2, 5, norm='ortho')
idctn(x)
""",
    "scipy.integrate": "~trapezoid(x, y)",
    "scipy.ndimage": """
map_coordinates(W, [o * 2, k * 3], order=1)
map_coordinates: map_coordinates(W, [o * 2, k * 3], order=0)
map_coordinates: map_coordinates(W, [x, y], order=1, mode='mirror')
map_coordinates: map_coordinates(W, [x, y * 3], order=1, mode='wrap')
map_coordinates: map_coordinates(W, [x, y * 3], order=1, mode='nearest')
""",
    "scipy.cluster.vq": "vq(x, t)",
    "scipy.interpolate": """
RegularGridInterpolator: RegularGridInterpolator((np.arange(3.0), np.arange(4.0)), W)(o.reshape(3, 2) * 2)
RegularGridInterpolator: RegularGridInterpolator((np.arange(3.0), np.arange(4.0)), W, method='nearest')(o.reshape(3, 2) * 2)
""",
    "scipy.signal": """
~convolve(v, u)
convolve: convolve(x, y, mode='same', method='fft')
~convolve2d(x, y)
convolve2d: convolve2d(W, x, mode='valid')
~correlate(v, u)
~correlate2d(x, y)
csd: csd(n, n[::-1] * n, nperseg=6)
detrend(W)
detrend: detrend(W, type='constant')
detrend: detrend(n, bp=[5])
~fftconvolve(x, y)
istft: istft(stft(n, nperseg=4)[2], nperseg=4)
stft: stft(n, nperseg=6)
welch: welch(n, nperseg=6)
welch: welch(n, nperseg=4, average='median', scaling='spectrum')
""",
    "scipy.sparse.linalg": """
bicgstab: bicgstab(s, v[:3], tol=1e-13)[0]
cg: cg(h @ h.T, v[:3], tol=1e-13)[0]
cg: cg(h @ h.T, v[:3], tol=1e-13, M=lambda r: r / 20)[0]
gmres: gmres(s, v[:3], tol=1e-13)[0]
gmres: gmres(s, v[:3], tol=1e-13, solve_method='incremental')[0]
bicgstab: bicgstab(lambda r: s @ r, v[:3], tol=1e-13)[0]
""",
    "scipy.spatial.transform": """
Rotation: Rotation.from_quat(v).as_matrix()
Rotation: Rotation.from_quat(v).as_euler('xyz')
Rotation: Rotation.from_euler('zyx', v[:3]).as_quat()
Rotation: Rotation.from_rotvec(v[:3]).as_mrp()
Rotation: Rotation.from_matrix(Rotation.from_rotvec(v[:3]).as_matrix()).as_rotvec()
Rotation: Rotation.from_mrp(v[:3] / 3).apply(x)
Rotation: (Rotation.from_rotvec(v[:3]) * Rotation.from_rotvec(u[:3]).inv()).magnitude()
Slerp: Slerp.init(np.arange(3.0), Rotation.from_rotvec(s))(o[0]).as_rotvec()
""",
    "scipy.stats": """
sem(x, 1)
mode: mode(v)
rankdata: rankdata(v) * v
gaussian_kde: gaussian_kde(W).evaluate(s)
gaussian_kde: gaussian_kde(n, bw_method=0.4).logpdf(v)
gaussian_kde: gaussian_kde(n, weights=n**2).integrate_gaussian(0.1, 0.5)
gaussian_kde: gaussian_kde(n).integrate_box_1d(-0.5, 0.7)
gaussian_kde: gaussian_kde(n).integrate_kde(gaussian_kde(v))
""",
}

TEXTS = [("scipy.linalg", LINALG), ("scipy.special", SPECIAL), *OTHER.items()]
