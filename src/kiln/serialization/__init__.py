"""Saving and loading trees of arrays: state dicts, messages, safetensors, files."""

from __future__ import annotations

from kiln.serialization.files import load, save, write_atomically
from kiln.serialization.messages import (
    from_bytes,
    msgpack_restore,
    msgpack_serialize,
    to_bytes,
)
from kiln.serialization.safetensors import from_safetensors, to_safetensors
from kiln.serialization.state_dicts import (
    current_path,
    from_state_dict,
    is_serializable,
    register_serialization_state,
    to_state_dict,
)
