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
from kiln.tools import bench, cache, compile, doctor, explain, launch, options, run
from kiln.tools.command_line import Parser, WrongUse, fail

# It imports all engines, which `kiln doctor` must be able to miss.
coverage = LazyModule("kiln.tools.coverage")

_ABOUT = "Examine an installation, run programs, compile functions."
_EXAMPLES = """\
examples:
  kiln doctor                    what kiln finds on this machine, and what is missing
  kiln run --x64 train.py        a program, with options of kiln
  kiln explain train.py          what it compiles more than once, and why
  kiln COMMAND --help            examples of a command
"""


def main(argv: list[str] | None = None) -> None:
    """Run a tool."""
    words = sys.argv[1:] if argv is None else argv
    parser = Parser(prog="kiln", description=_ABOUT, epilog=_EXAMPLES)
    parser.add_argument("--version", action="version", version=f"kiln {__version__}")
    tools = parser.add_subparsers(dest="tool", required=True, metavar="COMMAND")
    for name, module in (("doctor", doctor), ("run", run), ("explain", explain), ("bench", bench)):
        added = tools.add_parser(name, help=module.HELP, epilog=module.EXAMPLES)
        module.arguments(added)
        added.set_defaults(command=module.command)
    _declare_cache(tools)
    _declare_compile(tools)
    _declare_launch(tools)
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


def _declare_cache(tools: Any) -> None:
    programs = tools.add_parser(
        "cache",
        help="the compiled programs on disk",
        epilog="examples:\n  kiln cache           how many there are\n"
        "  kiln cache list      each, the most recently used first\n"
        "  kiln cache verify    remove those that are damaged\n"
        "  kiln cache clear     remove all",
    )
    programs.add_argument("action", choices=cache.ACTIONS, nargs="?", default="size")
    programs.set_defaults(command=_cache)


def _cache(given: argparse.Namespace) -> int:
    lines, status = cache.run(given.action)
    print("\n".join(lines))
    return status


def _declare_compile(tools: Any) -> None:
    leaving = tools.add_parser(
        "compile",
        help="a function as a library for C, without Python",
        epilog="examples:\n  kiln compile model:predict --arg f32[n,3] -o out\n"
        "  kiln compile model:predict --args model:EXAMPLES -o out --static",
    )
    leaving.add_argument("function", help="its module and name, such as model:predict")
    leaving.add_argument("--arg", action="append", default=[], help="a type, such as f32[n,3]")
    leaving.add_argument("--args", dest="examples", help="MODULE:NAME of a tuple of arguments")
    leaving.add_argument("-o", "--output", required=True, help="the folder to write")
    leaving.add_argument("--name", help="begins the names of files and symbols")
    leaving.add_argument(
        "--target",
        help="a microarchitecture level, by default this machine's; wasm32 is WebAssembly",
    )
    leaving.add_argument("--blas", action="store_true", help="programs link an OpenBLAS too")
    leaving.add_argument("--threads", action="store_true", help="contexts may have threads")
    leaving.add_argument("--mapped", action="store_true", help="constants are in a file")
    leaving.add_argument("--static", action="store_true", help="no shared library")
    leaving.set_defaults(command=_compile)


def _compile(given: argparse.Namespace) -> int | None:
    try:
        lines = compile.run(
            given.function,
            given.arg,
            examples=given.examples,
            name=given.name,
            path=given.output,
            target=given.target,
            blas=given.blas,
            threads=given.threads,
            mapped=given.mapped,
            shared=not given.static,
        )
    except (ValueError, NotImplementedError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    print("\n".join(lines))
    return None


def _declare_launch(tools: Any) -> None:
    several = tools.add_parser(
        "launch",
        help="a program in several processes on this machine",
        epilog="examples:\n  kiln launch -n 2 train.py\n"
        "  kiln launch -n 4 --devices 2 -m package.train --epochs 3",
    )
    several.add_argument("-n", "--processes", type=int, required=True, help="how many")
    several.add_argument("--devices", type=int, help="devices of each, the processor divided")
    several.add_argument(
        "--grace",
        type=float,
        default=launch.GRACE_S,
        help="seconds that processes have to end by themselves when one has failed",
    )
    several.add_argument("-m", dest="module", action="store_true", help="run a module by its name")
    several.add_argument("program", help="a Python file, or a module's name after -m")
    several.add_argument("arguments", nargs=argparse.REMAINDER, help="for the program")
    several.set_defaults(command=_launch)


def _launch(given: argparse.Namespace) -> int:
    if given.processes < 1:
        raise WrongUse(
            f"-n {given.processes}: a program runs in at least one process", "write -n 2"
        )
    command = [*["-m"] * given.module, given.program, *given.arguments]
    return launch.run(command, given.processes, given.devices, given.grace)


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
