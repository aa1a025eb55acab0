"""Time reported programs beside other libraries: `python -m benchmarks.reports [TEXT ...] --help`.

A TEXT chooses the rows whose names contain it. `--older PYTHON` adds the release of JAX that
another interpreter has. Writes `results/reports.json`, `.md` and `.svg` when all rows were
measured, else only where `--output` says.
"""

from benchmarks.reports.collection import ROWS
from benchmarks.reports.older import OlderJax
from benchmarks.suite.command import parser_of, run
from benchmarks.suite.peers import PEERS as SUITE_PEERS
from benchmarks.suite.peers import Numba, Peer

PEERS: dict[str, Peer] = {
    **{name: SUITE_PEERS[name] for name in ("kiln", "jax", "numpy", "torch")},
    "numba": Numba("benchmarks.reports.numba_loops"),
}
"""In the order of the columns."""


def main() -> None:
    """Measure the rows that the command line names, or all."""
    peers, chosen = dict(PEERS), ",".join(PEERS)
    parser = parser_of("reports", __doc__, peers, ROWS)
    parser.add_argument("--older", help="an interpreter with another release of JAX")
    arguments = parser.parse_args()
    if arguments.older:
        older = OlderJax(arguments.older)
        peers = {"kiln": peers["kiln"], "jax": peers["jax"], older.name: older, **peers}
        if arguments.peers == chosen:
            arguments.peers = ",".join(peers)
    run("reports", ROWS, peers, parser, arguments)


if __name__ == "__main__":
    main()
