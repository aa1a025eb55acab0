"""The modules of kiln in the place of Flax's."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from tests.structure.source_tree import KILN

# Importing the package would open the door, which is refused beside jax.
_SPEC = importlib.util.spec_from_file_location("flax_places", KILN / "as_jax" / "flax_places.py")
flax_places = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(flax_places)


@pytest.mark.parametrize("place", sorted(set(flax_places.PLACES.values())))
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
    assert flax_places.place_of(name) == place
