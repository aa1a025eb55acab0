"""The built site in a browser: ten pages at two widths, in light and dark, and twenty searches.

`make check-site` builds the site and runs these; they need Chromium and the extra `browser`.
"""

from __future__ import annotations

import functools
import http.server
import importlib.util
import shutil
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.structure.source_tree import REPOSITORY

SITE = REPOSITORY / "build" / "site" / "html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
PAGES = (
    "index.html",
    "start/start_here.html",
    "start/from_numpy.html",
    "howto/training.html",
    "notebooks/tour.html",
    "notebooks/debugging.html",
    "notebooks/images.html",
    "reference/index.html",
    "reference/kiln.html",
    "performance.html",
)
WIDTHS = {"telephone": 390, "desktop": 1280}
SEARCHES = (
    *("jit", "grad", "value_and_grad", "vmap", "scan", "fori_loop", "while_loop", "cond"),
    *("einsum", "concatenate", "linspace", "cholesky", "softmax", "fold_in", "categorical"),
    *("ShapeDtypeStruct", "NamedSharding", "shard_map", "custom_vjp", "make_jaxpr"),
)
"""Names of functions and classes: the page that defines one is among the first results."""
FIRST = 5
CONTRAST = """() => {
  function channels(color) {
    const found = color.match(/[\\d.]+/g).map(Number);
    return [...found.slice(0, 3).map(x => x / 255), found[3] ?? 1];
  }
  function luminance(color) {
    const linear = x => x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = channels(color).map(linear);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
  function paper(node) {
    for (; node; node = node.parentElement) {
      const color = getComputedStyle(node).backgroundColor;
      if (channels(color)[3] > 0.5) return color;
    }
    return "rgb(255, 255, 255)";
  }
  const weak = [];
  const texts = ["p", "li", "td", "span", "code"].map(x => `article ${x}`).join(", ");
  for (const node of document.querySelectorAll(texts)) {
    const own = [...node.childNodes].some(x => x.nodeType === 3 && x.textContent.trim());
    if (!own || !node.checkVisibility() || node.closest("svg")) continue;
    const [a, b] = [luminance(getComputedStyle(node).color), luminance(paper(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 3) weak.push(`${ratio.toFixed(2)} ${node.textContent.slice(0, 40)}`);
  }
  return weak;
}"""
"""What is written in colors that are hard to tell from what is behind them."""

pytestmark = [
    pytest.mark.full,
    pytest.mark.site,
    pytest.mark.timeout(120),
    pytest.mark.skipif(not SITE.exists(), reason="the site is not built: make site"),
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium"),
    pytest.mark.skipif(
        importlib.util.find_spec("playwright") is None, reason="playwright is not installed"
    ),
]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of the site."""
    handler = functools.partial(Quiet, directory=str(SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a screen."""
    sync_api = pytest.importorskip("playwright.sync_api")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, address: str) -> Iterator[Any]:
    """A function that opens a page of the site, and fails on what the page complains about."""
    complaints: list[str] = []
    contexts: list[Any] = []

    def opened(name: str, width: int, scheme: str = "light") -> Any:
        viewport = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=viewport, color_scheme=scheme))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: complaints.append(f"{name}: {error}"))
        page.on(
            "console",
            lambda said: (
                complaints.append(f"{name}: {said.text}") if said.type == "error" else None
            ),
        )
        page.on("requestfailed", lambda request: complaints.append(f"{name}: {request.url}"))
        page.on(
            "request",
            lambda request: (
                None
                if request.url.startswith((address, "data:", "about:", "blob:"))
                else complaints.append(f"{name} asks for {request.url}")
            ),
        )
        page.goto(f"{address}/{name}")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_as_wide_as_the_window(open_page, name, width):
    page = open_page(name, width)
    assert page.locator("article h1").first.is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    too_wide = page.evaluate(
        """() => [...document.querySelectorAll("article img")]
             .filter(x => x.getBoundingClientRect().right > innerWidth + 1).map(x => x.src)"""
    )
    assert not too_wide


@pytest.mark.parametrize("name", PAGES)
def test_pictures_load_and_are_described(open_page, name):
    page = open_page(name, WIDTHS["desktop"])
    pictures = page.evaluate(
        """async () => {
             const found = [...document.querySelectorAll("article img")];
             await Promise.all(found.map(x => { x.loading = "eager"; return x.decode(); }));
             return found.map(x => [x.src, x.alt, x.naturalWidth]);
           }"""
    )
    assert all(alt and width > 0 for _, alt, width in pictures), pictures
    if name.startswith("notebooks/"):
        assert pictures


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_texts_are_readable(open_page, name, scheme):
    page = open_page(name, WIDTHS["desktop"], scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    is_dark = sum(map(int, background[4:-1].split(","))) < 3 * 128
    assert is_dark == (scheme == "dark")
    assert page.evaluate(CONTRAST) == []


def test_what_is_hard_to_read_is_found(open_page):
    page = open_page("index.html", WIDTHS["desktop"])
    page.evaluate("document.querySelector('article p').style.color = '#ddd'")
    assert len(page.evaluate(CONTRAST)) >= 1


@pytest.mark.parametrize("query", SEARCHES)
def test_a_search_finds_a_name(open_page, query):
    page = open_page(f"search.html?q={query}", WIDTHS["desktop"])
    page.wait_for_function("document.querySelectorAll('#search-results li').length > 0")
    page.wait_for_function(
        "!document.querySelector('#search-progress')?.textContent.includes('...')"
    )
    results = page.locator("#search-results li > a")
    found = [results.nth(i).get_attribute("href") for i in range(min(FIRST, results.count()))]
    anchors = [address.partition("#")[2] for address in found]
    assert any(anchor.split(".")[-1] == query for anchor in anchors), found
    target = open_page(next(a for a in found if a.split(".")[-1] == query), WIDTHS["desktop"])
    assert (
        query in target.locator("article h1").first.text_content()
        or target.locator(f"dt[id$='.{query}']").first.is_visible()
    )


def test_the_theme_can_be_changed(open_page):
    page = open_page("index.html", WIDTHS["desktop"])
    for _ in range(3):
        page.locator(".theme-toggle:visible").first.click()
        if page.evaluate("document.body.dataset.theme") == "dark":
            break
    assert page.evaluate("document.body.dataset.theme") == "dark"


def test_the_navigation_opens_on_a_telephone(open_page):
    page = open_page("notebooks/tour.html", WIDTHS["telephone"])
    page.locator("label.nav-overlay-icon").click()
    page.get_by_role("link", name="Simulation", exact=True).first.click()
    page.wait_for_url("**/notebooks/simulation.html")


def test_programs_in_notebooks_unfold(open_page):
    page = open_page("notebooks/tour.html", WIDTHS["desktop"])
    summary = page.locator("summary", has_text="picture")
    summary.click()
    frame = page.frame_locator("iframe").first
    assert frame.locator("svg").is_visible()
    assert page.locator("span[title*='jnp.exp']").count() >= 1
