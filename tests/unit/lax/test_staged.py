"""Functions chosen or named when a program is made."""

from __future__ import annotations

import kiln
import kiln.numpy as jnp
from kiln import export, lax


def test_a_shape_with_named_sizes_is_known_when_the_program_runs() -> None:
    assert lax.shape_as_value((2, 3)).tolist() == [2, 3]
    assert lax.shape_as_value(()).shape == (0,)
    shape = kiln.ShapeDtypeStruct(export.symbolic_shape("a, 3, b"), jnp.float32)
    exported = export.export(kiln.jit(lambda x: lax.shape_as_value(x.shape)))(shape)
    assert exported.call(jnp.ones((2, 3, 5))).tolist() == [2, 3, 5]
