"""How processes prove to each other that they know the same token."""

from __future__ import annotations

import os
import socket
import threading
import time
from typing import Any

import pytest

from kiln.core.processes.handshake import RefusedError, authenticate, nonce, proof, welcome
from kiln.core.processes.lines import Line

HELLO = {"kind": "hello", "rank": 1, "count": 2, "nonce": "mine"}


def hello(token: str, asked: str, **changed: Any) -> dict[str, Any]:
    made = {**HELLO, "proof": proof(token, "hello", asked, "mine", 1, 2)}
    return {**made, **changed}


def test_nonces_never_repeat() -> None:
    assert len({nonce() for _ in range(1000)}) == 1000


def test_who_knows_the_token_is_welcome() -> None:
    answer = welcome(hello("t", "asked"), "t", "asked")
    assert answer is not None
    assert answer["proof"] == proof("t", "welcome", "asked", "mine", 1, 2)


@pytest.mark.parametrize("token", [os.fsdecode(b"\xff\x00\xfe"), "\ud800", "é", "x" * 10_000])
def test_tokens_may_be_any_text(token: str) -> None:
    # `head -c 32 /dev/urandom` gives bytes that are not text.
    assert welcome(hello(token, "asked"), token, "asked") is not None
    assert welcome(hello(token + "x", "asked"), token, "asked") is None


@pytest.mark.parametrize(
    "said",
    [
        hello("another", "asked"),
        hello("", "asked"),
        hello("t", "asked before"),
        hello("t", "asked", rank=0),
        hello("t", "asked", count=3),
        hello("t", "asked", nonce="another"),
        hello("t", "asked", proof=proof("t", "welcome", "asked", "mine", 1, 2)),
        hello("t", "asked", proof=""),
        hello("t", "asked", proof="é"),
        hello("t", "asked", proof="\ud800"),
        hello("t", "asked", proof=7),
        hello("t", "asked", rank=True),
        hello("t", "asked", rank="1"),
        hello("t", "asked", nonce=3),
        HELLO,
        {},
    ],
)
def test_nobody_else_is_welcome(said: dict[str, Any]) -> None:
    assert welcome(said, "t", "asked") is None


def ends() -> tuple[Line, Line]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        return Line(ours), Line(server.accept()[0])


def met(answer: Any) -> BaseException | None:
    """Introduce process 1 to one that answers; return the error."""
    ours, theirs = ends()
    found: list[BaseException | None] = []

    def run() -> None:
        try:
            authenticate(ours, "t", 1, 2, time.monotonic() + 10)
            found.append(None)
        except (OSError, RefusedError) as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    theirs.send({"kind": "challenge", "nonce": "asked"})
    said = theirs.next(time.monotonic() + 10)
    assert "t" not in {each for each in said.values() if isinstance(each, str)}
    answer(theirs, said)
    thread.join()
    return found[0]


def test_process_0_proves_itself_too() -> None:
    assert met(lambda line, said: line.send(welcome(said, "t", "asked"))) is None
    wrong = met(lambda line, said: line.send({"kind": "welcome", "proof": said["proof"]}))
    assert isinstance(wrong, ConnectionError)
    assert "does not know the token" in str(wrong)
    refused = met(lambda line, said: line.send({"kind": "refused", "text": "no"}))
    assert isinstance(refused, RefusedError)
    assert str(refused) == "no"


def test_one_that_asks_for_no_proof() -> None:
    ours, theirs = ends()
    theirs.send({"kind": "welcome", "proof": "x"})
    with pytest.raises(ConnectionError, match="does not ask for a proof"):
        authenticate(ours, "t", 1, 2, time.monotonic() + 10)
    with pytest.raises(TimeoutError):
        authenticate(ours, "t", 1, 2, time.monotonic() + 0.05)
