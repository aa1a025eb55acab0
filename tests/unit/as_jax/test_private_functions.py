"""Functions of private modules of jax that libraries call."""

from __future__ import annotations

from typing import Any

from tests.unit.as_jax.test_finder import run

NUMBERS: list[Any] = [None, 1, (0, 2), [1, 7], ()]
NAMES: list[Any] = [None, "b", ("c", "e"), ["x"], ()]
ASKED = """
import inspect, itertools
import kiln.as_jax
try:
    from jax._src.api import _infer_argnums_and_argnames as infer
except ImportError:
    from jax._src.api_util import infer_argnums_and_argnames as infer

def function(a, /, b, c=1, *d, e=2):
    pass

print([infer(inspect.signature(function), *each) for each in itertools.product(NUMBERS, NAMES)])
"""


def test_positions_and_names_of_arguments() -> None:
    """A name that jax has no more is not there: libraries go on without it."""
    text = ASKED.replace("NUMBERS", repr(NUMBERS)).replace("NAMES", repr(NAMES))
    wanted = run("-c", text.replace("import kiln.as_jax\n", "")).stdout
    assert run("-c", text).stdout == wanted
    assert len(eval(wanted)) == len(NUMBERS) * len(NAMES)
