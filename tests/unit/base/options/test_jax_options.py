"""Options of JAX that kiln does not have: what texts of the environment say of them."""

from __future__ import annotations

import pytest

from kiln.base.options.jax_options import FOREIGN, truth


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("jax_scan3", "Yes", True),
        ("jax_scan3", "off", False),
        ("jax_pgle_profiling_runs", "5", 5),
        ("jax_memory_fitting_effort", "0.5", 0.5),
        ("jax_platforms", "cuda,cpu", "cuda,cpu"),
        ("jax_cross_host_transfer_timeout_seconds", "60", 60),
        ("jax_pjrt_client_create_options", "a:1", "a:1"),
    ],
)
def test_texts_are_values_of_the_kind_that_the_option_has(
    name: str, text: str, value: object
) -> None:
    assert FOREIGN[name].parse(text) == value


def test_texts_that_are_no_values() -> None:
    for text in ("", "2", "maybe"):
        with pytest.raises(ValueError, match="invalid truth value"):
            truth(text)
    with pytest.raises(ValueError, match="invalid literal"):
        FOREIGN["jax_pgle_profiling_runs"].parse("many")
