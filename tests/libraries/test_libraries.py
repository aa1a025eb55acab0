"""Programs of libraries for jax run on kiln, and return what they return on jax.

The answers of jax are stored (`make libraries-oracle`). Each file of `programs/` runs in a process
of its own in which `jax` is kiln, and in which no file of an installed jax is loaded.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.libraries.oracle import DATA, RUN, load, subjects
from tests.libraries.run import ERROR, FILES_OF_JAX
from tests.libraries.tolerances import WIDER, difference

# A library is a module, the first word of its file's name; what else its programs import.
NEEDED = {
    "optax": ["optax"],
    "flax": ["flax", "optax"],
    "equinox": ["equinox", "optax"],
    "haiku": ["haiku", "optax"],
    "optimistix": ["optimistix", "optax"],
    "distrax": ["distrax", "optax"],
    "tfp": ["tensorflow_probability"],
    "mujoco": ["mujoco"],
    "jaxmd": ["jax_md"],
    "e3nn": ["e3nn_jax"],
}
DRAWN_OTHERWISE = {"flax_linen/jitted_initialization": "kiln.linen.jit draws as the module without"}
pytestmark = [pytest.mark.libraries, pytest.mark.full, pytest.mark.timeout(600)]


def answers(subject: str) -> dict[str, np.ndarray]:
    """Return jax's answers to a subject's programs."""
    return load(DATA / f"{subject}.npz")


def programs(subject: str) -> list[str]:
    """Return the programs of a subject in order."""
    return list(dict.fromkeys(name.split("/")[0] for name in answers(subject)))


@functools.cache
def found(subject: str, *options: str) -> dict[str, np.ndarray]:
    """Return what a subject's programs return on kiln."""
    library = subject.split("_")[0]
    missing = [name for name in NEEDED.get(library, [library]) if find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} cannot be imported: `make libraries` installs them")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.npz"
        command = [sys.executable, "-m", "kiln.as_jax", *options, str(RUN), subject, str(path)]
        # Checking every program costs more than running it here.
        environment = os.environ | {"KILN_CHECK": "0"}
        environment.pop("KILN_NUM_CPU_DEVICES", None)
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return load(path)


def check(subject: str, program: str, *options: str) -> None:
    """Raise AssertionError naming the values of a program that differ."""
    values, expected = found(subject, *options), answers(subject)
    assert not values[FILES_OF_JAX], "files of jax were loaded"
    failure = values.get(f"{program}/{ERROR}")
    assert failure is None, str(failure)
    names = {name for name in values if name.startswith(f"{program}/")}
    assert names == {name for name in expected if name.startswith(f"{program}/")}
    differences = {
        name: difference(f"{subject}/{program}", values[name], expected[name])
        for name in sorted(names)
    }
    assert not (wrong := {name: text for name, text in differences.items() if text}), wrong


def cases(subject: str, group: str) -> list[Any]:
    """Return the programs of a subject, which one process of pytest-xdist takes together."""
    marks = pytest.mark.xdist_group(group)
    return [pytest.param(subject, name, marks=marks) for name in programs(subject)]


@pytest.mark.parametrize(
    ("subject", "program"), [case for subject in subjects() for case in cases(subject, subject)]
)
def test_kiln_returns_what_jax_returns(subject: str, program: str) -> None:
    check(subject, program)


@pytest.mark.parametrize(("subject", "program"), cases("flax_linen", "kiln_linen"))
def test_kiln_linen_returns_what_flax_returns(subject: str, program: str) -> None:
    reason = DRAWN_OTHERWISE.get(f"{subject}/{program}")
    if reason is not None:
        pytest.skip(reason)
    check(subject, program, "--linen")


def test_wider_tolerances_belong_to_programs() -> None:
    known = {f"{subject}/{name}" for subject in subjects() for name in programs(subject)}
    assert known >= WIDER.keys() | DRAWN_OTHERWISE.keys()
