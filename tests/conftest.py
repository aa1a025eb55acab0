"""What all tests share: every program is checked, and the fixture `engine` runs a test on each."""

from __future__ import annotations

import os

# Before kiln reads its options.
os.environ.setdefault("KILN_CHECK", "1")
# No test depends on what others compiled, or leaves anything behind.
os.environ["KILN_CACHE_DIR"] = ""
# Programs run on the first device as if it were alone; tests of several find eight.
os.environ.setdefault("KILN_NUM_CPU_DEVICES", "8")

import gc
import signal
from collections.abc import Iterator

import pytest

from kiln.base.options.config import override
from tests.structure.source_tree import IN_TREE

# A shell lets what it starts in the background ignore interrupts, and so would the processes that
# tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the files of tests/golden again instead of comparing with them",
    )


def _leave_out_what_is_there() -> None:
    """Leave what is there out of every garbage collection to come.

    Twenty thousand tests, their modules and what they compiled would be looked through each time
    that a test clears kiln's caches.
    """
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not IN_TREE:
        of_the_tree = pytest.mark.skip(reason="a test of the source tree, which is not here")
        for item in items:
            if item.get_closest_marker("tree"):
                item.add_marker(of_the_tree)


def pytest_collection_finish() -> None:
    _leave_out_what_is_there()


@pytest.fixture(autouse=True, scope="module")
def _garbage_of_one_module() -> Iterator[None]:
    yield
    _leave_out_what_is_there()


@pytest.fixture(params=["reference", "xla"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the test once with each engine in force."""
    with override(engine=request.param):
        yield request.param
