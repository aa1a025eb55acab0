"""What a layer inside another module says when it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import kiln
from kiln import linen


class Outer(linen.Module):
    """A module that makes one layer and calls it."""

    make: Callable[[], Any]

    @linen.compact
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.make()(*args, **kwargs)


def inside(make: Callable[[], Any]) -> Outer:
    """Return a module with the layer inside."""
    return Outer(make)


def refusal(module: Any, *inputs: Any, error: type[Exception] = ValueError, **options: Any) -> str:
    """Return the three lines of the error that `init` raises."""
    with pytest.raises(error) as caught:
        module.init(kiln.random.key(0), *inputs, **options)
    text = str(caught.value)
    assert len(text.split("\n")) == 3, text
    assert "refusals.py" in text, text
    return text
