"""What the generic checks leave out on purpose: (primitive, rule) -> the reason.

The rules: case, infer, named, jvp, transpose, batch, second order, engines, expand.
"""

from __future__ import annotations

RULES = (
    "case",
    "infer",
    "named",
    "jvp",
    "transpose",
    "batch",
    "second order",
    "engines",
    "expand",
)

KNOWN_GAPS: dict[tuple[str, str], str] = {
    ("argmax", "jvp"): "the result is an integer, whose tangent is nothing",
    ("argmin", "jvp"): "the result is an integer, whose tangent is nothing",
}
