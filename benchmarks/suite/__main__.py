"""Time kiln beside its peers: `python -m benchmarks.suite [TEXT ...] --help`.

A TEXT chooses the rows whose names contain it. Writes `results/suite.json`, `.md` and `.svg` when
all rows were measured, else only where `--output` says.
"""

from benchmarks.suite.collection import ROWS
from benchmarks.suite.command import parser_of, run
from benchmarks.suite.peers import PEERS

if __name__ == "__main__":
    options = parser_of("suite", __doc__, PEERS, ROWS)
    run("suite", ROWS, PEERS, options, options.parse_args())
