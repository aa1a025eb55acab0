"""SciPy's functions on kiln arrays; modules load on first use."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from kiln.base.lazy import on_first_use as _on_first_use

if _TYPE_CHECKING:
    from kiln.scipy import special as special
    from kiln.scipy import stats as stats

__getattr__, __dir__ = _on_first_use(globals(), "special", "stats")
