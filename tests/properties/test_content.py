"""Whether contents of functions are compared or not, fresh functions are the same programs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kiln
from tests.properties.adversary import differences, drawn, is_read
from tests.properties.agreement import by_meaning

FEW, MANY = 300, 20000


@pytest.fixture(autouse=True)
def _on_the_reference_engine() -> Iterator[None]:
    with by_meaning():
        yield
    kiln.clear_caches()


@pytest.mark.parametrize(
    "seeds",
    [
        pytest.param(range(FEW), id="few"),
        pytest.param(range(FEW, MANY), id="many", marks=pytest.mark.full),
    ],
)
@pytest.mark.timeout(3000)
def test_content_makes_no_difference(seeds: range) -> None:
    for seed in seeds:
        program = drawn(seed)
        for step, found, expected in differences(program):
            pytest.fail(f"seed {seed}, step {step}\n{program}\n{found}\n{expected}")


def test_the_programs_are_not_all_unreadable() -> None:
    read = [is_read(drawn(seed)) for seed in range(100)]
    assert 25 < sum(read) < 95
