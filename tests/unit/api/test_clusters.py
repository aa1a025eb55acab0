"""Where processes find each other: the environments of schedulers."""

from __future__ import annotations

import socket

import pytest

from kiln.api.clusters import (
    Place,
    first_host,
    found_place,
    host_and_port,
    host_to_bind,
    is_loopback,
)
from kiln.errors import UnavailableOptionError
from tests.contract.marks import contract

SLURM = {
    "SLURM_JOB_ID": "123456",
    "SLURM_STEP_NODELIST": "node[003,007-015],login",
    "SLURM_NTASKS": "8",
    "SLURM_PROCID": "5",
    "SLURM_LOCALID": "1",
}
OPEN_MPI = {
    "OMPI_MCA_orte_hnp_uri": "1531576320.0;tcp://10.96.0.1,10.148.0.1:34911",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_RANK": "0",
}
OPEN_MPI_5 = {
    "PMIX_NAMESPACE": "prterun-node-7-32751@1",
    "PMIX_SERVER_URI41": "prterun-node-7-32751@0.0;tcp4://127.0.0.1:34277",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_RANK": "2",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
MPICH = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALNRANKS": "4", "MPI_LOCALRANKID": "1"}
KUBERNETES = {
    "KUBERNETES_SERVICE_HOST": "10.0.0.1",
    "JOB_COMPLETION_INDEX": "3",
    "HOSTNAME": "train-3",
}


NOTHING = Place()


def found(env: dict[str, str], given: Place = NOTHING, method: str | None = None) -> Place:
    return found_place(given, method, "initialize", env)


@contract("17.1")
def test_variables() -> None:
    env = {
        "JAX_COORDINATOR_ADDRESS": "a:1",
        "JAX_NUM_PROCESSES": "4",
        "JAX_PROCESS_ID": "2",
    }
    assert found(env) == Place("a:1", 4, 2)
    assert found(env, Place("b:2", None, 3)) == Place("b:2", 4, 3)
    assert found({**SLURM, **env}) == Place("a:1", 4, 2)


@contract("17.1")
def test_mpich() -> None:
    place = found(MPICH)
    assert place.address is not None
    assert place.address.startswith("127.0.0.1:")
    assert (place.count, place.index) == (4, 1)
    # The same in all processes of one parent, whatever started them between.
    assert found({**MPICH, "PMI_RANK": "3"}).address == place.address
    # On several machines there is no address that all know.
    with pytest.raises(ValueError, match="coordinator_address not given"):
        found({**MPICH, "MPI_LOCALNRANKS": "2"})
    several = {**MPICH, "MPI_LOCALNRANKS": "2", "JAX_COORDINATOR_ADDRESS": "a:1"}
    assert found(several) == Place("a:1", 4, 1)


@contract("17.1")
def test_slurm() -> None:
    # The port that JAX would choose.
    assert found(SLURM) == Place(f"node003:{123456 % 4096 + 61440}", 8, 5)
    assert found({**SLURM, "JAX_COORDINATOR_PORT": "77"}).address == "node003:77"
    assert found(SLURM, Place(None, None, 0)).index == 0


@pytest.mark.parametrize(
    ("nodes", "first"),
    [
        ("node001", "node001"),
        ("node001,host2", "node001"),
        ("node[001-0015],host2", "node001"),
        ("node[001,007-015],host2", "node001"),
    ],
)
def test_first_host(nodes: str, first: str) -> None:
    assert first_host(nodes) == first


@contract("17.1")
def test_open_mpi() -> None:
    port = 1531576320 // 4096 % 4096 + 61440
    assert found(OPEN_MPI) == Place(f"10.96.0.1:{port}", 4, 2)
    v6 = "1314521088.0;tcp6://[fe80::b9b:ac5d:9cf0:b858,2620:10d:c083:150e::3000:2]:43370"
    address = found({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": v6}).address
    assert address is not None
    assert address.startswith("[fe80::b9b:ac5d:9cf0:b858]:")
    with pytest.raises(ValueError, match="names no address"):
        found({**OPEN_MPI, "OMPI_MCA_orte_hnp_uri": "nothing"})


@contract("17.1")
def test_open_mpi_5() -> None:
    port = (32751 + 1) % 4096 + 61440
    assert found(OPEN_MPI_5) == Place(f"node-7:{port}", 4, 2)
    alone = {**OPEN_MPI_5, "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}
    assert found(alone) == Place(f"127.0.0.1:{port}", 4, 2)
    second = {**alone, "PMIX_NAMESPACE": "prte-node-7-32751@2"}
    assert found(second) == Place(f"127.0.0.1:{port + 1}", 4, 2)
    # That of SLURM's `srun --mpi=pmix` names no host.
    assert found({**SLURM, "PMIX_NAMESPACE": "slurm.pmix.17.0"}) == found(SLURM)
    with pytest.raises(ValueError, match="coordinator_address, num_processes, process_id"):
        found({"PMIX_NAMESPACE": OPEN_MPI_5["PMIX_NAMESPACE"]})


@contract("17.1")
def test_kubernetes() -> None:
    place = found(KUBERNETES, Place(None, 4))
    assert place.count == 4
    assert place.index == 3
    assert place.address is not None
    assert place.address.startswith("train-0")
    assert place.address.endswith(":55527")
    with pytest.raises(ValueError, match="num_processes not given"):
        found(KUBERNETES)


def test_environments_are_not_asked() -> None:
    with pytest.raises(ValueError, match="coordinator_address, num_processes, process_id"):
        found(SLURM, method="deactivate")
    with pytest.raises(ValueError, match="the environment has no 'OMPI_MCA"):
        found(SLURM, method="ompi")
    with pytest.raises(UnavailableOptionError, match="mpi4py"):
        found(SLURM, method="mpi4py")


@contract("17.1")
def test_alone() -> None:
    assert found({}, Place(None, 1)) == Place(None, 1, 0)


@contract("17.1")
@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (Place("a:1", 2, 2), ValueError, "not in the range from 0 to 1"),
        (Place("a:1", 2, -1), ValueError, "not in the range from 0 to 1"),
        (Place("a:1", "2", 0), TypeError, "num_processes='2' is not an int"),
        (Place("a:1", 2, None), ValueError, "process_id not given"),
    ],
)
def test_what_does_not_fit(given: Place, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        found({}, given)


def test_variables_that_are_no_numbers() -> None:
    with pytest.raises(ValueError, match="JAX_NUM_PROCESSES='two', which is not an int"):
        found({"JAX_NUM_PROCESSES": "two"})


def test_addresses() -> None:
    assert host_and_port("host:12", "") == ("host", 12)
    assert host_and_port("[::1]:12", "") == ("::1", 12)
    for wrong in ("host", "host:", ":12", "host:http"):
        with pytest.raises(ValueError, match="an address is a host and a port"):
            host_and_port(wrong, "initialize")


@pytest.mark.parametrize(
    ("host", "bound"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", "127.0.0.1"),
        # Documentation has addresses of its own, which no machine has.
        ("192.0.2.1", "::"),
        ("no.such.host.invalid", "::"),
    ],
)
def test_where_process_0_listens(host: str, bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def known(name: str, port: object, **_: object) -> list[object]:
        if name.endswith("invalid"):
            raise socket.gaierror
        address = "127.0.0.1" if name == "localhost" else name
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0))]

    monkeypatch.setattr(socket, "getaddrinfo", known)
    assert host_to_bind(host) == bound


@pytest.mark.parametrize(
    ("addresses", "bound"),
    [
        (["127.0.0.2"], "::"),  # as a machine may call itself, and no other machine calls it
        (["127.0.0.1", "192.0.2.1"], "::"),
        (["0.0.0.0"], "0.0.0.0"),
    ],
)
def test_names_with_addresses(
    addresses: list[str], bound: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, 0)) for each in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert host_to_bind("node1") == bound


def test_addresses_of_this_machine_alone() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.9.9.9", "::1", "localhost")))
    assert not any(map(is_loopback, ("::", "0.0.0.0", "10.0.0.1", "node1")))
