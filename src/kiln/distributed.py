"""Several processes as one program: each has its own devices, and arrays may lie on all of them.

`initialize` is called once in each process, before anything else; `docs/processes.md` tells more.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar, cast

from kiln.api.clusters import (
    Place,
    found_place,
    host_and_port,
    host_to_bind,
    is_loopback,
    is_of_this_machine,
    is_started_alone,
)
from kiln.base.errors import (
    JaxRuntimeError,
    PeerError,
    UnavailableOptionError,
    one_line,
    three_lines,
)
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.options.config import options
from kiln.base.process.forks import in_child
from kiln.base.process.identity import is_frozen
from kiln.base.source import current_source
from kiln.core.engines.engine import DEFAULT_ENGINE, SharedEngine, engine
from kiln.core.engines.installed import require_installed
from kiln.core.processes.joining import JoinRequest
from kiln.core.processes.membership import Limits
from kiln.core.processes.peers import meet, peers
from kiln.core.processes.supervisor import Setting, Supervisor
from kiln.core.processes.worker import take_supervisor

__all__ = ["initialize", "is_initialized", "run", "shutdown"]

R = TypeVar("R")

TOKEN = "KILN_COORDINATOR_TOKEN"
"""The variable that holds the token by which the processes know each other."""

LAUNCH_FOLDER = "KILN_LAUNCH_FOLDER"
"""The variable by which `python -m kiln launch` names a folder.

A process that fails because another one has failed says so in a file there, named by its number.
"""

ELASTIC = "elastic"
"""A file there, by which a program tells that it goes on when one of the processes is lost."""

_initialized = False
_shutdown_timeout = 300.0


def initialize(
    coordinator_address: str | None = None,
    num_processes: int | None = None,
    process_id: int | None = None,
    local_device_ids: int | Sequence[int] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
    shutdown_timeout_seconds: float = 300,
    coordinator_bind_address: str | None = None,
    slice_index: int | None = None,
    partition_index: int | None = None,
    coordinator_token: str | None = None,
) -> None:
    """Make this process one of the processes of a program; call it first.

    Arguments that are left out are found in the environment: of `python -m kiln launch`, SLURM,
    Open MPI, MPICH, Kubernetes, or in JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES and
    JAX_PROCESS_ID.
    Process 0 listens at `coordinator_bind_address`, by default at the coordinator's address if that
    is one of this machine, otherwise on all interfaces. `coordinator_token`, by default that of
    KILN_COORDINATOR_TOKEN, is a secret text, the same in all processes: without it, anyone who
    reaches the port may take part. A process that was silent for `heartbeat_timeout_seconds` has
    failed; the others raise PeerError then.

    `local_device_ids` chooses among GPUs, of which there are none; KILN_NUM_CPU_DEVICES says into
    how many devices each process divides its processor.

    Units: seconds.
    Raises: ValueError for arguments that are missing or do not fit; RuntimeError if called twice,
        or after the devices were made; JaxRuntimeError if the processes do not meet in time.
    """
    global _initialized, _shutdown_timeout
    asked = f"distributed.initialize at {current_source()}"
    if _initialized:
        raise RuntimeError(
            three_lines(
                asked,
                "distributed.initialize should only be called once.",
                "call it at the beginning of the program and nowhere else",
            )
        )
    if slice_index is not None or partition_index is not None:
        raise UnavailableOptionError(
            three_lines(asked, "CPUs have no slices or partitions", "leave the index out")
        )
    given = Place(coordinator_address, num_processes, process_id)
    place = found_place(given, cluster_detection_method, asked)
    if place.count == 1:
        _initialized = True
        return
    assert place.address is not None
    assert place.count is not None
    assert place.index is not None
    require_installed(DEFAULT_ENGINE, asked.partition(" at ")[0])
    shared = cast(SharedEngine, engine(DEFAULT_ENGINE))
    _require_beginning(asked, shared)
    _shutdown_timeout = shutdown_timeout_seconds
    host, port = host_and_port(place.address, asked)
    bind = coordinator_bind_address or os.environ.get("JAX_COORDINATOR_BIND_ADDRESS")
    request = JoinRequest(
        host,
        port,
        place.index,
        place.count,
        host_and_port(bind, asked)[0] if bind else host_to_bind(host),
        initialization_timeout,
        shutdown_timeout_seconds,
        coordinator_token or os.environ.get(TOKEN, ""),
    )
    if not request.index:
        _warn_without_token(asked, request.token, request.bind_host, port)
    meet(request, shared, heartbeat_timeout_seconds)
    _initialized = True
    atexit.register(_end)


def _warn_without_token(asked: str, token: str, host: str, port: int) -> None:
    if token or is_loopback(host):
        return
    warnings.warn(
        three_lines(
            f"{asked} listens at port {port} of {'all interfaces' if host == '::' else host}",
            "without a token, anyone who reaches the port may take part in the program",
            f"set {TOKEN} to the same secret text in all processes",
        ),
        stacklevel=3,
    )


def run(
    train: Callable[[], R],
    *,
    min_processes: int,
    max_processes: int | None = None,
    max_restarts: int = 10,
    initialization_timeout: float = 300,
    heartbeat_timeout_seconds: float = 100,
) -> R:
    """Call a function in as many processes as there are, again and again until it ends well.

    Call it first, instead of `initialize`, in a program that a cluster's manager starts. Each
    process that it has started becomes a supervisor, which starts the program again as a worker:
    there `initialize` and `train` are called, and their result is returned. If a worker fails, all
    of them are ended, and start again, `max_restarts` times at most. If a supervisor is lost, the
    others go on without it, with `min_processes` at least. One that joins makes all start again.
    Supervisors beyond `max_processes` wait until they are needed. `train` is to restore what it
    has saved: see docs/processes.md.

    A process that was started by nothing calls `train` alone, if `min_processes` is 1.

    Units: seconds.
    Raises: ValueError for numbers that do not fit; JaxRuntimeError if the supervisors do not meet;
        SystemExit in a supervisor, when the program has ended.
    Example:
        >>> kiln.distributed.run(lambda: kiln.process_count(), min_processes=1)
        1
    """
    asked = (
        f"distributed.run with min_processes={min_processes}, max_processes={max_processes}, "
        f"max_restarts={max_restarts} at {current_source()}"
    )
    most = min_processes if max_processes is None else max_processes
    if not 1 <= min_processes <= most or max_restarts < 0:
        raise ValueError(
            three_lines(
                asked,
                "at least one process is needed, max_processes is at least min_processes, and "
                "max_restarts at least 0",
                "write kiln.distributed.run(train, min_processes=2, max_processes=4)",
            )
        )
    if take_supervisor():
        initialize(
            initialization_timeout=initialization_timeout,
            heartbeat_timeout_seconds=heartbeat_timeout_seconds,
        )
        return train()
    if min_processes == 1 and is_started_alone():
        return train()
    place = found_place(Place(), None, asked)
    assert place.count is not None
    if place.count < min_processes:
        raise ValueError(
            three_lines(
                asked,
                f"there are {place.count} processes",
                f"start {min_processes} at least, or lower min_processes",
            )
        )
    limits = Limits(min_processes, max_processes or place.count, max_restarts)
    setting = _setting(place, limits, asked, initialization_timeout, heartbeat_timeout_seconds)
    if not setting.index:
        _warn_without_token(asked, setting.token, setting.bind_host, setting.port)
    folder = os.environ.get(LAUNCH_FOLDER)
    if folder:
        with contextlib.suppress(OSError):
            (Path(folder) / ELASTIC).touch()
    try:
        code = Supervisor(setting).run()
    except OSError as error:
        raise JaxRuntimeError(
            three_lines(asked, str(error), "start all processes with the same address and token")
        ) from None
    raise SystemExit(code)


def _setting(
    place: Place, limits: Limits, asked: str, initialization: float, heartbeat: float
) -> Setting:
    """Return what the supervisor of this process needs to know."""
    assert place.index is not None
    assert place.count is not None
    # A program of one process needs no address; it meets nobody.
    host, port = host_and_port(place.address or "127.0.0.1:0", asked)
    bind = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS")
    bound = host_and_port(bind, asked)[0] if bind else host_to_bind(host)
    return Setting(
        host=host,
        port=port,
        index=place.index,
        count=place.count,
        bind_host=bound,
        own_bind=bound if is_loopback(bound) else "::",
        is_same_machine=is_of_this_machine(host),
        token=os.environ.get(TOKEN, ""),
        limits=limits,
        command=[sys.executable, *sys.orig_argv[1:]],
        marker=LAUNCH_FOLDER,
        initialization_timeout=initialization,
        heartbeat_timeout=heartbeat,
    )


def _require_beginning(asked: str, shared: SharedEngine) -> None:
    if shared.has_devices():
        raise RuntimeError(
            three_lines(
                asked,
                "distributed.initialize must be called before any computation or question that "
                "makes the devices, and they have been made",
                "call it first, before kiln.devices(), kiln.device_put and programs",
            )
        )
    if is_frozen():
        raise RuntimeError(
            three_lines(
                asked,
                "distributed.initialize must be called before kiln.process_index() and "
                "kiln.process_count(), which have answered already",
                "call it first",
            )
        )
    chosen = options().engine
    if chosen not in (None, DEFAULT_ENGINE):
        raise UnavailableOptionError(
            three_lines(
                asked,
                f"the option engine={chosen!r} keeps all arrays in the memory of one process",
                "leave KILN_ENGINE out",
            )
        )


@in_child
def _forget() -> None:
    global _initialized
    _initialized = False


def is_initialized() -> bool:
    """Tell whether `initialize` was called."""
    return _initialized


def shutdown() -> None:
    """Wait for the other processes to come to their ends, and leave them.

    The shutdown of the interpreter does the same. No program of several processes runs afterwards.

    Raises: PeerError if one of them has failed, or does not come in time.
    """
    global _initialized
    others, was, _initialized = peers(), _initialized, False
    if was and others is not None:
        others.leave(_shutdown_timeout)


def _end() -> None:
    """Disconnect during interpreter shutdown; at once if an exception ends the program."""
    global _initialized
    others, was, _initialized = peers(), _initialized, False
    if not was or others is None:
        return
    error = getattr(sys, "last_value", None)
    folder = os.environ.get(LAUNCH_FOLDER)
    if folder and (isinstance(error, PeerError) or (error and others.failure())):
        with contextlib.suppress(OSError):
            why = others.failure() or one_line(error)
            (Path(folder) / str(others.index)).write_text(why, encoding="utf-8")
    if error is not None:
        reason = f"{type(error).__name__}: {one_line(error):.300}"
        others.abandon(f"process {others.index} has ended by {reason}")
        return
    try:
        others.leave(_shutdown_timeout)
    except PeerError as failed:
        sys.stderr.write(f"{failed}\n")


_suggest_names(globals())
