"""Every public name of jax is there under the door, or docs/differences.md says why not."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.structure.source_tree import KILN, REPOSITORY

DIFFERENCES = REPOSITORY / "docs" / "differences.md"

PROGRAM = """
import importlib, json, kiln.as_jax
from kiln.as_jax.missing import MissingModule, MissingName
from kiln.as_jax.names import public_names
from kiln.as_jax.refusals import NOT_YET, REFUSED, reason

missing, present, stated = [], [], set()
for module, names in sorted(public_names().items()):
    found = importlib.import_module(module)
    if isinstance(found, MissingModule):
        missing.append(module)
    for name in names:
        full = f"{module}.{name}"
        is_missing = isinstance(getattr(found, name), (MissingModule, MissingName))
        (missing if is_missing else present).append(full)
print(json.dumps({
    "missing": missing,
    "present": present,
    "unexplained": [name for name in missing if not reason(name)],
    "stale": [
        entry
        for entry in (*REFUSED, *NOT_YET)
        if not any(name == entry or name.startswith(entry + ".") for name in missing)
    ],
    "entries": [*REFUSED, *NOT_YET],
}))
"""


@pytest.fixture(scope="module")
def names() -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_each_name_is_there_or_has_a_reason(names: dict[str, list[str]]) -> None:
    assert names["unexplained"] == []
    assert len(names["present"]) > 1300


def test_reasons_are_of_names_that_are_missing(names: dict[str, list[str]]) -> None:
    assert names["stale"] == []


def test_the_page_of_differences_names_them(names: dict[str, list[str]]) -> None:
    text = DIFFERENCES.read_text(encoding="utf-8")
    assert [entry for entry in names["entries"] if f"`{entry}`" not in text] == []


def test_the_list_is_that_of_the_release_followed() -> None:
    stored = json.loads((KILN / "as_jax" / "public_names.json").read_text(encoding="utf-8"))
    assert {"jax", "jax.numpy", "jax.lax", "jax.experimental.sparse"} <= set(stored)
    assert sum(map(len, stored.values())) > 2500
