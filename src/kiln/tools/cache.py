"""The cache of compiled programs on disk: listed, counted, cleared, verified."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

from kiln.base.options.config import options
from kiln.base.process.memory import MB
from kiln.execution.disk_cache import Damaged, Entry, Folder, chosen_path, folder

HELP = "the compiled programs on disk"
EXAMPLES = """\
examples:
  kiln cache           how many there are
  kiln cache list      each, the most recently used first
  kiln cache verify    remove those that are damaged
  kiln cache clear     remove all
"""

_ACTIONS = ("list", "size", "clear", "verify")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what may be done."""
    parser.add_argument("action", choices=_ACTIONS, nargs="?", default="size")


def command(given: argparse.Namespace) -> int:
    """Do what is asked, and return the exit status."""
    lines, status = run(given.action)
    print("\n".join(lines))
    return status


def run(action: str) -> tuple[list[str], int]:
    """Do what is asked; return what to print, and the exit status: 1 if entries were damaged."""
    place = folder()
    if place is None:
        where = chosen_path()
        return [f"no cache in {where}" if where else "the cache is switched off"], 0
    match action:
        case "list":
            return [*_table(place), *_size(place)], 0
        case "size":
            return _size(place), 0
        case "clear":
            return [f"{place.path}: removed {_bytes(place.clear())}"], 0
    damaged = _damaged(place)
    for name, _ in damaged:
        place.remove(name)
    count = len(place.entries())
    lines = [f"removed {name}: {why}" for name, why in damaged]
    return [*lines, f"{place.path}: {count} entries are whole, {len(damaged)} were not"], bool(
        damaged
    )


def _table(place: Folder) -> Iterator[str]:
    now = time.time()
    for each in reversed(place.entries()):
        try:
            entry = place.check(each.name)
        except (Damaged, OSError) as why:
            yield f"{each.name[:12]}  {_bytes(each.size):>9}  {why}"
            continue
        yield f"{each.name[:12]}  {_bytes(each.size):>9}  {_about(entry, now - each.used)}"


def _about(entry: Entry, ago: float) -> str:
    return (
        f"{entry.engine:<6}  compiled in {1e3 * entry.seconds:7.1f} ms, "
        f"used {ago / 3600:.1f} h ago  {entry.program}"
    )


def _size(place: Folder) -> list[str]:
    listed = place.entries()
    total = sum(each.size for each in listed)
    limit = options().disk_cache_mb * MB
    return [f"{place.path}: {len(listed)} entries, {_bytes(total)} of {_bytes(limit)}"]


def _damaged(place: Folder) -> list[tuple[str, str]]:
    found = []
    for each in place.entries():
        try:
            place.check(each.name)
        except Damaged as why:
            found.append((each.name, str(why)))
        except OSError:
            # Another process removed it.
            continue
    return found


def _bytes(count: int) -> str:
    return f"{count / MB:.1f} MB" if count >= MB else f"{count / 1024:.1f} kB"
