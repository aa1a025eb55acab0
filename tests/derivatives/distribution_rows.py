"""Rows of `kiln.scipy.stats`: each function of each distribution, moved, scaled and shaped."""

from __future__ import annotations

ALL = ("cdf", "isf", "logcdf", "logpdf", "logsf", "pdf", "ppf", "sf")
DENSITIES = ("logpdf", "pdf")
MASSES = ("logpmf", "pmf")
TAILS = ("cdf", "logcdf", "logpdf", "logsf", "pdf", "sf")
QUANTILES = ("isf", "ppf")
CUMULATIVE = ("cdf", "logcdf", "logsf", "sf")
# Derivatives of these by shape parameters are not known: none, or no second ones.
NEVER_BY_SHAPE = ("beta",)
ONCE_BY_SHAPE = ("chi2", "gamma", "gennorm")
COUNTS = "np.array([[0, 1, 2], [3, 1, 0]])"

# By distribution: its functions, the point, the probability, and the parameters.
CONTINUOUS: dict[str, tuple[tuple[str, ...], str, str]] = {
    "beta": (TAILS, "x[0, 0] + q * o", "p, g, x[0, 0], q"),
    "cauchy": (ALL, "x", "y, p"),
    "chi2": (TAILS, "x[0, 0] + g", "p, x[0, 0], q"),
    "expon": ((*TAILS, "ppf"), "g", "d, p"),
    "gamma": (TAILS, "x[0, 0] + g", "p, x[0, 0], q"),
    "gennorm": (("cdf", *DENSITIES), "x", "p"),
    "gumbel_l": ((*TAILS, "ppf"), "x", "y, p"),
    "gumbel_r": ((*TAILS, "ppf"), "x", "y, p"),
    "laplace": (("cdf", *DENSITIES), "x", "y, p"),
    "logistic": (("cdf", "isf", *DENSITIES, "ppf", "sf"), "x", "y, p"),
    "norm": (ALL, "x", "y, p"),
    "pareto": ((*TAILS, "ppf"), "2 + g", "p, d, q"),
    "t": (DENSITIES, "x", "p, y, q"),
    "truncnorm": (TAILS, "d", "-1 - p, 1 + q, d / 9, r"),
    "uniform": (("cdf", *DENSITIES, "ppf"), "x[0, 0] + q * o", "x[0, 0], q"),
    "vonmises": (DENSITIES, "x", "p"),
    "wrapcauchy": (DENSITIES, "p", "o"),
}
DISCRETE: dict[str, tuple[tuple[str, ...], str]] = {
    "bernoulli": (("cdf", *MASSES), "o"),
    "betabinom": (MASSES, "4, p, q"),
    "binom": (MASSES, "4, o"),
    "geom": (MASSES, "o"),
    "nbinom": (MASSES, "p, o"),
    "poisson": (("cdf", *MASSES), "p"),
}


def _texts() -> dict[str, str]:
    found = {}
    for name, (functions, at, parameters) in CONTINUOUS.items():
        points = {f: "o" if f in QUANTILES else at for f in functions}
        lines = []
        for f in functions:
            shape, comma, rest = parameters.partition(",")
            if f in CUMULATIVE and name in ONCE_BY_SHAPE:
                lines += [f"!M.{f}({points[f]}, {parameters})"]
            if f in CUMULATIVE and name in (*ONCE_BY_SHAPE, *NEVER_BY_SHAPE):
                rest = rest.replace("g,", "2.1,")
                lines += [f"M.{f}({points[f]}, 1.3{comma}{rest})"]
            else:
                lines += [f"M.{f}({points[f]}, {parameters})"]
        found[name] = "\n".join(lines)
    for name, (functions, parameters) in DISCRETE.items():
        counts = {"bernoulli": "np.array([0, 1, 1])", "geom": f"1 + {COUNTS}"}.get(name, COUNTS)
        found[name] = "\n".join(f"M.{f}({counts}, {parameters})" for f in functions)
    found["bernoulli"] += "\nppf: ppf(0.3, o) * o"
    found["poisson"] += "\nentropy(p)"
    on_simplex = "jnp.stack([o[0] / 3, k[0] / 3, 1 - (o[0] + k[0]) / 3])"
    found["dirichlet"] = "\n".join(f"{f}: {f}({on_simplex}, p[0])" for f in DENSITIES)
    shares = "o[0] / jnp.sum(o[0])"
    found["multinomial"] = "\n".join(f"{f}: {f}(np.array([1, 0, 2]), 3, {shares})" for f in MASSES)
    found["multivariate_normal"] = "\n".join(f"{f}: {f}(x, v[:3], h)" for f in DENSITIES)
    return found


TEXTS = [(f"scipy.stats.{name}", text) for name, text in _texts().items()]
