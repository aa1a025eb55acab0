"""All checks of arrays, then training; process 0 writes the losses to a file, as JSON.

`python -m kiln launch -n 2 --devices 2 -m tests.processes.arrays_and_training FILE`
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import kiln
from tests.processes.arrays import CHECKS
from tests.processes.training import PLACES, losses


def main(file: str) -> None:
    kiln.distributed.initialize()
    for check in CHECKS:
        check()
        print(check.__name__, flush=True)
    found = {kind: losses(kind, kiln.devices()) for kind in PLACES}
    if kiln.process_index() == 0:
        Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
