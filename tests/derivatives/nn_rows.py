# ruff: noqa: E501
"""Rows of `kiln.nn`, `image`, `ops` and `random`, where draws are functions of parameters."""

from __future__ import annotations

NN = """
celu(x, 0.7)
^dot_product_attention: dot_product_attention(B[None], B[None] * 0.5, B[None] + 0.1)
^dot_product_attention: dot_product_attention(B[None], B[None, ::-1], B[None], is_causal=True, scale=0.3)
elu(x, 1.3)
gelu(x)
gelu: gelu(x, approximate=False)
glu(W)
hard_sigmoid(x)
hard_silu(x)
hard_swish(x)
hard_tanh(x)
~identity(x)
leaky_relu(x, 0.1)
log1mexp(p)
log_sigmoid(x)
log_softmax(x)
log_softmax: log_softmax(x, 0, where=np.array([[True, True, False], [True, True, True]]))
logmeanexp(x, 1)
logsumexp(x, 1)
~logsumexp: logsumexp(x, b=y + 3, axis=1)
mish(x)
relu(x)
relu6(x * 4)
selu(x)
sigmoid(x)
silu(x)
soft_sign(x)
softmax(x, 0)
softmax: softmax(x, where=np.array([[True, True, False], [True, True, True]]))
softplus(x)
sparse_plus(x)
sparse_sigmoid(x)
squareplus(x, p)
standardize(x, -1)
standardize: standardize(x, 0, mean=y, variance=p)
swish(x)
tanh(x)
"""

IMAGE = """
resize: resize(W, (5, 3), 'linear')
resize: resize(W, (2, 7), 'cubic', antialias=False)
resize: resize(W, (5, 6), 'lanczos3')
resize: resize(W, (5, 6), 'nearest')
scale_and_translate: scale_and_translate(W, (4, 5), (0, 1), p[0, :2], y[0, :2] / 3, 'cubic')
scale_and_translate: scale_and_translate(W, (4, 5), (0, 1), p[0, :2], y[0, :2] / 3, 'linear', antialias=False)
"""

OPS = """
segment_max(t, np.array([0, 1, 1, 0]), 3)
segment_min(t, np.array([0, 1, 1, 0]), 2)
segment_prod(t, np.array([2, 0, 3, 1]), 5, unique_indices=True)
segment_sum(t, np.array([0, 1, 1, 0]), 2)
"""

RANDOM = """
double_sided_maxwell(key, x, p, (2, 3))
multivariate_normal: multivariate_normal(key, v[:3], h)
multivariate_normal: multivariate_normal(key, v[:3], h, method='svd')
multivariate_normal: multivariate_normal(key, v[:3], h, method='eigh')
lognormal(key, p)
pareto(key, p)
rayleigh(key, p)
truncated_normal(key, -p, q)
uniform(key, (2, 3), minval=x, maxval=x + p)
triangular(key, -p, 0.1 * x, q)
wald(key, p)
weibull_min(key, p, q)
choice: choice(key, v, (3,))
permutation(key, x)
gumbel: gumbel(key, (2, 3)) * x
!*beta(key, p, q)
!*chisquare(key, p)
!*dirichlet(key, p)
!*gamma(key, p)
!*loggamma(key, p)
!*M.f(key, p, q)
!*M.t(key, p)
!*generalized_normal(key, g, (2, 3))
"""

TEXTS = [("nn", NN), ("image", IMAGE), ("ops", OPS), ("random", RANDOM)]
