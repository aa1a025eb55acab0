"""The rules are checked on the reference engine, every program by the checker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kiln.base.options.config import override


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with override(engine="reference", check=True):
        yield
