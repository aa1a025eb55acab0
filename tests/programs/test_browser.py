"""The page of examples/browser in a browser without a screen: a digit is drawn, and air flows."""

from __future__ import annotations

import functools
import http.server
import importlib
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.programs.node_driver import needs_node
from tests.structure.source_tree import REPOSITORY

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
EXAMPLE = REPOSITORY / "examples" / "browser"
MOST_BYTES = 300_000

pytestmark = [needs_node, pytest.mark.full, pytest.mark.timeout(300)]

_VISITOR = """\
// Time is virtual: frames are not.
globalThis.requestAnimationFrame = (run) => setTimeout(run, 4);
await import("./page.mjs");
const pad = document.getElementById("pad");
const box = pad.getBoundingClientRect();
function send(type, target, x, y) {
  const at = { clientX: box.left + x, clientY: box.top + y, bubbles: true };
  target.dispatchEvent(new PointerEvent(type, at));
}
const found = [];
for (const points of [ZERO, ONE]) {
  document.getElementById("clear").click();
  send("pointerdown", pad, ...points[0]);
  for (const point of points) send("pointermove", window, ...point);
  send("pointerup", window, 0, 0);
  found.push(document.getElementById("bars").dataset.digit);
}
await new Promise((done) => setTimeout(done, 2000));
const tunnel = document.getElementById("tunnel");
const { data } = tunnel.getContext("2d").getImageData(0, 0, tunnel.width, tunnel.height);
const colored = data.filter((_, i) => i % 4 === 1 && data[i] < 200).length;
document.body.dataset.digits = found;
document.body.dataset.colored = colored;
"""
ZERO = [
    [128, 50], [90, 70], [75, 128], [90, 190], [128, 210], [170, 190], [182, 128], [170, 70],
    [128, 50],
]  # fmt: skip
ONE = [[100, 80], [130, 50], [130, 210]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The site in a folder, and its address."""
    folder = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLE)
        assert importlib.import_module("build").build(folder) < MOST_BYTES
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing of requests."""


def test_the_page_requests_nothing_from_elsewhere(site: tuple[Path, str]) -> None:
    folder, _ = site
    assert sorted(path.name for path in folder.iterdir()) == [
        "index.html", "page.mjs", "site.mjs", "site.wasm",
    ]  # fmt: skip
    for path in folder.glob("*.[hm]*"):
        assert not re.search(r"https?:|//\w+\.\w", path.read_text()), path


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_digits_are_read_and_air_flows(site: tuple[Path, str], tmp_path: Path) -> None:
    folder, address = site
    page = (folder / "index.html").read_text()
    (folder / "visit.html").write_text(page.replace('src="page.mjs"', 'src="visit.mjs"'))
    visitor = f"const ZERO = {ZERO}, ONE = {ONE};\n{_VISITOR}"
    (folder / "visit.mjs").write_text(visitor)
    said = _chromium(f"{address}/visit.html", "--dump-dom", tmp_path)
    assert 'data-digits="0,1"' in said
    (colored,) = map(int, re.findall(r'data-colored="(\d+)"', said))
    assert 300 < colored < 12_000


def _chromium(address: str, what: str, folder: Path) -> str:
    assert CHROMIUM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=6000"]
    command = [CHROMIUM, *options, f"--user-data-dir={folder / 'profile'}", what, address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
