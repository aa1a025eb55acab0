"""Tables of modules, and the calls they are made of."""

from __future__ import annotations

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import linen as nn
from kiln.linen.summary import size_of, value_lines
from kiln.linen.summary.recording import recorded

KEY = kiln.random.key(0)
X = np.ones((2, 3), np.float32)
PLAIN = {"force_terminal": False, "width": 160}


class Block(nn.Module):
    @nn.compact
    def __call__(self, x, *, train=True):
        self.variable("stats", "mean", jnp.zeros, (3,))
        return nn.Dense(3)(nn.Dense(3, name="first")(x)), {"x": x}


class Net(nn.Module):
    def setup(self):
        self.block = Block()
        self.heads = [nn.Dense(2)]
        self.unused = nn.Dense(7)

    def __call__(self, x):
        y, _ = self.block(x, train=False)
        y, _ = self.block(y)
        return self.heads[0](y)


def lines(text):
    return [[c.strip() for c in line[1:-1].split("│")] for line in text.splitlines() if "│" in line]


def test_rows_are_the_modules_called():
    rows = lines(Net().tabulate(KEY, X, console_kwargs=PLAIN))
    paths = [row[0] for row in rows if row[1]]
    assert paths == ["", "block", "block/first", "block/Dense_0", "heads_0"]
    assert ["block", "Block", "- float32[2,3]", "- float32[2,3]", "", "mean: float32[3]"] in rows
    assert ["", "", "- train: False", "- x: float32[2,3]", "", ""] in rows
    assert rows[-1] == ["", "", "", "Total", "32 (128 B)", "3 (12 B)"]


def test_depth_counts_what_is_hidden_for_the_parent():
    rows = lines(Net().tabulate(KEY, X, depth=1, console_kwargs=PLAIN))
    assert [row[0] for row in rows if row[1]] == ["", "block", "heads_0"]
    assert next(row for row in rows if row[0] == "block")[4] == "24 (96 B)"
    assert rows[-1][4] == "32 (128 B)"


def test_repeated_calls_are_shown_on_request():
    rows = lines(nn.tabulate(Net(), KEY, show_repeated=True, console_kwargs=PLAIN)(X))
    assert [row[0] for row in rows if row[1]].count("block/first") == 2
    assert rows[-1][4] == "32 (128 B)"


def test_title_caption_and_options():
    text = Net().tabulate(KEY, X, console_kwargs=PLAIN, table_kwargs={"show_lines": False})
    assert "Net Summary" in text
    assert "Total Parameters: 35 (140 B)" in text
    assert text.count("├") == 1


def test_costs_are_the_compilers_estimates():
    text = nn.Dense(3).tabulate(
        KEY, X, compute_flops=True, compute_vjp_flops=True, console_kwargs=PLAIN
    )
    row = lines(text)[0]
    if row[4]:
        assert int(row[4]) >= 36
        assert int(row[5]) > int(row[4])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (jnp.ones((2, 3)), ["float32[2,3]"]),
        (None, ["None"]),
        ([X, {"a": [X]}], ["- float32[2,3]", "- a:", "  - float32[2,3]"]),
        ({"a": {"b": X}, "c": 3}, ["a:", "  b: float32[2,3]", "c: 3"]),
        (nn.Partitioned(X, ("x", None)), ["float32[2,3] P(x, None)"]),
    ],
)
def test_values_as_lines(value, expected):
    assert value_lines(value) == expected


def test_sizes():
    assert size_of({"a": X, "b": jnp.ones(3, jnp.bfloat16)}) == (9, 30)


def test_calls_are_recorded_on_types_alone():
    calls, types = recorded(lambda: Net().init(KEY, X))
    assert [(c.path, c.method, c.repeated) for c in calls][:2] == [
        ((), "__call__", False),
        (("block",), "__call__", False),
    ]
    assert isinstance(types["params"]["heads_0"]["kernel"], kiln.ShapeDtypeStruct)
    assert sum(c.repeated for c in calls) == 3


def test_module_paths():
    found = Net().module_paths(KEY, X)
    assert list(found) == ["", "block", "block/first", "block/Dense_0", "heads_0"]
    assert found["block/first"] == nn.Dense(3)
    assert found["block/first"].scope is None
    assert list(Net().module_paths(KEY, X, show_repeated=True)) == list(found)
