"""Special functions, by the names of `scipy.special`.

A function returns floats; integers are converted first, and f16 and bf16 are computed in f32. Where
an expression has no limit at the edge of its domain, the limit and its derivative are given
(`xlogy(0, 0)` is 0). How exact each is: `docs/special.md`.
"""

from __future__ import annotations

from typing import Any

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.core.array_type import Array, ArrayLike
from kiln.nn.normalization import log_softmax as _log_softmax
from kiln.nn.normalization import logsumexp as logsumexp
from kiln.nn.normalization import softmax as _softmax
from kiln.scipy.special.bessel import bessel_jn as bessel_jn
from kiln.scipy.special.bessel import i0 as i0
from kiln.scipy.special.bessel import i0e as i0e
from kiln.scipy.special.bessel import i1 as i1
from kiln.scipy.special.bessel import i1e as i1e
from kiln.scipy.special.combinatorics import bernoulli as bernoulli
from kiln.scipy.special.combinatorics import comb as comb
from kiln.scipy.special.combinatorics import factorial as factorial
from kiln.scipy.special.entropy import boxcox as boxcox
from kiln.scipy.special.entropy import boxcox1p as boxcox1p
from kiln.scipy.special.entropy import entr as entr
from kiln.scipy.special.entropy import kl_div as kl_div
from kiln.scipy.special.entropy import logit as logit
from kiln.scipy.special.entropy import rel_entr as rel_entr
from kiln.scipy.special.entropy import xlog1py as xlog1py
from kiln.scipy.special.entropy import xlogy as xlogy
from kiln.scipy.special.error_functions import dawsn as dawsn
from kiln.scipy.special.error_functions import erf as erf
from kiln.scipy.special.error_functions import erfc as erfc
from kiln.scipy.special.error_functions import erfcx as erfcx
from kiln.scipy.special.error_functions import erfinv as erfinv
from kiln.scipy.special.error_functions import expit as expit
from kiln.scipy.special.error_functions import log_ndtr as log_ndtr
from kiln.scipy.special.error_functions import ndtr as ndtr
from kiln.scipy.special.error_functions import ndtri as ndtri
from kiln.scipy.special.error_functions import owens_t as owens_t
from kiln.scipy.special.error_functions import wofz as wofz
from kiln.scipy.special.gamma_functions import beta as beta
from kiln.scipy.special.gamma_functions import betainc as betainc
from kiln.scipy.special.gamma_functions import betaln as betaln
from kiln.scipy.special.gamma_functions import digamma as digamma
from kiln.scipy.special.gamma_functions import gamma as gamma
from kiln.scipy.special.gamma_functions import gammainc as gammainc
from kiln.scipy.special.gamma_functions import gammaincc as gammaincc
from kiln.scipy.special.gamma_functions import gammaln as gammaln
from kiln.scipy.special.gamma_functions import gammasgn as gammasgn
from kiln.scipy.special.gamma_functions import loggamma as loggamma
from kiln.scipy.special.gamma_functions import multigammaln as multigammaln
from kiln.scipy.special.gamma_functions import poch as poch
from kiln.scipy.special.gamma_functions import polygamma as polygamma
from kiln.scipy.special.gamma_functions import zeta as zeta
from kiln.scipy.special.harmonics import sph_harm_y as sph_harm_y
from kiln.scipy.special.hypergeometric import hyp1f1 as hyp1f1
from kiln.scipy.special.hypergeometric import hyp2f1 as hyp2f1
from kiln.scipy.special.integrals import exp1 as exp1
from kiln.scipy.special.integrals import expi as expi
from kiln.scipy.special.integrals import expn as expn
from kiln.scipy.special.integrals import fresnel as fresnel
from kiln.scipy.special.integrals import sici as sici
from kiln.scipy.special.integrals import spence as spence


def softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """Return exp(x) divided by its sum along axes; of all elements by default.

    Example:
        >>> kiln.scipy.special.softmax(jnp.array([[0.0, 0.0], [0.0, 0.0]]))
        Array([[0.25, 0.25],
               [0.25, 0.25]], dtype=float32)
        >>> kiln.scipy.special.softmax(jnp.array([[0.0, 0.0], [0.0, 0.0]]), axis=1)
        Array([[0.5, 0.5],
               [0.5, 0.5]], dtype=float32)
    """
    return _softmax(x, axis)


def log_softmax(x: ArrayLike, /, *, axis: Any = None) -> Array:
    """Return the logarithm of softmax, computed without underflow; of all elements by default.

    Example:
        >>> kiln.scipy.special.log_softmax(jnp.array([0.0, 1.0])).round(4)
        Array([-1.3133, -0.3133], dtype=float32)
    """
    return _log_softmax(x, axis)


_suggest_names(globals())
