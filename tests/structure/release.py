"""Whether version, changelog and tag agree: `python -m tests.structure.release v0.2.0`."""

from __future__ import annotations

import re
import sys
import tomllib

from tests.structure.source_tree import REPOSITORY

UNRELEASED = "Unreleased"


def disagreements(project: str, package: str, changelog: str, tag: str | None) -> list[str]:
    """Return what does not agree; without a tag, a version may have no section yet.

    `project` is the text of pyproject.toml, `package` that of `__init__.py`.
    """
    version = tomllib.loads(project)["project"]["version"]
    found = []
    own = re.search(r'^__version__ = "(.+)"$', package, re.MULTILINE)
    if own is None or own[1] != version:
        found.append(f"pyproject.toml says {version}, __init__.py {own and own[1]}")
    sections = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    if sections[:1] != [UNRELEASED]:
        found.append(f"the changelog does not begin with a section {UNRELEASED}")
    released = [re.fullmatch(r"(\d+\.\d+\.\d+), \d{4}-\d\d-\d\d", name) for name in sections[1:]]
    found += [
        f"the section {name!r} is not a version and a date, as in '0.2.0, 2027-01-31'"
        for name, match in zip(sections[1:], released, strict=True)
        if match is None
    ]
    numbers = [match[1] for match in released if match is not None]
    if numbers != sorted(numbers, key=_order, reverse=True):
        found.append("the sections are not in the order of versions, newest first")
    if numbers and _order(numbers[0]) > _order(version):
        found.append(f"the changelog has {numbers[0]}, which is newer than the version {version}")
    if tag is not None and tag != f"v{version}":
        found.append(f"the tag is {tag}, the version {version}")
    if tag is not None and numbers[:1] != [version]:
        found.append(f"the newest section of the changelog is not that of {version}")
    return found


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def here(tag: str | None) -> list[str]:
    """Return what does not agree in this tree."""
    names = ("pyproject.toml", "src/kiln/__init__.py", "CHANGELOG.md")
    project, package, changelog = [(REPOSITORY / name).read_text() for name in names]
    return disagreements(project, package, changelog, tag)


if __name__ == "__main__":
    sys.exit("\n".join(here(sys.argv[1] if len(sys.argv) > 1 else None)) or None)
