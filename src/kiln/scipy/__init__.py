"""SciPy's functions on kiln arrays; modules load on first use."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use

if _TYPE_CHECKING:
    from kiln.scipy import cluster as cluster
    from kiln.scipy import fft as fft
    from kiln.scipy import integrate as integrate
    from kiln.scipy import interpolate as interpolate
    from kiln.scipy import linalg as linalg
    from kiln.scipy import ndimage as ndimage
    from kiln.scipy import optimize as optimize
    from kiln.scipy import signal as signal
    from kiln.scipy import sparse as sparse
    from kiln.scipy import spatial as spatial
    from kiln.scipy import special as special
    from kiln.scipy import stats as stats

__getattr__, __dir__ = _on_first_use(
    globals(),
    "cluster",
    "fft",
    "integrate",
    "interpolate",
    "linalg",
    "ndimage",
    "optimize",
    "signal",
    "sparse",
    "spatial",
    "special",
    "stats",
)
