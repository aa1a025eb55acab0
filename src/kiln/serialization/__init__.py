"""Saving and loading trees of arrays."""

from __future__ import annotations

from kiln.serialization.state_dicts import (
    current_path,
    from_state_dict,
    is_serializable,
    register_serialization_state,
    to_state_dict,
)
