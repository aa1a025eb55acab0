"""What is in force is a key: another for whatever a program may depend on."""

from __future__ import annotations

import abc

import numpy as np
import pytest

import kiln
from kiln.base.options.config import options, override
from kiln.content.ambient import ambient
from kiln.ir.sizes.assumptions import collecting


@pytest.mark.parametrize("name", ["enable_x64", "jit", "check", "debug_infs", "content"])
def test_every_option_counts(name: str) -> None:
    before = ambient(numpy=False)
    assert ambient(numpy=False) == before
    with override(**{name: not getattr(options(), name)}):
        assert ambient(numpy=False) != before
    assert ambient(numpy=False) == before
    assert hash(ambient(numpy=False)) == hash(before)


def test_sizes_with_names_count_while_their_program_is_recorded() -> None:
    before = ambient(numpy=False)
    with collecting(["n"]):
        inside = ambient(numpy=False)
        with collecting(["m"]):
            within = ambient(numpy=False)
        assert ambient(numpy=False) == inside
    assert ambient(numpy=False) == before
    assert len({before, inside, within}) == 3


def test_registrations_count() -> None:
    class Node:
        """A class that becomes a node."""

    class Base(abc.ABC):  # noqa: B024 - only registered with
        """A class that others may be registered with."""

    seen = {ambient(numpy=False)}
    kiln.tree_util.register_pytree_node(Node, lambda x: ((), None), lambda data, kids: Node())
    seen.add(ambient(numpy=False))
    Base.register(Node)
    seen.add(ambient(numpy=False))
    assert len(seen) == 3


def test_what_numpy_does_on_errors_counts_for_its_numbers() -> None:
    with np.errstate(all="raise"):
        plain, numbers = ambient(numpy=False), ambient(numpy=True)
    with np.errstate(all="ignore"):
        assert ambient(numpy=False) == plain
        assert ambient(numpy=True) != numbers
        printed = ambient(numpy=True)
        with np.printoptions(legacy="1.13"):
            assert ambient(numpy=True) != printed
