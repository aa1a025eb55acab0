"""Which peers of a benchmark disagree with JAX, at tiny sizes."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.suite import measuring, row
from benchmarks.suite.peers import Peer


def disagreements(
    rows: Sequence[row.Row], others: Sequence[Peer], loaded: Sequence[Peer]
) -> list[str]:
    """Return what differs from JAX's results, which is one of the peers that are loaded."""
    (jax,) = [peer for peer in loaded if peer.name == "jax"]
    found = []
    for one in rows:
        work = one.work(tiny=True)
        with measuring.same_options(one, loaded):
            reference = jax.prepare(one, work)
            assert reference is not None
            expected = reference.run()
            for peer in others:
                call = peer.prepare(one, work)
                if call is None:
                    continue
                shapes_only = peer.name in one.by_shape
                text = measuring.difference(call.run(), expected, one.tolerance, shapes_only)
                if text:
                    found.append(f"{one.name}, {peer.name}: {text}")
    return found
