"""The modules of kiln in the place of Flax's."""

from __future__ import annotations

import importlib

import pytest

from kiln.as_jax.flax_places import PLACES, place_of


@pytest.mark.parametrize("place", sorted(set(PLACES.values())))
def test_all_places_exist(place):
    assert importlib.import_module(place).__name__ == place


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("flax.linen.attention", "kiln.linen.attention"),
        ("flax.core.lift", "kiln.linen.core.lift"),
        ("flax.linenx", None),
        ("flax.nnx", None),
        ("flax", None),
    ],
)
def test_places(name, place):
    assert place_of(name) == place
