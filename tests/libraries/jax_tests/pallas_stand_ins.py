"""What JAX's tests of kernels ask of private modules, in terms of kiln."""

from __future__ import annotations

import contextlib
from typing import Any

from kiln.experimental import pallas


def pallas_stand_ins() -> dict[str, dict[str, Any]]:
    """Return the names by module."""
    return {
        "jax._src.pallas.pallas_call": {"pallas_call": pallas.pallas_call},
        "jax._src.pallas.cost_estimate": {"estimate_cost": pallas.estimate_cost},
        "jax._src.state.discharge": {"run_state": pallas.run_state},
        # What GPUs are told says nothing to the CPU.
        "jax.experimental.mosaic.gpu.core": {
            "artificial_shared_memory_limit": lambda limit: contextlib.nullcontext()
        },
    }
