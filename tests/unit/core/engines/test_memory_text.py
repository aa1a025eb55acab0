"""What a memory analysis says in words, of numbers and of named sizes."""

from __future__ import annotations

import types
from typing import Any

import pytest

import kiln
from kiln.base.options.config import override
from kiln.core.engines.memory_text import explained, peak_of, size_text, summary
from kiln.ir.sizes.size import symbol

N = symbol("n")


def analysis(taken: Any, given: Any, donated: Any, workspace: Any) -> Any:
    return types.SimpleNamespace(
        argument_size_in_bytes=taken,
        output_size_in_bytes=given,
        alias_size_in_bytes=donated,
        temp_size_in_bytes=workspace,
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 bytes"),
        (1023, "1023 bytes"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5 GiB"),
        (2**51, "2048 TiB"),
        (12 * N + 4, "12*n+4 bytes"),
    ],
)
def test_sizes(count: Any, text: str) -> None:
    assert size_text(count) == text


def test_three_lines() -> None:
    assert summary("f", analysis(2048, 1024, 1024, 512), 0).splitlines() == [
        "f takes 2 KiB of arguments and gives 1 KiB of results",
        "1 KiB of the results lie where arguments were donated",
        "with 512 bytes of workspace a call needs 2.5 KiB at the peak",
    ]
    named = analysis(8 * N, 4 * N, 0, 64)
    assert peak_of(named, 4 * N) == 8 * N + 64
    assert summary("f", named, 4 * N).splitlines() == [
        "f takes 8*n bytes of arguments and gives 4*n bytes of results",
        "no result lies where an argument was donated",
        "with 64 bytes of workspace a call needs 8*n+64 bytes at the peak",
    ]


def test_an_engine_that_plans_no_memory() -> None:
    with override(engine="reference"):
        compiled = kiln.jit(lambda x: x + 43).lower(1.0).compile()
    with pytest.raises(ValueError, match="plans no memory") as found:
        explained(compiled._program.executable, "f", "reference")
    assert len(str(found.value).splitlines()) == 3
