"""What is wrong with the built site: dead links, other hosts, markup that was not rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}
"""Elements whose attribute is requested when a page opens."""
QUIET = {"pre", "code", "script", "style", "title", "dt"}
"""Elements that show code; terms of definitions are signatures."""
MARKUP = re.compile(r"```|\*\*\w[^*\n]*\w\*\*|\]\(|:\w+:`|`\w+`|^\.\. ", re.MULTILINE)


class Page(HTMLParser):
    """A page: its anchors, its links, what it loads from elsewhere, its prose."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.elsewhere: list[str] = []
        self.prose: list[str] = []
        self.depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links to and loads."""
        found = dict(attrs)
        self.depth += tag in QUIET
        for key in ("id", "name"):
            self.anchors.add(found.get(key) or "")
        address = found.get(LOADED.get(tag, "")) or ""
        if urlsplit(address).netloc and found.get("rel") != "canonical":
            self.elsewhere.append(address)
        self.links += [found["href"] or ""] if tag == "a" and "href" in found else []

    def handle_endtag(self, tag: str) -> None:
        """Note the end of code."""
        self.depth -= tag in QUIET

    def handle_data(self, data: str) -> None:
        """Note prose."""
        if not self.depth:
            self.prose.append(data)


def read(path: Path) -> Page:
    """Return a parsed page."""
    page = Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def problems(folder: Path) -> Iterator[str]:
    """Yield what is wrong with the site in a folder."""
    site = {path: read(path) for path in sorted(folder.rglob("*.html"))}
    for path, page in site.items():
        name = path.relative_to(folder)
        for address in page.elsewhere:
            yield f"{name} loads {address}"
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{name} links to {address}, which is not there"
            elif parts.fragment and unquote(parts.fragment) not in site[target].anchors:
                yield f"{name} links to {address}, which has no such anchor"
        for found in MARKUP.finditer("".join(page.prose)):
            yield f"{name} shows {found[0]!r}"
    for style in folder.rglob("*.css"):
        if re.search(r"url\(['\"]?(https?:)?//", style.read_text(encoding="utf-8")):
            yield f"{style.relative_to(folder)} loads from another host"
