"""`kiln explore`: the page, opened in a browser without a screen."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kiln.tools import explore

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
NEEDS_BROWSER = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

ELEMENTS = """\
import kiln
import kiln.numpy as jnp


@kiln.jit
def shade(x, y):
    wave = jnp.sin(x) * 2  # "</script>" <b>
    return wave.sum(axis=0), x @ y


for n in (64, 64, 96):
    shade(jnp.ones((n, n)), jnp.ones((n, n)))
"""
LOOP = """\
import kiln
import kiln.numpy as jnp
from kiln import lax


def turn(c, x):
    c = jnp.tanh(c @ x[::-1])
    return c, c.sum()


f = kiln.jit(lambda c, xs: lax.scan(turn, c, xs))
f(jnp.ones((32, 32)), jnp.ones((9, 32, 32)))
"""
TRAINING = """\
import kiln
import kiln.numpy as jnp
from kiln import linen as nn

net = nn.Dense(16)
x = jnp.ones((32, 8))
params = net.init(kiln.random.key(0), x)


@kiln.jit
def step(params):
    loss = lambda p: jnp.mean(net.apply(p, x) ** 2)
    return kiln.tree.map(lambda p, g: p - 0.1 * g, params, kiln.grad(loss)(params))


for _ in range(5):
    params = step(params)
"""
PROGRAMS = [
    pytest.param(ELEMENTS, "shade", [7, 8], id="elements"),
    pytest.param(LOOP, "<lambda>", [7, 8], id="loop", marks=pytest.mark.full),
    pytest.param(TRAINING, "step", [12, 13], id="training", marks=pytest.mark.full),
]
_VISITOR = """<script>
{
const all = (pane) => [...document.querySelectorAll(`#${pane} .row`)];
const lit = (pane) => all(pane).filter((row) => row.classList.contains("lit"));
const hover = (row) => row.dispatchEvent(new MouseEvent("mouseover", { bubbles: true }));
const text = (row) => row.querySelector(".text").textContent;
const said = { lines: {}, back: {}, stages: {} };
for (const number of LINES) {
  const row = all("source")[number - 1];
  said.lines[number] = {};
  for (const button of document.querySelectorAll("#stages button")) {
    button.click();
    hover(row);
    said.lines[number][button.textContent] = lit("compiled").map(text);
    said.stages[button.textContent] = all("compiled").length;
    const other = lit("compiled")[0];
    if (other) {
      hover(other);
      said.back[number] = lit("source").map((each) => all("source").indexOf(each) + 1);
    }
  }
}
const kept = all("source")[LINES[0] - 1];
kept.dispatchEvent(new MouseEvent("click", { bubbles: true }));
document.getElementById("source").dispatchEvent(new MouseEvent("mouseleave"));
said.kept = lit("source").length;
said.source = all("source").map(text);
said.costs = all("source").filter((row) => row.querySelector(".time i")).length;
said.programs = [...document.getElementById("program").options].map((each) => each.text);
said.memory = document.querySelectorAll("#memory path").length;
said.why = [...document.querySelectorAll("#records .why")].map((each) => each.textContent);
said.title = document.getElementById("title").textContent;
const wide = document.documentElement;
said.overflow = wide.scrollWidth - wide.clientWidth;
const end = document.createElement("pre");
end.id = "said";
end.textContent = JSON.stringify(said);
document.body.append(end);
}
</script></body>"""


def explored(folder: Path, text: str) -> str:
    (folder / "program.py").write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kiln", "explore", "-o", "page.html", "program.py"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "page.html: open it in a browser\n"
    assert done.stderr == ""
    return (folder / "page.html").read_text(encoding="utf-8")


def visited(folder: Path, page: str, lines: list[int]) -> dict[str, Any]:
    """Open a page in the browser, hover over lines, and return what lit up."""
    visitor = _VISITOR.replace("LINES", json.dumps(lines))
    head, _, tail = page.rpartition("</body>")
    (folder / "visit.html").write_text(head + visitor + tail, encoding="utf-8")
    assert CHROMIUM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=700,900"]
    address = (folder / "visit.html").as_uri()
    done = subprocess.run(
        [CHROMIUM, *options, f"--user-data-dir={folder / 'browser'}", "--dump-dom", address],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r'<pre id="said">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:]
    entities = (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"))
    said = found[1]
    for name, character in entities:
        said = said.replace(name, character)
    result: dict[str, Any] = json.loads(said)
    return result


@NEEDS_BROWSER
@pytest.mark.parametrize(("text", "name", "lines"), PROGRAMS)
def test_lines_light_up_what_is_compiled_from_them(
    text: str, name: str, lines: list[int], tmp_path: Path
) -> None:
    # Chromium takes a second to start.
    page = explored(tmp_path, text)
    assert not re.search(r'(?:src|href)\s*=\s*["\']|@import|\bfetch\(', page)
    said = visited(tmp_path, page, lines)
    assert said["title"] == "program.py"
    # Markup in the program is text.
    assert [line.rstrip() for line in said["source"]] == [
        line.rstrip() or "" for line in text.splitlines()
    ]
    assert any(each.startswith(f"{name}: ") for each in said["programs"])
    for number in lines:
        for stage in ("jaxpr", "loops", "assembly"):
            rows = said["lines"][str(number)][stage]
            assert 0 < len(rows) < said["stages"][stage], (number, stage)
        assert number in said["back"][str(number)]
    assert said["costs"] >= len(lines)
    assert said["kept"] == 1
    assert said["memory"] == 1
    assert said["overflow"] <= 0
    if name == "shade":
        first, second = (said["lines"][str(number)] for number in lines)
        assert any(" = sin " in row for row in first["jaxpr"])
        assert any(" = dot_general" in row for row in second["jaxpr"])
        assert any("kiln_gemm" in row for row in second["loops"])
        assert any("kiln_gemm" in row for row in second["assembly"])
        assert not any("kiln_gemm" in row for row in first["loops"] + first["assembly"])
        # The program on top is the last that was compiled, or the one before it.
        assert any("float32[64,64] before, float32[96,96] now" in why for why in said["why"])


ASSEMBLY = """\
nest0:
	vaddps	%zmm0
.Lfunc_end0:
kiln_entry:
	callq	kiln_clock@PLT
	callq	kiln_gemm_f32@PLT
	xorl	%esi, %esi
	callq	kiln_measured@PLT
	callq	nest0
	movl	$1, %esi
	callq	kiln_measured@PLT
	vmulps	%zmm1
	movq	$-3, %rsi
	callq	kiln_measured@PLT
	retq
.Lfunc_end1:
	.long	0
"""


def test_statements_of_instrumented_assembly() -> None:
    owners = explore.owners_of(ASSEMBLY.splitlines(), 3)
    assert owners == [1, 1, None, None, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, None, None, None]
    # Numbers of a program that has fewer statements are not its own.
    assert 2 not in explore.owners_of(ASSEMBLY.splitlines(), 2)
    assert explore.owners_of(["bl kiln_measured"], 1) == [None]
