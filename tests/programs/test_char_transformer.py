"""The transformer of the examples learns, and writes with its cache what it writes without."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import kiln

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(name="example", scope="module")
def fixture_example() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield importlib.import_module("char_transformer")


@pytest.fixture(name="trained", scope="module")
def fixture_trained(example: ModuleType) -> Any:
    return example.train(3)


def test_the_book(example: ModuleType) -> None:
    learned, held, letters = example.read()
    assert len(learned) + len(held) > 140_000
    assert "#" not in letters
    assert "".join(letters[i] for i in held[-20:]).split() == ["THE", "END"]


@pytest.mark.full
def test_it_learns(example: ModuleType) -> None:
    _, losses, (before, after) = example.train(30)
    assert np.mean(losses[-5:]) < np.mean(losses[:5]) - 0.8
    assert after < before - 1.5


def test_layers_are_stacked(example: ModuleType, trained: Any) -> None:
    model = example.Transformer(len(example.read()[2]))
    shape = trained[0]["blocks"]["attention"]["query"]["kernel"].shape
    assert shape == (model.layers, model.width, model.heads, model.width // model.heads)


def test_with_and_without_the_cache(example: ModuleType, trained: Any) -> None:
    params, letters = trained[0], example.read()[2]
    prompt = "Alice was beginning to get very tired of sitting by"
    model = example.Transformer(len(letters))
    scores_of = kiln.jit(lambda text: model.apply({"params": params}, text))
    text = [letters.index(letter) for letter in prompt]
    # The mask lets no position see the zeros behind it. The cache is full in the middle of this.
    window, count = text, example.LENGTH - len(text) + 10
    for _ in range(count):
        if len(window) > example.LENGTH:
            window = window[-example.LENGTH // 2 :]
        padded = np.zeros((1, example.LENGTH), np.int32)
        padded[0, : len(window)] = window
        best = int(np.argmax(scores_of(padded)[0, len(window) - 1]))
        text, window = [*text, best], [*window, best]
    written = "".join(example.write(params, prompt, count, heat=0))
    assert prompt + written == "".join(letters[i] for i in text)


def test_what_is_drawn_depends_on_the_seed_alone(example: ModuleType, trained: Any) -> None:
    first, again, other = (
        "".join(example.write(trained[0], "The ", 12, seed=seed)) for seed in (0, 0, 1)
    )
    assert first == again != other
