"""What a program is lowered for."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
from kiln import ShapeDtypeStruct
from kiln.ir.shardings.sharding import SingleDeviceSharding
from kiln.jit.stages.target import committed_places, platform_of


def test_structs_and_committed_arrays_say_where() -> None:
    here = SingleDeviceSharding(kiln.devices()[0])
    struct = ShapeDtypeStruct((3,), "float32", sharding=here)
    put = kiln.device_put(np.ones(3), here)
    leaves = [struct, ShapeDtypeStruct((), "int32"), put, kiln.numpy.ones(3), np.ones(3), 2]
    assert committed_places(leaves) == (here, None, here, None, None, None)


def test_one_platform_only() -> None:
    assert platform_of(("cpu",), "f") is None
    assert platform_of(["cuda"], "f") == "cuda"
    for wrong in (("cpu", "cuda"), (), ("abacus",)):
        with pytest.raises(ValueError, match="lowering_platforms"):
            platform_of(wrong, "f")
