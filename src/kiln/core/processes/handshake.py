"""How two processes prove to each other that they know the same token, which is never sent.

Process 0 sends a fresh nonce (`challenge`). The other process answers with its rank, a nonce of its
own and a keyed hash of all of these (`hello`); process 0 returns another keyed hash of the same
(`welcome`). A message that is replayed on another connection proves nothing.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time

from kiln.core.processes.lines import Line, Message

LONGEST_S = 5.0
"""Timeout of the authentication of an incoming connection."""


class RefusedError(Exception):
    """Process 0 rejects this process."""


def nonce() -> str:
    """Return a fresh nonce."""
    return secrets.token_hex(16)


def proof(
    token: str, kind: str, nonce_of_0: str, nonce_of_other: str, rank: int, count: int
) -> str:
    """Return the keyed hash of a message, which only those who have the token can compute."""
    message = json.dumps([kind, nonce_of_0, nonce_of_other, rank, count]).encode()
    # Environment variables may hold arbitrary bytes, decoded with surrogates.
    return hmac.new(token.encode(errors="surrogatepass"), message, "sha256").hexdigest()


def _is_equal(found: object, expected: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(
        found.encode(errors="replace"), expected.encode()
    )


def authenticate(line: Line, token: str, rank: int, count: int, end: float) -> None:
    """On a process other than 0, authenticate to process 0, and authenticate process 0.

    Raises: RefusedError with its reason; OSError if the other side is not process 0,
        or does not answer before `end` on the monotonic clock.
    """
    end = min(end, time.monotonic() + LONGEST_S)
    theirs = line.next(end).get("nonce")
    if not isinstance(theirs, str):
        raise ConnectionError("it does not ask for a proof")
    ours = nonce()
    answer = proof(token, "hello", theirs, ours, rank, count)
    line.send({"kind": "hello", "rank": rank, "count": count, "nonce": ours, "proof": answer})
    reply = line.next(end)
    if reply.get("kind") == "refused":
        raise RefusedError(str(reply.get("text")))
    if not _is_equal(reply.get("proof"), proof(token, "welcome", theirs, ours, rank, count)):
        raise ConnectionError("it does not know the token")


def welcome(hello: Message, token: str, ours: str) -> Message | None:
    """On process 0, return the answer to a `hello`; None unless it proves possession of the token.

    `ours` is the nonce that was sent in the challenge.
    """
    rank, count, theirs = hello.get("rank"), hello.get("count"), hello.get("nonce")
    if type(rank) is not int or type(count) is not int or not isinstance(theirs, str):
        return None
    if not _is_equal(hello.get("proof"), proof(token, "hello", ours, theirs, rank, count)):
        return None
    return {"kind": "welcome", "proof": proof(token, "welcome", ours, theirs, rank, count)}
