"""The suites: of which release, and where their tests are.

Stored answers are those of exactly these releases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Suite:
    """The tests of a library, or of a part of one."""

    name: str
    distribution: str
    """What pip calls the library."""
    release: str
    tests: tuple[str, ...]
    """Patterns of files, below the folder that `home` says."""
    home: str = ""
    """The folder below the sources with a copy of the library; empty: its tests are installed."""
    settings: str = ""
    """The library's own settings of pytest, below that folder; empty: none."""
    without: tuple[str, ...] = ()
    """Beginnings of files that are left out: examples, and what needs another library or a GPU."""
    converter: str = ""
    """The library's own script, below that folder, that writes the text of a test for jax."""
    options: tuple[str, ...] = ()
    """What else pytest is told."""
    environment: Mapping[str, str] = field(default_factory=dict)
    goal: int = 98
    """How many of a hundred tests that pass on jax are to pass on kiln."""


SUITES = (
    Suite(
        "flax.nnx",
        "flax",
        "0.12.8",
        ("tests/nnx/**/*_test.py", "tests/nnx/test_*.py"),
        home="flax",
        settings="pyproject.toml",
    ),
    Suite(
        "flax.linen",
        "flax",
        "0.12.8",
        ("tests/*_test.py", "tests/linen/*_test.py", "tests/core/**/*_test.py"),
        home="flax",
        settings="pyproject.toml",
        without=("tests/tensorboard_test.py", "tests/io_test.py", "tests/flaxlib_test.py"),
    ),
    Suite("optax", "optax", "0.2.8", ("optax/**/*_test.py",)),
    Suite(
        "chex",
        "chex",
        "0.1.92",
        ("chex/_src/*_test.py",),
        # It calls what Python calls as the process ends: afterwards threads are left behind.
        options=(
            "--deselect",
            "chex/_src/asserts_chexify_test.py::AssertsChexifyTest::test_uninspected_checks",
        ),
    ),
    Suite(
        "equinox",
        "equinox",
        "0.13.8",
        ("tests/test_*.py",),
        home="equinox",
        settings="pyproject.toml",
    ),
    Suite(
        "haiku",
        "dm-haiku",
        "0.0.17",
        ("haiku/**/*_test.py",),
        without=("haiku/_src/integration/jax2tf_test.py",),
    ),
    Suite(
        "numpyro",
        "numpyro",
        "0.22.0",
        ("test/**/test_*.py",),
        home="numpyro",
        without=("test/test_examples.py", "test/test_model_rendering.py", "test/pyroapi"),
    ),
    Suite(
        "blackjax",
        "blackjax",
        "1.7.1",
        ("tests/**/test_*.py",),
        home="blackjax",
        settings="pytest.ini",
        without=("tests/test_benchmarks.py",),
    ),
    Suite(
        "diffrax",
        "diffrax",
        "0.7.2",
        ("test/test_*.py",),
        home="diffrax",
        settings="pyproject.toml",
    ),
    Suite(
        "keras",
        "keras",
        "3.15.1",
        ("keras/src/ops/*_test.py", "keras/src/layers/**/*_test.py"),
        without=("keras/src/layers/preprocessing", "keras/src/ops/image_test.py"),
        environment={"KERAS_BACKEND": "jax"},
        goal=95,
    ),
    Suite(
        "tensorflow-probability",
        "tfp-nightly",
        "0.26.0.dev20261027",
        ("tensorflow_probability/python/distributions/*_test.py",),
        home="tfp",
        converter="tensorflow_probability/substrates/meta/rewrite.py",
        goal=95,
    ),
    Suite(
        "mjx",
        "mujoco-mjx",
        "3.17.0",
        ("mujoco/mjx/_src/*_test.py", "mujoco/mjx/integration_test/*_test.py"),
        goal=95,
    ),
    Suite(
        "lineax",
        "lineax",
        "0.1.1",
        ("tests/test_*.py",),
        home="lineax",
        settings="pyproject.toml",
    ),
    Suite(
        "optimistix",
        "optimistix",
        "0.1.0",
        ("tests/test_*.py",),
        home="optimistix",
        settings="pyproject.toml",
    ),
    Suite("distrax", "distrax", "0.1.9", ("distrax/**/*_test.py",)),
    Suite("jaxtyping", "jaxtyping", "0.3.11", ("test/test_*.py",), home="jaxtyping"),
    Suite(
        "orbax",
        "orbax-checkpoint",
        "0.12.8",
        tuple(
            f"checkpoint/orbax/checkpoint/_src/{part}/*_test.py"
            for part in ("arrays", "checkpointers", "handlers", "metadata", "serialization", "tree")
        ),
        home="orbax",
        options=("--import-mode=importlib",),
    ),
    Suite("rlax", "rlax", "0.1.8", ("rlax/**/*_test.py",), home="rlax"),
    Suite("jraph", "jraph", "0.0.6.dev0", ("jraph/**/*_test.py",), without=("jraph/ogb_examples",)),
    Suite(
        "einops",
        "einops",
        "0.8.2",
        ("einops/tests/test_*.py",),
        environment={"EINOPS_TEST_BACKENDS": "numpy,jax"},
    ),
)
