"""The command line: `kiln`, or `python -m kiln`.

`kiln --help` lists the commands, `kiln COMMAND --help` shows examples.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from kiln import __version__
from kiln.base.lazy import LazyModule
from kiln.tools import (
    bench,
    cache,
    compile,
    doctor,
    explain,
    explore,
    launch,
    options,
    profile,
    run,
)
from kiln.tools.command_line import Parser, WrongUse, fail

# It imports all engines, which `kiln doctor` must be able to miss.
coverage = LazyModule("kiln.tools.coverage")

_TOOLS = {
    "doctor": doctor,
    "run": run,
    "explain": explain,
    "profile": profile,
    "explore": explore,
    "bench": bench,
    "cache": cache,
    "compile": compile,
    "launch": launch,
}
_ABOUT = "Examine an installation, run programs, compile functions."
_EXAMPLES = """\
examples:
  kiln doctor                    what kiln finds on this machine, and what is missing
  kiln run --x64 train.py        a program, with options of kiln
  kiln explain train.py          what it compiles more than once, and why
  kiln profile train.py          where its time goes
  kiln COMMAND --help            examples of a command
"""


def main(argv: list[str] | None = None) -> None:
    """Run a tool."""
    words = sys.argv[1:] if argv is None else argv
    parser = Parser(prog="kiln", description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"kiln {__version__}")
    tools = parser.add_subparsers(dest="tool", required=True, metavar="COMMAND")
    for name, module in _TOOLS.items():
        added = tools.add_parser(name, help=module.HELP, epilog=module.EXAMPLES)
        module.arguments(added)
        added.set_defaults(command=module.command)
    _declare_pages(tools)
    try:
        given, unknown = parser.parse_known_args(words)
        if unknown:
            tools.choices[given.tool].unknown(unknown)
        status = given.command(given)
        sys.stdout.flush()
    except WrongUse as error:
        fail(words, error)
    except BrokenPipeError:
        # `kiln doctor | head -1`. Nothing is left to be flushed at the end of the process.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(1)
    if status is not None:
        sys.exit(status)


def _declare_pages(tools: Any) -> None:
    listing = tools.add_parser("coverage", help="primitive x rule x engine, as a markdown table")
    listing.add_argument("--markdown", action="store_true", help="with a heading, for docs/")
    listing.set_defaults(command=_coverage)
    page = tools.add_parser(
        "options", help="what each option of JAX does here, as a page for docs/"
    )
    page.set_defaults(command=_options)


def _coverage(given: argparse.Namespace) -> None:
    if given.markdown:
        print("# Primitives\n\nWritten by `make docs`; a cross marks a rule the primitive has.\n")
    print("\n".join(coverage.table()))


def _options(given: argparse.Namespace) -> None:
    print("\n".join([options.HEADING, *options.table()]))


if __name__ == "__main__":
    main()
