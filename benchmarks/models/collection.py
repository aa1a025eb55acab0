"""All rows of models, and the libraries that run them."""

from __future__ import annotations

from benchmarks.models import language, structured, vision
from benchmarks.models.runtimes import OnnxRuntime, OpenVino
from benchmarks.suite.peers import PEERS as SUITE_PEERS
from benchmarks.suite.peers import Peer
from benchmarks.suite.row import MODELS, Row

ROWS: list[Row] = sorted(
    (*vision.ROWS, *language.ROWS, *structured.ROWS), key=lambda row: MODELS.index(row.kind)
)
PEERS: dict[str, Peer] = {
    **{name: SUITE_PEERS[name] for name in ("kiln", "jax", "torch", "torch.compile")},
    **{peer.name: peer for peer in (OnnxRuntime(), OpenVino())},
}
"""In the order of the columns."""
