"""A scan with constants, carry and inputs, and what finds scans in programs."""

from __future__ import annotations

from typing import Any

import numpy as np

import kiln.numpy as jnp
from kiln import lax
from kiln.control.loops.scan import scan_p
from kiln.control.regions import region

W = np.array([[0.3, -0.2], [0.5, 0.4]], np.float32)
H = np.array([0.1, -0.7], np.float32)
XS = np.array([[0.2, 0.3], [-0.4, 0.5], [0.6, -0.7]], np.float32)


def scans(jaxpr: Any) -> list[Any]:
    """Return the scan equations of a program, outermost first."""
    found = []
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        if eqn.primitive is scan_p:
            found.append(eqn)
        for inner in region.jaxprs_of(eqn.params):
            found += scans(inner)
    return found


def weights(w: Any, h: Any, xs: Any) -> Any:
    """Scan over xs: the carry h goes through a layer with the weights w."""

    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(w @ h + x)
        return h, h * x

    return lax.scan(step, h, xs)
