"""KILN_DUMP: write any stage of a program as text, to stderr or into KILN_DUMP_DIR.

`KILN_DUMP=jaxpr,stablehlo` names the stages, `KILN_DUMP_ONLY=train_step` one function.
"""

from __future__ import annotations

import itertools
import os
import re
import sys
from collections.abc import Callable

from kiln.base.files.writing import folder_for, write_text
from kiln.base.lazy import logging
from kiln.base.options.config import options

_counter = itertools.count()


def log(message: str, *values: object) -> None:
    """Write one line to the log named kiln."""
    logging.getLogger("kiln").warning(message, *values)


def stages() -> list[str]:
    """Return the stages that KILN_DUMP names."""
    return [stage.strip() for stage in options().dump.split(",") if stage.strip()]


def dump(name: str, stage: str, text: Callable[[], str]) -> None:
    """Write one stage of the program `name` if it is requested."""
    opts = options()
    if stage not in stages() or (opts.dump_only and opts.dump_only != name):
        return
    if not opts.dump_dir:
        sys.stderr.write(f"--- {name}: {stage}\n{text()}\n")
        return
    safe = re.sub(r"\W+", "_", name)
    path = os.path.join(opts.dump_dir, f"{next(_counter):04d}_{safe}.{stage}.txt")
    with folder_for(opts.dump_dir):
        write_text(path, text() + "\n")
