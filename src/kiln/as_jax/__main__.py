"""Run a program or a module in which `jax` is kiln.

python -m kiln.as_jax [--linen] [--report] program.py args ...
python -m kiln.as_jax [--linen] [--report] -m pytest args ...
python -m kiln.as_jax [--linen] [--report] -c "text"

python -m kiln.as_jax doctor [--linen] [--strict] program.py args ... (or -m, or -c)

The doctor reports at the end what the program needs that kiln lacks. The exit status is 0 if
nothing is missing, 1 if something is, 3 if nothing is but the program failed on its own; --strict
also counts names that are imported but never used.
"""

from __future__ import annotations

import functools
import sys

from kiln.as_jax.doctor import examine, start
from kiln.as_jax.finder import install
from kiln.as_jax.report import report, start_report
from kiln.base.main_program import run_file, run_module, status_of

_PYTEST_PLUGIN = "kiln.as_jax.pytest_plugin"


def main(arguments: list[str]) -> None:
    """Run the program on the command line, as Python itself would.

    Raises: SystemExit with the program's exit status, or with the usage if the command line names
        no program.
    """
    rest = list(arguments)
    options = set()
    known = ["--linen", "--report"]
    if rest and rest[0] == "doctor":
        options.add(rest.pop(0))
        known = ["--linen", "--strict"]
    while rest and rest[0] in known:
        options.add(rest.pop(0))
    if not rest or rest[0] in ("-h", "--help") or (rest[0] in ("-m", "-c") and len(rest) < 2):
        raise SystemExit((__doc__ or "").strip())
    if "--report" in options:
        start_report()
    if "doctor" in options:
        start()
    install(linen="--linen" in options)
    if "doctor" in options:
        run = functools.partial(run_program, rest, options)
        raise SystemExit(examine(" ".join(rest[:2]), run, strict="--strict" in options))
    status = status_of(functools.partial(run_program, rest, options))
    if "--report" in options:
        sys.stdout.flush()
        sys.stderr.write(report() + "\n")
    raise SystemExit(status)


def run_program(rest: list[str], options: set[str]) -> None:
    """Run a program in this process; `rest` names it, and `options` may have "--linen".

    Raises: whatever the program raises.
    """
    if rest[0] == "-m":
        module, *arguments = rest[1:]
        if module == "pytest":
            # The worker processes of pytest-xdist are new interpreters, which load plugins by name.
            arguments = ["-p", _PYTEST_PLUGIN, *arguments]
            if "--linen" in options:
                arguments.append("--kiln-linen")
        run_module(module, arguments)
    elif rest[0] == "-c":
        sys.argv = ["-c", *rest[2:]]
        sys.path.insert(0, "")
        exec(compile(rest[1], "<string>", "exec"), {"__name__": "__main__"})
    else:
        run_file(rest[0], rest[1:])


if __name__ == "__main__":
    # `python -m` puts the current directory first; a script expects its own directory there.
    sys.path.pop(0)
    main(sys.argv[1:])
