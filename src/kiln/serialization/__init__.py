"""Saving and loading trees of arrays: state dicts, msgpack, safetensors, npz, files."""

from __future__ import annotations

from kiln.base.files.writing import write_atomically as write_atomically
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.serialization.files import load as load
from kiln.serialization.files import save as save
from kiln.serialization.messages import from_bytes as from_bytes
from kiln.serialization.messages import msgpack_restore as msgpack_restore
from kiln.serialization.messages import msgpack_serialize as msgpack_serialize
from kiln.serialization.messages import to_bytes as to_bytes
from kiln.serialization.npz import from_npz as from_npz
from kiln.serialization.npz import to_npz as to_npz
from kiln.serialization.safetensors import from_safetensors as from_safetensors
from kiln.serialization.safetensors import to_safetensors as to_safetensors
from kiln.serialization.state_dicts import current_path as current_path
from kiln.serialization.state_dicts import from_state_dict as from_state_dict
from kiln.serialization.state_dicts import is_serializable as is_serializable
from kiln.serialization.state_dicts import (
    register_serialization_state as register_serialization_state,
)
from kiln.serialization.state_dicts import to_state_dict as to_state_dict

_suggest_names(globals())
