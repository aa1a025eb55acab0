"""Names of jax that kiln does not have on purpose, and why.

`docs/differences.md` says the same to users; `tests/unit/as_jax/test_public_names.py` compares them.
"""

from __future__ import annotations

_PALLAS = "kernels for GPUs and TPUs are written in Pallas; kiln's engines generate their own code"

REFUSED: dict[str, str] = {
    "jax.experimental.pallas": _PALLAS,
}
"""The full name of a module or of a name in it; a module stands for all its names."""


def reason(name: str) -> str:
    """Return why kiln does not have a name; an empty string if there is no reason yet."""
    while name:
        if name in REFUSED:
            return REFUSED[name]
        name = name.rpartition(".")[0]
    return ""
