"""How this process finds the others: the environments that start several processes.

The names of the variables are those of the schedulers, and the ports those that JAX would choose.
"""

from __future__ import annotations

import contextlib
import ipaddress
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from kiln.base.errors import UnavailableOptionError, three_lines
from kiln.base.records import Record

_PORTS = 1 << 12
_FIRST_PORT = (1 << 16) - _PORTS
KUBERNETES_PORT = 55527


class Place(Record):
    """Where the processes meet, how many there are, and the rank of this one."""

    address: str | None = None
    count: int | None = None
    index: int | None = None

    def or_else(self, other: Place) -> Place:
        """Return this place, with missing parts from another one."""
        return Place(
            other.address if self.address is None else self.address,
            other.count if self.count is None else self.count,
            other.index if self.index is None else self.index,
        )

    def missing(self) -> list[str]:
        """Return the missing parts, by the names of the arguments of `initialize`."""
        said = {
            "coordinator_address": self.address,
            "num_processes": self.count,
            "process_id": self.index,
        }
        return [name for name, value in said.items() if value is None]


Environment = Mapping[str, str]


class _Missing(ValueError):
    """A variable that the environment should have."""


def _int(env: Environment, name: str) -> int | None:
    text = env.get(name)
    if text is None:
        return None
    try:
        return int(text)
    except ValueError:
        raise _Missing(f"the environment has {name}={text!r}, which is not an int") from None


def _named(env: Environment) -> Place:
    return Place(
        env.get("JAX_COORDINATOR_ADDRESS"),
        _int(env, "JAX_NUM_PROCESSES"),
        _int(env, "JAX_PROCESS_ID"),
    )


def _port(env: Environment, default: int) -> str:
    return env.get("JAX_COORDINATOR_PORT") or str(default)


def _job_port(env: Environment, job: int) -> str:
    # Different for jobs on one machine, and the same in all processes of one.
    return _port(env, _FIRST_PORT + job % _PORTS)


def _in_slurm(env: Environment) -> bool:
    names = ("JOB_ID", "STEP_NODELIST", "NTASKS", "PROCID", "LOCALID")
    return all(f"SLURM_{name}" in env for name in names)


def _slurm(env: Environment) -> Place:
    host = first_host(env["SLURM_STEP_NODELIST"])
    port = _job_port(env, _int(env, "SLURM_JOB_ID") or 0)
    return Place(f"{host}:{port}", _int(env, "SLURM_NTASKS"), _int(env, "SLURM_PROCID"))


def first_host(nodes: str) -> str:
    """Return the first host of a SLURM node list such as `node[001,007-015],login`."""
    found = re.match(r"([^,\[]*)(?:\[([^,\-\]]*))?", nodes)
    assert found is not None
    return found[1] + (found[2] or "")


_ORTE = "OMPI_MCA_orte_hnp_uri"
_NAMESPACE = "PMIX_NAMESPACE"
_PRRTE = re.compile(r"prte(?:run)?-(.+)-([0-9]+)@([0-9]+)")
"""What Open MPI 5 names a job after: the host and the number of the process that started it."""


def _prrte(env: Environment) -> re.Match[str] | None:
    return _PRRTE.fullmatch(env.get(_NAMESPACE, "")) if _ORTE not in env else None


def _in_open_mpi(env: Environment) -> bool:
    return _ORTE in env or (_prrte(env) is not None and "OMPI_COMM_WORLD_RANK" in env)


def _open_mpi(env: Environment) -> Place:
    """Return the place of a process that Open MPI's `mpirun` started.

    Until version 4 a variable names the address of `mpirun`. Version 5 names that of a server on
    each machine instead.
    """
    count, index = _int(env, "OMPI_COMM_WORLD_SIZE"), _int(env, "OMPI_COMM_WORLD_RANK")
    named = _prrte(env)
    if named is not None:
        is_one_machine = _int(env, "OMPI_COMM_WORLD_LOCAL_SIZE") == count
        name, job = "127.0.0.1" if is_one_machine else named[1], int(named[2]) + int(named[3])
        return Place(f"{name}:{_job_port(env, job)}", count, index)
    uri = env[_ORTE]
    host = re.search(r"tcp://([^,:]+)|tcp6://\[([^,\]]+)", uri)
    family = re.match(r"\d+", uri)
    if host is None or family is None:
        raise _Missing(f"{_ORTE}={uri!r} names no address")
    port = _job_port(env, int(family[0]) // _PORTS)
    return Place(f"{host[1] or f'[{host[2]}]'}:{port}", count, index)


def _in_hydra(env: Environment) -> bool:
    return all(name in env for name in ("PMI_RANK", "PMI_SIZE", "MPI_LOCALNRANKS"))


def _hydra(env: Environment) -> Place:
    """Return the place of a process that MPICH's or Intel MPI's `mpirun` started.

    Its variables name no address. Processes of one machine have a common ancestor: its number
    determines the port.
    """
    count, index = _int(env, "PMI_SIZE"), _int(env, "PMI_RANK")
    address = None
    if count is not None and _int(env, "MPI_LOCALNRANKS") == count:
        address = f"127.0.0.1:{_job_port(env, _proxy())}"
    return Place(address, count, index)


_PROXY = "hydra_pmi_proxy"


def _proxy() -> int:
    """Return the number of MPICH's process that starts those of this machine."""
    pid = parent = os.getppid()
    with contextlib.suppress(OSError, ValueError):
        while pid > 1:
            # The name may have blanks and parentheses.
            head, _, rest = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")
            if head.partition("(")[2] == _PROXY:
                return pid
            pid = int(rest.split()[1])
    return parent


def _in_kubernetes(env: Environment) -> bool:
    return "KUBERNETES_SERVICE_HOST" in env and "JOB_COMPLETION_INDEX" in env


def _kubernetes(env: Environment) -> Place:
    """Return the place of a pod of an indexed Job, whose host name is `job-index`.

    Only the cluster's API knows how many there are.
    """
    index = _int(env, "JOB_COMPLETION_INDEX")
    host = env.get("HOSTNAME") or socket.gethostname()
    job = host.removesuffix(f"-{index}")
    # The pods of a Job reach each other by the headless service that is their subdomain.
    subdomain = socket.getfqdn(host).partition(".")[2].partition(".")[0]
    address = f"{job}-0.{subdomain}" if subdomain else f"{job}-0"
    return Place(f"{address}:{_port(env, KUBERNETES_PORT)}", None, index)


_METHODS: dict[str, tuple[Callable[[Environment], bool], Callable[[Environment], Place]]] = {
    "ompi": (_in_open_mpi, _open_mpi),
    "slurm": (_in_slurm, _slurm),
    "mpich": (_in_hydra, _hydra),
    "k8s": (_in_kubernetes, _kubernetes),
}
"""For each environment, by JAX's name: how to recognize it, and the place it specifies."""

NOWHERE = "deactivate"


def is_started_alone(env: Environment = os.environ) -> bool:
    """Tell whether the environment names no other processes."""
    is_named = len(_named(env).missing()) < 3
    return not is_named and not any(is_present(env) for is_present, _ in _METHODS.values())


def found_place(
    given: Place, method: str | None, asked: str, env: Environment = os.environ
) -> Place:
    """Return the place of this process, from the given arguments and the environment.

    Raises: ValueError if something is missing or does not fit; UnavailableOptionError for a method
        that kiln does not have.
    """
    if method is not None and method != NOWHERE and method not in _METHODS:
        raise UnavailableOptionError(
            three_lines(
                f"{asked}, with cluster_detection_method={method!r}",
                "kiln does not know this environment",
                f"use one of {', '.join(map(repr, (*_METHODS, NOWHERE)))}, or give "
                "coordinator_address, num_processes and process_id",
            )
        )
    try:
        place = given.or_else(_named(env))
        if place.missing() and method != NOWHERE:
            for name, (is_present, read) in _METHODS.items():
                if method == name or (method is None and is_present(env)):
                    place = place.or_else(read(env))
                    break
    except (_Missing, KeyError) as error:
        text = f"the environment has no {error}" if isinstance(error, KeyError) else str(error)
        raise ValueError(three_lines(asked, text, _REMEDY)) from None
    if place.count == 1 and place.index in (None, 0):
        return Place(place.address, 1, 0)
    _require_fit(place, asked)
    return place


_REMEDY = (
    "give coordinator_address, num_processes and process_id, or start the processes by "
    "python -m kiln launch -n 4 program.py"
)


def _require_fit(place: Place, asked: str) -> None:
    missing = place.missing()
    if missing:
        said = "coordinator_address should be defined." if place.address is None else ""
        wrong = f"{', '.join(missing)} not given, and not found in the environment. {said}".strip()
        raise ValueError(three_lines(asked, wrong, _REMEDY))
    count, index = place.count, place.index
    for name, value in (("num_processes", count), ("process_id", index)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(three_lines(asked, f"{name}={value!r} is not an int", _REMEDY))
    if count is not None and index is not None and not 0 <= index < count:
        wrong = (
            f"process_id={index} is not in the range from 0 to {count - 1}, of {count} processes"
        )
        raise ValueError(three_lines(asked, wrong, _REMEDY))


def host_and_port(address: str, asked: str) -> tuple[str, int]:
    """Return the parts of an address.

    Raises: ValueError.
    """
    host, _, port = address.rpartition(":")
    if not port.isdigit() or not host:
        raise ValueError(
            three_lines(
                f"{asked}, with the address {address!r}",
                "an address is a host and a port",
                "write coordinator_address='10.0.0.1:1234'",
            )
        )
    return host.strip("[]"), int(port)


def is_loopback(address: str) -> bool:
    """Tell whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def host_to_bind(host: str) -> str:
    """Return the address that process 0 binds so that `host` reaches it; `::` for all.

    For a number, or a name with one address, it is that address if this machine has it. A name may
    resolve to this machine here, and to another address elsewhere: then it is all addresses.
    """
    try:
        known = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return "::"
    found = sorted({str(address[0]) for *_, address in known})
    if host == "localhost" and all(map(is_loopback, found)):
        return found[0]
    is_number = False
    with contextlib.suppress(ValueError):
        is_number = bool(ipaddress.ip_address(host))
    if len(found) > 1 or (is_loopback(found[0]) and not is_number):
        return "::"
    return found[0] if is_of_this_machine(found[0]) else "::"


def is_of_this_machine(address: str) -> bool:
    """Tell whether this machine has an address."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family) as tried:
            tried.bind((address, 0))
    except OSError:
        return False
    return True
