"""A program with kiln's options as flags: `kiln run`."""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any, NoReturn

from kiln.core.engines.engine import ENGINES
from kiln.tools.command_line import WrongUse

HELP = "a Python program, with options of kiln as flags"
EXAMPLES = """\
examples:
  kiln run train.py --epochs 3             as `python train.py --epochs 3`
  kiln run --x64 --threads 1 train.py      64-bit types, one thread
  kiln run --as-jax -m pytest tests        in these tests `import jax` is kiln
  kiln run --debug-nans train.py           stop where the first nan is computed

Flags of kiln are written before the program; what follows it is the program's.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options, the program and its arguments."""
    parser.add_argument("--as-jax", action="store_true", help="`import jax` imports kiln")
    parser.add_argument("--linen", action="store_true", help="with --as-jax: flax.linen, too")
    parser.add_argument("--engine", choices=sorted(ENGINES), help="the engine of all programs")
    parser.add_argument("--x64", action="store_true", help="64-bit types")
    parser.add_argument("--threads", type=positive, metavar="N", help="of compiled programs")
    parser.add_argument("--debug-nans", action="store_true", help="find the first nan")
    parser.add_argument("--no-cache", action="store_true", help="leave the cache on disk alone")
    parser.add_argument("-m", dest="module", action="store_true", help="run a module by its name")
    parser.add_argument("program", help="a Python file, or a module's name after -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")


def positive(text: str) -> int:
    """Return a number of threads.

    Raises: ValueError or ArgumentTypeError for text that is not one.
    """
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number}: a program runs on at least one thread")
    return number


def changed_options(given: argparse.Namespace) -> dict[str, Any]:
    """Return the options of kiln that the flags set."""
    wanted = {
        "engine": given.engine,
        "enable_x64": given.x64 or None,
        "num_threads": given.threads,
        "debug_nans": given.debug_nans or None,
        "disk_cache": False if given.no_cache else None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def environment(given: argparse.Namespace) -> dict[str, str]:
    """Return the environment variables that set the same options."""
    return {
        f"KILN_{name.upper()}": str(int(value) if isinstance(value, bool) else value)
        for name, value in changed_options(given).items()
    }


def check(given: argparse.Namespace) -> None:
    """Check flags that depend on each other. Raises: WrongUse for --linen alone."""
    if given.linen and not given.as_jax:
        raise WrongUse("--linen is a part of --as-jax", f"write kiln {given.tool} --as-jax --linen")


def command(given: argparse.Namespace) -> NoReturn:
    """Replace this process by the program's.

    A new interpreter runs it, so that everything is as under `python PROGRAM`: `__main__`, signals,
    the exit status, variables that it sets before it imports kiln. The flags become environment
    variables, which processes that it starts inherit.
    """
    check(given)
    door = []
    if given.as_jax:
        door = ["-m", "kiln.as_jax", *["--linen"] * given.linen]
    words = [*["-m"] * given.module, given.program, *given.arguments]
    os.environ.update(environment(given))
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *interpreter_flags(), *door, *words])


def interpreter_flags() -> list[str]:
    """Return the flags that Python itself was started with, such as `-O` or `-X dev`."""
    before = sys.orig_argv[1 : len(sys.orig_argv) - len(sys.argv) + 1]
    # Either the script `kiln` or `-m kiln` comes last.
    return before[:-2] if before[-2:-1] == ["-m"] else before[:-1]
