"""What nests read is known with their effects, and is what a walk over their expressions finds."""

from __future__ import annotations

import pytest

import kiln
import kiln.numpy as jnp
from benchmarks.programs import PROGRAMS, operand
from kiln.engines.native.building.builder import function_of
from kiln.engines.native.loop_ir.buffers import loads, nodes, roots_of
from kiln.engines.native.loop_ir.scalars import postorder
from kiln.engines.native.loop_ir.statements import Nest, walk
from kiln.engines.native.lowerings import LOWERINGS
from kiln.engines.native.passes.pipeline import PASSES


@pytest.mark.parametrize("name", [*PROGRAMS, "several results", "gathers"])
def test_nodes_and_loads_after_every_pass(name: str) -> None:
    programs = {
        "several results": lambda x: (x + jnp.sin(x), x * jnp.sin(x), jnp.sum(x, 1), x.T - x),
        "gathers": lambda x: x[jnp.argsort(x[0])] + x.at[jnp.argmax(x, 1)].add(x),
    }
    f = programs.get(name) or PROGRAMS[name](jnp, 20, 1.01)
    function = function_of(kiln.make_jaxpr(f)(operand(jnp)).jaxpr, "f", LOWERINGS)
    for make in (None, *PASSES.values()):
        if make is not None:
            make(function)
        nests = [each for each in walk(function.body) if isinstance(each, Nest)]
        assert nests
        for nest in nests:
            walked = postorder(roots_of(nest))
            assert list(nodes(nest)) == walked
            assert list(loads(nest)) == [x for x in walked if x.op == "load"]
