"""How two processes prove to each other that they know the same token, which is never sent.

Process 0 sends a fresh nonce (`challenge`). The other process answers with its rank, a nonce of its
own and the keyed hash of all that (`hello`); process 0 returns another keyed hash of the same
(`welcome`). A replayed message proves nothing on another connection.
"""

from __future__ import annotations

import hmac
import json
import secrets
import time

from kiln.core.processes.lines import Line, Message

LONGEST_S = 5.0
"""How long an incoming connection may take to authenticate."""


class RefusedError(Exception):
    """Process 0 rejects this process."""


def word() -> str:
    """Return a fresh nonce."""
    return secrets.token_hex(16)


def proof(token: str, kind: str, asked: str, answered: str, rank: int, count: int) -> str:
    """Return the keyed hash of a message, which takes the token to compute."""
    said = json.dumps([kind, asked, answered, rank, count]).encode()
    # Environment variables may hold arbitrary bytes, decoded with surrogates.
    return hmac.new(token.encode(errors="surrogatepass"), said, "sha256").hexdigest()


def _is(found: object, expected: str) -> bool:
    return isinstance(found, str) and hmac.compare_digest(
        found.encode(errors="replace"), expected.encode()
    )


def introduce(line: Line, token: str, rank: int, count: int, end: float) -> None:
    """On another process, authenticate to process 0, and check that it is process 0.

    Raises: RefusedError with its reason; OSError if it is not process 0, or does not answer until
        `end` on the monotonic clock.
    """
    end = min(end, time.monotonic() + LONGEST_S)
    asked = line.next(end).get("word")
    if not isinstance(asked, str):
        raise ConnectionError("it asks for no proof")
    own = word()
    answer = proof(token, "hello", asked, own, rank, count)
    line.send({"kind": "hello", "rank": rank, "count": count, "word": own, "proof": answer})
    reply = line.next(end)
    if reply.get("kind") == "refused":
        raise RefusedError(str(reply.get("text")))
    if not _is(reply.get("proof"), proof(token, "welcome", asked, own, rank, count)):
        raise ConnectionError("it does not know the token")


def welcome(hello: Message, token: str, asked: str) -> Message | None:
    """On process 0, return the answer to a `hello`; None unless it proves that it has the token."""
    rank, count, own = hello.get("rank"), hello.get("count"), hello.get("word")
    if type(rank) is not int or type(count) is not int or not isinstance(own, str):
        return None
    if not _is(hello.get("proof"), proof(token, "hello", asked, own, rank, count)):
        return None
    return {"kind": "welcome", "proof": proof(token, "welcome", asked, own, rank, count)}
