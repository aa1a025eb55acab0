"""The devices of a platform as an object, by the names in `jax.extend.backend`."""

from __future__ import annotations

from typing import Any

from kiln.api.arrays import default_backend, devices, local_devices, process_index
from kiln.core.engines.devices import DevicePlatform
from kiln.jit.cache import clear_caches


class Backend(DevicePlatform):
    """A platform, such as `cpu`, with its devices."""

    def devices(self) -> list[Any]:
        """Return all devices."""
        return devices(self.platform)

    def local_devices(self) -> list[Any]:
        """Return the devices of this process."""
        return local_devices(backend=self.platform)

    def device_count(self) -> int:
        """Return the number of all devices."""
        return len(self.devices())

    def local_device_count(self) -> int:
        """Return the number of devices of this process."""
        return len(self.local_devices())

    def process_index(self) -> int:
        """Return the number of this process."""
        return process_index()

    def __repr__(self) -> str:
        return f"<the platform {self.platform}>"


def get_backend(platform: str | Backend | None = None) -> Backend:
    """Return a platform, the default one if none is named.

    Raises: RuntimeError if it has no devices.
    """
    if isinstance(platform, Backend):
        return platform
    found = Backend(platform or default_backend())
    found.devices()
    return found


def backends() -> dict[str, Backend]:
    """Return the default platform by its name."""
    found = get_backend()
    return {found.platform: found}


def get_default_device() -> Any:
    """Return the device of arrays that were never placed."""
    return devices()[0]


def backend_xla_version(platform: str | None = None) -> int | None:
    """Return None: the version of XLA is not known.

    Raises: RuntimeError if `platform` is not available.
    """
    get_backend(platform)
    return None


def clear_backends() -> None:
    """Forget all compiled programs; devices stay."""
    clear_caches()


def clear_in_memory_compilation_cache() -> None:
    """Forget all compiled programs."""
    clear_caches()


__all__ = [
    "Backend",
    "backend_xla_version",
    "backends",
    "clear_backends",
    "clear_in_memory_compilation_cache",
    "get_backend",
    "get_default_device",
]
