"""How near kiln's numbers are to jax's, program by program, and why not nearer."""

from __future__ import annotations

import numpy as np

DEFAULT = {"float16": 1e-3, "float32": 1e-5, "float64": 1e-10}
"""Relative to the largest number of an array; integers and bools are equal."""

WIDER: dict[str, tuple[float, str]] = {
    "optax_optimizers/acprop": (5e-4, "divides by the small deviations of earlier gradients"),
    "optax_optimizers/lbfgs": (1e-4, "divides differences of gradients by one another"),
    "optax_optimizers/rmsprop": (1e-4, "divides by the small deviations of gradients"),
    "flax_linen/cnn": (1e-4, "Adam divides small gradients by their own size"),
    "jaxopt_solvers/logistic": (1e-4, "the search ends at a gradient of 1e-4"),
    "jaxopt_solvers/quadratic_program": (1e-4, "derivatives by a solver that stops at 1e-5"),
    "numpyro_inference/nuts_after_a_short_adaptation": (1e-6, "adaptation enlarges rounding"),
    "numpyro_inference/nuts_in_chains": (1e-6, "adaptation enlarges rounding"),
    "numpyro_inference/nuts_on_eight_schools": (
        0.25,
        "chaotic: after five hundred steps of adaptation only the distribution is the same",
    ),
    "blackjax_samplers/window_adaptation": (1e-6, "adaptation enlarges rounding"),
}
"""The tolerance of a program's floats, by subject and program."""


def difference(program: str, found: np.ndarray, expected: np.ndarray) -> str:
    """Say how a value of a program differs from jax's; nothing if it does not."""
    if found.dtype != expected.dtype or found.shape != expected.shape:
        return f"{found.dtype}{found.shape}, jax has {expected.dtype}{expected.shape}"
    if expected.dtype.kind not in "fc":
        if np.array_equal(found, expected):
            return ""
        return f"{found.tolist()}, jax has {expected.tolist()}"
    tolerance, _ = WIDER.get(program, (DEFAULT[str(expected.dtype)], ""))
    finite = np.abs(expected[np.isfinite(expected)])
    size = float(finite.max()) if finite.size else 0.0
    if np.allclose(found, expected, rtol=0.0, atol=tolerance * size, equal_nan=True):
        return ""
    apart = float(np.nanmax(np.abs(found - expected)))
    return f"{apart:.2g} apart among numbers up to {size:.2g}; the tolerance is {tolerance:g}"
