"""From nothing to a trained network, and to a compiled NumPy loop: transcripts with times.

    python -m benchmarks.first_page dist/kiln-....whl [PYTHON]

Does what docs/install.md says, each time in a clean environment with nothing else on the path,
without pip's cache and kiln's, and prints each command with its seconds.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = REPOSITORY / "docs" / "install.md"
HEADING = "## From a NumPy loop to a compiled one\n"
TIMED = """
import time


def seconds(f):
    start = time.perf_counter()
    np.asarray(f(plate, 200))
    return time.perf_counter() - start


loop, best = seconds(heat), min(seconds(compiled_heat) for _ in range(5))
print(f"NumPy {loop * 1e3:.0f} ms, compiled {best * 1e3:.0f} ms: {loop / best:.1f} times as fast")
"""


def loop_program(page: str) -> str:
    """Return the blocks of Python below the page's heading, and what times them."""
    section = page.partition(HEADING)[2].partition("\n## ")[0]
    blocks = [part.partition("```")[0] for part in section.split("```python\n")[1:]]
    return "\n\n".join([*blocks, TIMED])


def transcript(commands: Sequence[Sequence[str]], folder: Path) -> float:
    """Run commands in a folder, show them with what they print, and return the seconds.

    Their path holds the programs of the environment `learn` and no others.

    Raises: CalledProcessError if a command fails.
    """
    environment = {name: text for name, text in os.environ.items() if name.startswith("PIP_")}
    environment |= {"PATH": f"{folder}/learn/bin", "HOME": os.environ.get("HOME", str(folder))}
    environment |= {"XDG_CACHE_HOME": f"{folder}/cache", "PIP_NO_CACHE_DIR": "1"}
    environment |= {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    whole = 0.0
    for command in commands:
        start = time.perf_counter()
        ran = subprocess.run(
            [shutil.which(command[0], path=environment["PATH"]) or command[0], *command[1:]],
            cwd=folder,
            env=environment,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        seconds = time.perf_counter() - start
        whole += seconds
        print(f"{seconds:6.1f} s  {' '.join(part.rpartition('/')[2] for part in command)}")
        for line in ran.stdout.splitlines():
            print(f"          {line}", flush=True)
    return whole


def main(wheel: str, python: str = sys.executable) -> None:
    """Print both transcripts, with the machine and its load."""
    path = Path(wheel).resolve()
    cores, load = os.cpu_count(), os.getloadavg()
    print(f"{platform.machine()}, {cores} cores, load {load[0]:.1f} before the first command")
    for title, extras, program in (
        ("a trained network", "[examples]", "digits.py"),
        ("a compiled loop", "", "heat.py"),
    ):
        print(f"\nFrom nothing to {title}:")
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            shutil.copytree(REPOSITORY / "examples", folder, dirs_exist_ok=True)
            (folder / "heat.py").write_text(loop_program(PAGE.read_text(encoding="utf-8")))
            commands = (
                [python, "-m", "venv", "learn"],
                ["python", "-m", "pip", "install", "--quiet", f"{path}{extras}"],
                ["python", program],
            )
            whole = transcript(commands, folder)
        print(f"{whole:6.1f} s  in all, load {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
