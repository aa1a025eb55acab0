"""The command line: `python -m kiln coverage`, `options`, `cache`, `compile` and `launch`."""

from __future__ import annotations

import argparse
import sys

from kiln import __version__
from kiln.tools import cache, compile, coverage, launch, options


def main(argv: list[str] | None = None) -> None:
    """Run a tool."""
    parser = argparse.ArgumentParser(prog="kiln", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--version", action="version", version=f"kiln {__version__}")
    tools = parser.add_subparsers(dest="tool", required=True)
    listing = tools.add_parser("coverage", help="primitive x rule x engine, as a markdown table")
    listing.add_argument("--markdown", action="store_true", help="with a heading, for docs/")
    tools.add_parser("options", help="what each option of JAX does here, as a page for docs/")
    programs = tools.add_parser("cache", help="the compiled programs on disk")
    programs.add_argument("action", choices=cache.ACTIONS, nargs="?", default="size")
    leaving = tools.add_parser("compile", help="a function as a library for C, without Python")
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
    several = tools.add_parser("launch", help="a program in several processes on this machine")
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
    given = parser.parse_args(argv)
    if given.tool == "cache":
        lines, status = cache.run(given.action)
        print("\n".join(lines))
        sys.exit(status)
    if given.tool == "compile":
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
            sys.exit(1)
        print("\n".join(lines))
        return
    if given.tool == "launch":
        if given.processes < 1:
            parser.error(f"-n {given.processes}: a program runs in at least one process")
        command = [*["-m"] * given.module, given.program, *given.arguments]
        sys.exit(launch.run(command, given.processes, given.devices, given.grace))
    if given.tool == "options":
        print("\n".join([options.HEADING, *options.table()]))
        return
    if given.markdown:
        print("# Primitives\n\nWritten by `make docs`; a cross marks a rule the primitive has.\n")
    print("\n".join(coverage.table()))


if __name__ == "__main__":
    main()
