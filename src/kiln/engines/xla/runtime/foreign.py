"""Registration of foreign functions with XLA: each name, and each type, once."""

from __future__ import annotations

from kiln.base.errors import three_lines
from kiln.base.process.forks import new_rlock
from kiln.base.source import current_source
from kiln.core.foreign import ForeignTarget, registered_types
from kiln.engines.xla.runtime.binding import xla_client
from kiln.engines.xla.runtime.client import client, register_lapack

_lock = new_rlock()
_known: set[object] = set()


def make_known(target: ForeignTarget) -> None:
    """Register with XLA the functions of a name, and the types that they use.

    Raises: ValueError for functions that XLA rejects.
    """
    if target.name.startswith("lapack_"):
        register_lapack()
    client("cpu")
    with _lock:
        try:
            _tell(target)
        except Exception as error:
            raise ValueError(
                three_lines(
                    f"call of the foreign function {target} at {current_source()}",
                    f"XLA rejects the function that was registered: {error}",
                    "register a capsule of a function with XLA's typed interface: "
                    "kiln.ffi.pycapsule(library.function)",
                )
            ) from error


def _tell(target: ForeignTarget) -> None:
    for key, registration in registered_types().items():
        if key not in _known:
            name, platform = key
            xla_client.register_custom_type(name, registration, platform=platform)
            _known.add(key)
    for made in target.registered.values():
        if (target, made.platform) not in _known:
            xla_client.register_custom_call_target(
                target.name, made.fn, made.platform, made.api_version, **dict(made.options)
            )
            _known.add((target, made.platform))
    if target.is_partitionable and target not in _known:
        xla_client.register_custom_call_as_batch_partitionable(target.name)
        _known.add(target)
