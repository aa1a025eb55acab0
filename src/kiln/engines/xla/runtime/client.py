"""The clients of jaxlib's runtime, one for each platform: devices, transfers, compilation.

Arguments are checked in Python first: some invalid calls abort the process instead of raising.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
from collections.abc import Callable, Sequence
from typing import Any

import jaxlib
import numpy as np
from jaxlib import _jax, xla_client

from kiln import _runtime
from kiln.base.errors import JaxRuntimeError, three_lines
from kiln.base.options.config import options, settle
from kiln.base.process.forks import new_rlock
from kiln.base.process.identity import process_index
from kiln.base.signals import HeldBack
from kiln.core.arrays.shards import split
from kiln.core.engines.devices import Device
from kiln.engines.xla.runtime import buffers, coordination
from kiln.engines.xla.runtime.apart import apart, inside
from kiln.engines.xla.runtime.binding import XlaError, cpu_client, failed, parts_of, without_jax
from kiln.engines.xla.runtime.host_copies import OWN_COPY_BYTES, copied, each_copied_once
from kiln.engines.xla.runtime.layouts import DeviceSharding, hlo_of
from kiln.engines.xla.stablehlo.mlir import hlo, parse_alone
from kiln.engines.xla.stablehlo.text import host_dtype
from kiln.ir.shardings.sharding import Blocks, Sharding, SingleDeviceSharding
from kiln.ir.types import ShapedArray

Buffer = Any

PLACEMENTS = 4096


class _Type:
    """The attributes of an array's type that jaxlib reads."""

    __slots__ = ("dtype", "shape", "weak_type")

    def __init__(self, shape: Sequence[int], dtype: np.dtype) -> None:
        self.shape = tuple(shape)
        self.dtype = dtype
        self.weak_type = False


# The ratios of an executable's memory to its serialized size, and of that to the optimized program:
# between the fits of two runs of `python -m benchmarks.memory --fit`, jaxlib 0.10.2 on x86-64.
RESIDENT_BASE_BYTES = 120_000
RESIDENT_FACTOR = 24
SERIALIZED_BASE_BYTES = 5_400
SERIALIZED_FACTOR = 1.5

_COPY = xla_client.HostBufferSemantics.IMMUTABLE_ONLY_DURING_CALL
_SHARE = xla_client.HostBufferSemantics.ZERO_COPY

_type_of = functools.lru_cache(PLACEMENTS)(_Type)


@functools.lru_cache(PLACEMENTS)
def _on(device: Any) -> DeviceSharding:
    return DeviceSharding([device])


def _transferred(
    whole: Any,
    placement: DeviceSharding,
    parts: Sequence[np.ndarray],
    devices: Sequence[Any],
    semantics: Any,
) -> Buffer:
    of = _type_of(whole.shape, whole.dtype)
    call = xla_client.batched_device_put
    return inside(call, of, placement, parts, devices, True, False, semantics, True)


class Client:
    """The devices of one platform, by jaxlib's client."""

    def __init__(self, raw: Any) -> None:
        self._raw = raw
        self._raw_devices = list(self._raw.devices())
        self.devices = tuple(
            Device(d.id, d.platform, d.device_kind, d.process_index) for d in self._raw_devices
        )
        self._index = {device: i for i, device in enumerate(self.devices)}
        here = process_index()
        self.local_devices = tuple([d for d in self.devices if d.process_index == here])
        self.is_divided = len(self.local_devices) > 1 and self.devices[0].platform == "cpu"
        """Whether devices of this process are virtual: parts of one CPU."""
        self.launch_lock = _runtime.LaunchLock()
        """Determines which programs on virtual devices may be launched."""
        self._first_list = [self._raw_devices[self._index[self.local_devices[0]]]]
        self._first = DeviceSharding(self._first_list)
        # A program compiled without devices binds to device 0, which may belong to another process.
        self._first_id = [d.id for d in self._first_list if d.id]
        self._placements: dict[tuple[Sharding, int], DeviceSharding] = {}

    def _of(self, devices: Sequence[Any]) -> list[Any]:
        try:
            return [self._raw_devices[self._index[d]] for d in devices]
        except KeyError:
            raise ValueError(
                three_lines(
                    f"placing data or a program on {list(devices)}",
                    "these are not devices of the xla engine of this process",
                    f"use kiln.devices(): {list(self.devices)}",
                )
            ) from None

    def placement(self, sharding: Sharding | None, ndim: int) -> DeviceSharding:
        """Return jaxlib's representation of a sharding for arrays of rank `ndim`."""
        if sharding is None:
            return self._first
        found = self._placements.get((sharding, ndim))
        if found is None:
            # Programs and buffers have a fixed order of devices, whatever that of a mesh is.
            raw, (parts, at) = self._of(sharding.devices), sharding.blocks(ndim)
            order = sorted(range(len(raw)), key=lambda i: raw[i].id)
            number = {i: n for n, i in enumerate(sharding.addressable_order)}
            here = [(raw[i], number[i]) for i in order if i in number]
            hlo = hlo_of(Blocks(parts, tuple([at[i] for i in order])))
            found = DeviceSharding([raw[i] for i in order], hlo, here)
            if len(self._placements) >= PLACEMENTS:
                self._placements.clear()
            self._placements[sharding, ndim] = found
        return found

    def put(
        self, value: np.ndarray, sharding: Sharding | None = None, *, share: bool = False
    ) -> Buffer:
        """Transfer host data to its devices; with `share`, without a copy if alignment allows."""
        if value.dtype.kind == "V" and not value.dtype.itemsize:
            value = np.zeros(value.shape, np.bool_)
        if sharding is None:
            if not share and value.nbytes >= OWN_COPY_BYTES:
                value, share = copied(value), True
            placement, parts, devices = self._first, [value], self._first_list
        elif sharding.unreduced:
            return self._put_parts(value, sharding)
        else:
            placement = self.placement(sharding, value.ndim)
            pieces = split(sharding, value, apart=not value.size)
            devices = list(placement.local)
            if len({id(piece) for piece in pieces}) < len(pieces):
                pieces, share = each_copied_once(pieces), True
            parts = [pieces[i] for i in placement.order]
        semantics = _SHARE if share else _COPY
        return _transferred(value, placement, parts, devices, semantics)

    def _put_parts(self, value: np.ndarray, sharding: Sharding) -> Buffer:
        # XLA treats shards of the same shape as copies.
        pieces = zip(sharding.addressable_order, split(sharding, value), strict=True)
        parts = [self.put(x, SingleDeviceSharding(sharding.devices[i])) for i, x in pieces]
        return self.join(ShapedArray(value.shape, value.dtype), sharding, parts)

    def moved(self, buffer: Buffer, ndim: int, sharding: Sharding) -> Buffer:
        """Copy a buffer from one device to another, bypassing the host."""
        placement = self.placement(sharding, ndim)
        devices = _jax.DeviceList(tuple(placement.devices))
        try:
            with without_jax():
                return inside(
                    _jax.batched_copy_array_to_devices_with_sharding,
                    [buffer],
                    [devices],
                    [placement],
                    [_jax.ArrayCopySemantics.ALWAYS_COPY],
                )[0]
        except (XlaError, ValueError) as error:
            failed(error, "moving an array to another device")

    def join(self, aval: ShapedArray, sharding: Sharding, parts: Sequence[Buffer]) -> Buffer:
        """Build a buffer from its shards on the devices of this process."""
        placement = self.placement(sharding, aval.ndim)
        ordered = [parts[i] for i in placement.order]
        with without_jax():
            return _jax.ArrayImpl(
                _Type(*host_dtype(aval)), placement, ordered, committed=True, _skip_checks=True
            )

    def parts(self, buffer: Buffer, sharding: Sharding) -> list[Buffer]:
        """Return the shards of a buffer in this process, in the order of the sharding's devices.

        Unlike those of `shards` they do not have types: adding these takes as long as reading them.
        """
        arrays = parts_of(buffer)
        if arrays is None:
            raise JaxRuntimeError("a shard of the array has been deleted or donated")
        order = self.placement(sharding, len(buffer.aval.shape)).order
        found: list[Buffer] = [None] * len(order)
        for i, part in zip(order, arrays, strict=True):
            found[i] = part
        return found

    def shards(self, buffer: Buffer, sharding: Sharding) -> list[Buffer]:
        """Return the shards of a buffer in this process, each as a buffer on its device."""
        aval = _Type(sharding.shard_shape(buffer.aval.shape), buffer.aval.dtype)
        here = [sharding.devices[i] for i in sharding.addressable_order]
        parts = self.parts(buffer, sharding)
        with without_jax():
            return [
                part._rewrap_with_aval_and_sharding(aval, _on(device))
                for part, device in zip(parts, self._of(here), strict=True)
            ]

    def adopted(self, buffer: Buffer, home: Client, sharding: Sharding | None) -> Buffer:
        """Wait for a buffer of another client of these devices; return one that shares its memory.

        Raises: the failure of the program that computes it.
        """
        if sharding is None or len(sharding.devices) == 1:
            return self.put(buffers.get(buffer), sharding, share=True)
        parts = [buffers.get(part) for part in home.shards(buffer, sharding)]
        return self.share(buffer.aval, sharding, parts)

    def share(self, aval: Any, sharding: Sharding, parts: Sequence[np.ndarray]) -> Buffer:
        """Make a buffer from parts on the host, one for each device here, which never change."""
        placement = self.placement(sharding, len(aval.shape))
        pieces = [parts[i] for i in placement.order]
        return _transferred(aval, placement, pieces, list(placement.local), _SHARE)

    def handler(self, aval: ShapedArray, sharding: Sharding | None = None) -> Any:
        """Return the function that wraps one result in a buffer; create it once per program."""
        return _jax.array_result_handler(
            _Type(*host_dtype(aval)), self.placement(sharding, aval.ndim), True, True
        )

    def token_handler(self, sharding: Sharding | None = None) -> Any:
        """Return the handler of a token result, which is passed as an empty bool array."""
        token = _Type((0,), np.dtype(np.bool_))
        return _jax.array_result_handler(token, self.placement(sharding, 1), True, True)

    def compile(
        self,
        text: str,
        *,
        name: str,
        settings: Sequence[tuple[str, Any]] = (),
        callbacks: Sequence[Callable[..., Any]] = (),
        devices: Sequence[Any] = (),
        free_outputs: Sequence[bool] = (),
    ) -> Any:
        """Compile StableHLO text and return jaxlib's executable.

        Without `devices` it runs on the first one. On several, `free_outputs` lists which results
        XLA may shard as it chooses.

        Raises: JaxRuntimeError, also for an unknown setting.
        """
        _runtime.check_entry()
        if "lapack_" in text:
            register_lapack()
        ids = [d.id for d in self._of(devices)] or self._first_id
        choices = compile_options(settings, ids, free_outputs)
        try:
            placed = _jax.DeviceList(tuple(self._of(devices) if devices else self._first_list))
            load = self._raw.compile_and_load
            if callbacks:
                module, given = parse_alone(text), list(callbacks)
                return apart(lambda: load(module, placed, choices, given), must_end=True)
            return apart(lambda: load(text, placed, choices), must_end=True)
        except XlaError as error:
            if "No such compile option" in str(error):
                raise JaxRuntimeError(
                    three_lines(
                        f"compiling {name} with compiler_options={dict(settings)}",
                        f"XLA rejects them: {error}",
                        "use names of XLA's DebugOptions, such as xla_backend_optimization_level",
                    )
                ) from None
            failed(error, f"compiling {name}")

    def costs(self, text: str) -> dict[str, float]:
        """Return XLA's cost estimates for StableHLO text before optimization."""
        return dict(inside(_jax.hlo_module_cost_analysis, self._raw, hlo(text).as_hlo_module()))

    def serialize(self, raw: Any) -> bytes:
        """Return an executable as bytes: native code, for this jaxlib and type of CPU."""
        return bytes(inside(self._raw.serialize_executable, raw))

    def fingerprint(self) -> int:
        """Return a number that identifies the type of CPU and the number of devices.

        It is the same in all processes of a program on machines of one type.
        """
        if len(self.devices) > len(self.local_devices):
            # The topology of several processes has the number of this one in it.
            return _fingerprint_alone(len(self.local_devices))
        return int(inside(_jax.get_topology_for_devices, self._raw_devices).fingerprint())

    def resident_size(
        self, raw: Any, serialized: int | None = None, *, calls_host: bool = False
    ) -> int:
        """Return an estimate of the memory of an executable, in bytes; see `RESIDENT_FACTOR`.

        `serialized` is the size of what `serialize` returns, where that is known.
        """
        # jaxlib crashes when serializing programs on several devices that take a token.
        if serialized is None and not calls_host:
            # For example, sorts cannot be serialized.
            with contextlib.suppress(XlaError):
                serialized = len(self.serialize(raw))
        if serialized is None:
            # Predict the size from the optimized program.
            modules = inside(raw.hlo_modules)
            text = sum(len(m.as_serialized_hlo_module_proto()) for m in modules)
            serialized = SERIALIZED_BASE_BYTES + int(SERIALIZED_FACTOR * text)
        return RESIDENT_BASE_BYTES + RESIDENT_FACTOR * serialized

    def deserialize(
        self,
        blob: bytes,
        *,
        uses_lapack: bool,
        settings: Sequence[tuple[str, Any]] = (),
        devices: Sequence[Any] = (),
        free_outputs: Sequence[bool] = (),
    ) -> Any:
        """Load the result of `serialize`, for the devices it was compiled for.

        Trusted input only: it is native code.
        """
        _runtime.check_entry()
        if uses_lapack:
            register_lapack()
        raw_devices = self._of(devices)
        placed = _jax.DeviceList(tuple(raw_devices or self._first_list))
        try:
            ids = [d.id for d in raw_devices] or self._first_id
            choices = compile_options(settings, ids, free_outputs)
            return inside(self._raw.deserialize_executable, blob, placed, choices)
        except XlaError as error:
            failed(error, "loading a compiled program")


def compile_options(
    settings: Sequence[tuple[str, Any]],
    ids: Sequence[int] = (),
    free_outputs: Sequence[bool] = (),
) -> Any:
    """Return jaxlib's options for a program on devices numbered `ids`, or on the first one."""
    choices = xla_client.CompileOptions()
    if ids:
        # Without an assignment the program binds to device 0 and aborts on a foreign buffer.
        assignment = xla_client.DeviceAssignment.create(np.array([ids]))
        choices.device_assignment = assignment
        build = choices.executable_build_options
        build.device_assignment = assignment
        if len(ids) > 1:
            choices.num_partitions = build.num_partitions = len(ids)
            build.use_spmd_partitioning = True
            build.use_shardy_partitioner = True
            build.allow_spmd_sharding_propagation_to_parameters = [False]
            build.allow_spmd_sharding_propagation_to_output = list(free_outputs) or [False]
    for name, value in settings:
        if not isinstance(value, (str, bool, int, float)):
            raise JaxRuntimeError(
                three_lines(
                    f"compiler_options[{name!r}] = {value!r}",
                    f"a value of type {type(value).__name__} is not an option of XLA",
                    "use a str, bool, int or float",
                )
            )
    choices.env_option_overrides = list(settings)
    return choices


_COUNT_FLAG = "--xla_force_host_platform_device_count"


def cpu_devices() -> int:
    """Return the number of virtual CPU devices; the innermost setting takes precedence.

    Raises: ValueError unless it is a positive int (-1, JAX's default, means one device).
    """
    chosen = options().num_cpu_devices
    if chosen is not None and chosen != -1:
        return _positive("KILN_NUM_CPU_DEVICES", chosen)
    asked, text = "JAX_NUM_CPU_DEVICES", os.environ.get("JAX_NUM_CPU_DEVICES", "")
    if not text:
        flags = [f.partition("=") for f in os.environ.get("XLA_FLAGS", "").split()]
        found = [value for name, _, value in flags if name == _COUNT_FLAG]
        asked, text = f"XLA_FLAGS={_COUNT_FLAG}", found[-1] if found else ""
    try:
        count = int(text or "1")
    except ValueError:
        raise _no_count(asked, text, "the number of devices is not an int") from None
    return _positive(asked, count)


def _positive(asked: str, count: int) -> int:
    if count < 1:
        raise _no_count(asked, count, "there must be at least one device")
    return count


def _no_count(asked: str, given: Any, wrong: str) -> ValueError:
    return ValueError(
        three_lines(
            f"the first use of a device, with {asked}={given}",
            wrong,
            f"write {asked}=8, or KILN_NUM_CPU_DEVICES=8",
        )
    )


def _cpu_client() -> Any:
    shared = coordination.of_client()
    made = cpu_client(num_devices=cpu_devices(), asynchronous=True, **shared)
    settle("num_cpu_devices", "the devices have been created already")
    return made


_MAKERS: dict[str, Callable[[], Any]] = {"cpu": _cpu_client}
"""The platforms that run programs. For others, programs can only be compiled (`../targets/`)."""

_clients: dict[str, Client] = {}
_lock = new_rlock()
_lapack_registered = False


def has_started() -> bool:
    """Tell whether a client, with its threads, has been created."""
    return bool(_clients)


def client(platform: str) -> Client:
    """Return this process's client of a platform, created on first use.

    Raises: ValueError for a platform that cannot run programs.
    """
    found = _clients.get(platform)
    if found is not None:
        return found
    if platform not in _MAKERS:
        raise ValueError(
            three_lines(
                f"a client of the xla engine for the platform {platform!r}",
                "it does not run programs there",
                f"use one of: {', '.join(_MAKERS)}",
            )
        )
    with HeldBack(), _lock:
        if platform not in _clients:
            _clients[platform] = Client(_MAKERS[platform]())
        return _clients[platform]


def is_alone(platform: str) -> bool:
    """Tell whether all devices of a platform belong to this process, on its CPU."""
    return platform == "cpu" and all(d.process_index == 0 for d in client(platform).devices)


@functools.lru_cache(1)
def _fingerprint_alone(count: int) -> int:
    """Return the fingerprint of this CPU divided into devices, without other processes."""
    raw = inside(lambda: cpu_client(num_devices=count)).devices()
    return int(inside(_jax.get_topology_for_devices, raw).fingerprint())


def second_cpu_client() -> Client:
    """Return another client of the CPU devices, with threads and queues of its own."""
    count = len(client("cpu").devices)
    with HeldBack(), _lock:
        return Client(cpu_client(num_devices=count, asynchronous=True))


def register_lapack() -> None:
    """Register LAPACK's routines with XLA; this imports scipy.linalg, so only when needed."""
    global _lapack_registered
    with HeldBack(), _lock:
        if _lapack_registered:
            return
        lapack = importlib.import_module("jaxlib.lapack")
        client("cpu")
        for platform, targets in lapack.registrations().items():
            for name, capsule, version in targets:
                given = {"platform": platform, "api_version": version}
                xla_client.register_custom_call_target(name, capsule, **given)
        for name in lapack.batch_partitionable_targets():
            xla_client.register_custom_call_as_batch_partitionable(name)
        # Without this, the first call of a routine would jump to a null pointer.
        lapack._lapack.initialize()
        _lapack_registered = True


def jaxlib_version() -> str:
    """Return the version of jaxlib."""
    return str(jaxlib.__version__)
