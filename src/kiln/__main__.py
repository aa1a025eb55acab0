"""The command line: `python -m kiln coverage` and `python -m kiln cache`."""

from __future__ import annotations

import argparse
import sys

from kiln.tools import cache, coverage


def main(argv: list[str] | None = None) -> None:
    """Run a tool."""
    parser = argparse.ArgumentParser(prog="kiln", description=(__doc__ or "").split("\n")[0])
    tools = parser.add_subparsers(dest="tool", required=True)
    listing = tools.add_parser("coverage", help="primitive x rule x engine, as a markdown table")
    listing.add_argument("--markdown", action="store_true", help="with a heading, for docs/")
    programs = tools.add_parser("cache", help="the compiled programs on disk")
    programs.add_argument("action", choices=cache.ACTIONS, nargs="?", default="size")
    options = parser.parse_args(argv)
    if options.tool == "cache":
        lines, status = cache.run(options.action)
        print("\n".join(lines))
        sys.exit(status)
    if options.markdown:
        print("# Primitives\n\nWritten by `make docs`; a cross marks a rule the primitive has.\n")
    print("\n".join(coverage.table()))


if __name__ == "__main__":
    main()
