"""What `docs/security.md` says of exported programs and ports, sentence by sentence.

`tests/unit/core/processes/test_unauthenticated.py` also tests what unauthenticated connections can
do at a port.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import export
from kiln.base.files.checksums import SIZE, with_checksum
from kiln.core.processes import handshake, lifelines, lines
from kiln.engines.xla import untrusted
from kiln.engines.xla.runtime.relay import Relay
from kiln.experimental.serialize_executable import deserialize_and_load, serialize
from tests.unit.core.processes.test_unauthenticated import TOKEN, Meeting, is_closed, said
from tests.unit.export.write_data import DATA

pytest.importorskip("flatbuffers")

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
X = np.ones(3, np.float32)


def stored() -> bytes:
    return bytes(export.export(kiln.jit(lambda x: x * 3))(X).serialize())


def test_the_numbers_of_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8").replace("\n ", "")
    assert lines.LONGEST_UNAUTHENTICATED == 4 << 10
    assert "limited to 4 KiB" in text
    assert f"within {handshake.LONGEST_S:g} seconds" in text
    assert f"only the latest {lifelines.MOST_UNAUTHENTICATED} of them are kept" in text
    assert untrusted.LONGEST_S == 120
    assert "exceeds two minutes" in text


def test_a_changed_bit_or_a_missing_byte_is_an_error() -> None:
    code, *trees = serialize(kiln.jit(jnp.sin).lower(X).compile())
    for data, load in (
        (stored(), export.deserialize),
        (code, lambda data: deserialize_and_load(data, *trees)),
    ):
        load(data)
        for at in (0, 8, len(data) // 2, len(data) - SIZE, len(data) - 1):
            flipped = bytearray(data)
            flipped[at] ^= 16
            for damaged in (bytes(flipped), data[:at], data[at + 1 :], data[:at] + data[at + 1 :]):
                with pytest.raises(ValueError, match="not what"):
                    load(damaged)


def test_a_checksum_is_no_signature() -> None:
    forged = stored()[:-SIZE].replace(np.float32(3).tobytes(), np.float32(5).tobytes())
    np.testing.assert_array_equal(export.deserialize(with_checksum(forged)).call(X), 5 * X)


def test_programs_of_jax_are_read_by_another_process_first(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []
    real = untrusted.Reader.fault
    monkeypatch.setattr(
        untrusted.Reader, "fault", lambda self, data: read.append(data) or real(self, data)
    )
    export.deserialize(stored())
    assert not read
    loaded = export.deserialize((DATA / "static.bin").read_bytes())
    # Its own program, and those of its two derivatives.
    inner = loaded.vjp()
    assert read == [each.mlir_module_serialized for each in (loaded, inner, inner.vjp())]
    # Stored by kiln, it has a checksum.
    export.deserialize(loaded.serialize())
    assert len(read) == 3


def test_a_reader_that_dies_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    # A program that JAX's own `deserialize` would die of is not for a test: the reader is stopped.
    started = untrusted.Reader._started

    def dying(self: untrusted.Reader) -> Any:
        process = started(self)
        process.kill()
        process.wait()
        return process

    monkeypatch.setattr(untrusted.Reader, "_started", dying)
    with pytest.raises(ValueError, match="or all memory"):
        export.deserialize((DATA / "cuda.bin").read_bytes())


def test_a_port_is_closed_when_all_have_come() -> None:
    meeting = Meeting()
    meeting.succeeds()
    assert not meeting.connects()


def test_the_token_is_never_sent() -> None:
    heard: list[bytes] = []
    meeting = Meeting()
    port = meeting.port
    with socket.create_server(("127.0.0.1", 0)) as between:

        def listen() -> None:
            near = between.accept()[0]
            far = socket.create_connection(("127.0.0.1", port))
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=copy, args=(source, target), daemon=True).start()

        def copy(source: socket.socket, target: socket.socket) -> None:
            while data := source.recv(4096):
                heard.append(data)
                target.sendall(data)

        threading.Thread(target=listen, daemon=True).start()
        meeting.port = between.getsockname()[1]
        meeting.succeeds()
    everything = b"".join(heard)
    assert TOKEN.encode() not in everything
    assert everything.count(b'"proof"') == 2


def test_without_a_token_anybody_may_take_a_rank() -> None:
    meeting = Meeting(token="")
    stranger = meeting.stranger()
    proof = handshake.proof("", "hello", meeting.asked(stranger), "mine", 1, 2)
    said(stranger, {"kind": "hello", "rank": 1, "count": 2, "nonce": "mine", "proof": proof})
    meeting.thread.join(20)
    assert meeting.outcome == [None]


INITIALIZE = """
import sys, warnings
from kiln import distributed
distributed.meet = lambda request, *_: print(request.bind_host, request.token)
address, token = sys.argv[1:]
distributed.initialize(address, 2, 0, coordinator_token=token or None)
distributed._initialized = False
"""


@pytest.mark.parametrize(
    ("address", "token", "printed", "warned"),
    [
        ("127.0.0.1:1", "", "127.0.0.1", False),
        ("[::1]:1", "", None, False),
        ("192.0.2.1:1", "", ":: environment", False),
        ("192.0.2.1:1", "given", ":: given", False),
        ("0.0.0.0:1", "", "0.0.0.0", True),
    ],
)
def test_where_process_0_listens_and_when_it_warns(
    address: str, token: str, printed: str | None, warned: bool
) -> None:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_COORD")}
    if printed is not None and "environment" in printed:
        environment["KILN_COORDINATOR_TOKEN"] = "environment"
    done = subprocess.run(
        [sys.executable, "-c", INITIALIZE, address, token],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ("without a token, anyone who reaches the port may take part" in done.stderr) == warned
    if printed is not None:
        assert done.stdout.strip() == printed


def test_garbage_closes_a_connection_and_delays_nobody() -> None:
    meeting = Meeting()
    garbage = meeting.stranger()
    said(garbage, b"{]\n")
    assert is_closed(garbage)
    meeting.succeeds()


def test_the_relay_is_on_the_loopback_interface() -> None:
    relay = Relay("127.0.0.1", 1)
    assert relay._listener.getsockname()[0] == "127.0.0.1"


def test_what_is_said_is_not_encrypted() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        line = lines.Line(socket.create_connection(server.getsockname()))
        other = server.accept()[0]
        line.send({"kind": "left", "runs": {"0,1": 3}})
        assert json.loads(other.makefile("r").readline()) == {"kind": "left", "runs": {"0,1": 3}}


def test_the_page_has_these_sections() -> None:
    found = re.findall(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert {"Exported programs", "Ports"} <= set(found)
