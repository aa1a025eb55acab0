"""`import kiln` loads nothing heavy, and running kiln never loads jax.

jaxlib's own C++ looks for the package `jax` in some calls, so the second half is worth running.
"""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("jaxlib", "scipy", "jax", "flax", "opt_einsum", "matplotlib")
SELDOM_USED = {
    *("json", "selectors", "socket", "queue", "multiprocessing", "pathlib", "asyncio"),
    *("cmd", "pprint", "glob", "pdb"),
}
"""Of the standard library: each costs a first result a millisecond or so."""

MODULES = 260
"""The most modules of kiln that `import kiln` may load: each takes a quarter of a millisecond."""

LOADED = "import sys; print(*sorted({name.split('.')[0] for name in sys.modules}))"


def packages_after(program: str) -> set[str]:
    """Return the top-level packages that a fresh interpreter has loaded after a program."""
    done = subprocess.run(
        [sys.executable, "-c", f"{program}\n{LOADED}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_is_light() -> None:
    assert packages_after("import kiln, kiln.numpy") & set(HEAVY) == set()


def test_import_loads_few_modules() -> None:
    program = """
import sys, numpy
before = set(sys.modules)
import kiln
added = set(sys.modules) - before
print(len([name for name in added if name.split(".")[0] == "kiln"]))
print(*sorted(added & {"difflib", "heapq", "json", "random", "hashlib"}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120
    )
    count, *seldom = done.stdout.split()
    assert int(count) <= MODULES, "load what few programs need by kiln.base.lazy"
    assert seldom == []


def test_a_first_result_loads_what_it_needs() -> None:
    before = packages_after("import numpy")
    after = packages_after("import kiln, kiln.numpy\nkiln.jit(lambda x: x + 1)(kiln.numpy.ones(8))")
    assert (after - before) & SELDOM_USED == set()


def test_running_a_program_does_not_load_jax() -> None:
    program = (
        "import kiln, kiln.numpy as jnp\n"
        "x = kiln.jit(lambda x: jnp.sin(x) @ x + 1)(jnp.arange(4.0))\n"
        "assert x.block_until_ready().shape == ()\n"
        "kiln.grad(lambda x: jnp.sum(x * x))(jnp.arange(4.0)).block_until_ready()"
    )
    # The native engine runs it without XLA; with XLA, jaxlib does without jax.
    assert {"jax", "flax", "jaxlib"} & packages_after(program) == set()
    chosen = "import kiln\nkiln.config.update('engine', 'xla')\n"
    loaded = packages_after(chosen + program)
    assert "jaxlib" in loaded
    assert {"jax", "flax"} & loaded == set()


def test_a_heavy_import_would_be_noticed() -> None:
    assert "opt_einsum" in packages_after("import opt_einsum")
