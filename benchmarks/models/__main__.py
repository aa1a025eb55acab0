"""Time whole models beside other libraries: `python -m benchmarks.models [TEXT ...] --help`.

A TEXT chooses the rows whose names contain it. Writes `results/models.json`, `.md` and `.svg` when
all rows were measured, else only where `--output` says.
"""

from benchmarks.models.collection import PEERS, ROWS
from benchmarks.suite.command import parser_of, run

if __name__ == "__main__":
    options = parser_of("models", __doc__, PEERS, ROWS)
    run("models", ROWS, PEERS, options, options.parse_args())
