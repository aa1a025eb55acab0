"""Build the site into build/site/html, and check it: `python -m website`."""

from __future__ import annotations

import sys

from sphinx.cmd.build import main as sphinx

from website.assemble import REPOSITORY, write
from website.check import problems


def main() -> int:
    """Write, build and check the site; return the exit status."""
    folder = REPOSITORY / "build" / "site"
    write(folder)
    options = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(REPOSITORY / "website")]
    failed = sphinx([*options, *sys.argv[1:], str(folder / "source"), str(folder / "html")])
    found = list(problems(folder / "html"))
    sys.stderr.writelines(f"{line}\n" for line in found)
    if not (failed or found):
        sys.stdout.write(f"{folder / 'html' / 'index.html'}\n")
    return bool(failed or found)


if __name__ == "__main__":
    sys.exit(main())
