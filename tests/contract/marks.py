"""`@contract("3.5")` says which numbered item of the behavior contract a test holds."""

from __future__ import annotations

import pytest


def contract(*items: str) -> pytest.MarkDecorator:
    """Mark a test with the contract items it checks."""
    return pytest.mark.contract(*items)
