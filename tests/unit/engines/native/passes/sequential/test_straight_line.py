"""Small nests of sequential loops become straight-line code, where that is exact and faster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln.numpy as jnp
from kiln import lax
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.statements import Loop
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.sequential.straight_line import (
    MOST_NODES,
    MOST_UNROLLED,
    straighten,
)
from tests.unit.engines.native.passes.agreement import agree, numbers

PRODUCT = """function f(%i0: f64[4], %i1: f64[40]) -> (%o2: f64[4]) {
  temp %t3: f64[4]
  nest i0 < 4 {
    v0: f64 = %i0[i0]
    %o2[i0] = v0
  }
  loop t < 10 {
    nest i1 < 2, i2 < 2, i3 < 2 {
      v0: f64 = %o2[i1*2 + i3]
      v1: f64 = %i1[t*4 + i3*2 + i2]
      v2: f64 = mul v0 v1
      %t3[i1*2 + i2] = add v2
    }
    nest i4 < 4 {
      v0: f64 = %t3[i4]
      %o2[i4] = v0
    }
  }
}
"""
STRAIGHT = """function f(%i0: f64[4], %i1: f64[40]) -> (%o2: f64[4]) {
  nest {
    v0: f64 = %i0[0]
    v1: f64 = %i0[1]
    v2: f64 = %i0[2]
    v3: f64 = %i0[3]
    %o2[0] = v0
    %o2[1] = v1
    %o2[2] = v2
    %o2[3] = v3
  }
  loop t < 10 {
    nest {
      v1: f64 = %o2[0]
      v2: f64 = %i1[t*4]
      v3: f64 = mul v1 v2
      v4: f64 = add 0.0:f64 v3
      v5: f64 = %o2[1]
      v6: f64 = %i1[t*4 + 2]
      v7: f64 = mul v5 v6
      v8: f64 = add v4 v7
      v9: f64 = %i1[t*4 + 1]
      v10: f64 = mul v1 v9
      v11: f64 = add 0.0:f64 v10
      v12: f64 = %i1[t*4 + 3]
      v13: f64 = mul v5 v12
      v14: f64 = add v11 v13
      v15: f64 = %o2[2]
      v16: f64 = mul v15 v2
      v17: f64 = add 0.0:f64 v16
      v18: f64 = %o2[3]
      v19: f64 = mul v18 v6
      v20: f64 = add v17 v19
      v21: f64 = mul v15 v9
      v22: f64 = add 0.0:f64 v21
      v23: f64 = mul v18 v12
      v24: f64 = add v22 v23
      %o2[0] = v8
      %o2[1] = v14
      %o2[2] = v20
      %o2[3] = v24
    }
  }
}
"""


def straight(text: str) -> str:
    """Return a function after the pass."""
    function = parse(text)
    straighten(function)
    check(function, "straight")
    return to_text(function)


def test_products_and_their_carry_become_one_nest() -> None:
    assert straight(PRODUCT) == STRAIGHT
    while_loop = """function f(%i0: i32[2]) -> (%o1: i32[2]) {
  temp %t2: i1[1]
  nest i0 < 2 {
    v0: i32 = %i0[i0]
    %o1[i0] = v0
  }
  while %t2 {
    nest i1 < 2 {
      v0: i32 = %o1[i1]
      %t3[0] = add v0
    }
    nest {
      v0: i32 = %t3[0]
      v1: i1 = lt v0 9:i32
      %t2[0] = v1
    }
  } do {
    nest i2 < 2 {
      v0: i32 = %o1[i2]
      v1: i32 = add v0 1:i32
      %o1[i2] = v1
    }
  }
}
""".replace("  temp %t2", "  temp %t3: i32[1]\n  temp %t2")
    found = straight(while_loop)
    assert found.count("nest {") == found.count("nest") == 3
    assert "%t3" not in found


def outside(text: str) -> str:
    """Return a function whose loop runs in any order."""
    return text.replace("  loop t", "  parallel t")


PADDED = """function f(%i0: f64[{n}]) -> (%o1: f64[{n}]) {{
  nest i0 < {n} {{
    v0: f64 = %i0[i0]
    %o1[i0] = v0
  }}
  loop t < 10 {{
    nest i1 < {n} {{
      v0: f64 = %o1[i1]
      v1: f64 = {op}
      %o1[i1] = v1
    }}
  }}
}}
"""
MASKED = """function f(%i0: i32[3]) -> (%o1: i32[3]) {
  nest i0 < 3 {
    v0: i32 = %i0[i0]
    %o1[i0] = v0
  }
  loop t < 10 {
    nest i1 < 3 {
      v0: i32 = %i0[i1]
      v1: i1 = lt v0 5:i32
      %o1[i1] = v0 if v1
    }
  }
}
"""
ORDERED = """function f(%i0: i32[3]) -> (%o1: i32[1]) {
  loop t < 10 {
    ordered i1 < 3 {
      v0: i32 = %i0[i1]
      %o1[0] = v0
    }
  }
}
"""
POSITION = """function f(%i0: f32[3]) -> (%o1: i32[1]) {
  loop t < 10 {
    nest i1 < 3 {
      v0: f32 = %i0[i1]
      %o1[0] = argmax v0 along i1
    }
  }
}
"""


@pytest.mark.parametrize(
    "text",
    [
        outside(PRODUCT),
        PADDED.format(n=64, op="add v0 v0"),
        PADDED.format(n=8, op="sin v0"),
        MASKED,
        ORDERED,
        POSITION,
    ],
    ids=["parallel", "full vectors", "dear", "masked", "ordered", "position"],
)
def test_other_nests_stay(text: str) -> None:
    assert straight(text) == to_text(parse(text))


def test_an_element_that_may_have_been_stored_ends_the_group() -> None:
    text = """function f(%i0: i32[1], %i1: i32[4]) -> (%o2: i32[4], %o3: i32[10]) {
  nest i0 < 3 {
    v0: i32 = %i1[i0]
    %o2[i0] = v0
  }
  loop t < 10 {
    nest i1 < 3 {
      v0: i32 = %o2[i1]
      v1: i32 = add v0 1:i32
      %o2[i1] = v1
    }
    nest {
      v0: i32 = %i0[0]
      v1: i32 = max v0 0:i32
      v2: i32 = min v1 2:i32
      v3: i32 = %o2[v2]
      %o3[t] = v3
    }
  }
}
"""
    found = straight(text)
    assert found.count("nest {") == 3
    known = straight(text.replace("%o2[v2]", "%o2[1]"))
    assert known.count("nest {") == 2


def test_bodies_have_a_greatest_length() -> None:
    body = "".join(
        f"""    nest i{i} < 3 {{
      v0: i32 = %o1[i{i}]
      v1: i32 = mul v0 v0
      v2: i32 = add v1 {i}:i32
      v3: i32 = xor v2 v1
      %o1[i{i}] = v3
    }}
"""
        for i in range(1, 200)
    )
    text = PADDED.format(n=3, op="add v0 v0").replace("f64", "i32")
    head, tail = text.split("    nest i1", 1)
    end = tail.split("    }\n", 1)[1]
    function = parse(head + body + end)
    straighten(function)
    sizes = [len(nest.effects[0].nodes) for nest in function.body[1].body]  # type: ignore[union-attr]
    assert 2 <= len(sizes) <= 10
    assert max(sizes) <= MOST_NODES
    assert MOST_UNROLLED > MOST_NODES


# Programs with small arrays, and what they mean.

STEPS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "product": lambda c, m, t: c @ m,
    "product from the left": lambda c, m, t: m @ c,
    "transpose": lambda c, m, t: c.T - m,
    "rows": lambda c, m, t: c + m.sum(0),
    "columns": lambda c, m, t: c - (c * m).max(1, keepdims=True),
    "rolled": lambda c, m, t: jnp.roll(c, 1, 0) ^ m,
    "chosen row": lambda c, m, t: c + m[jnp.clip(c[0, 0], 0, 1)],
    "row of the step": lambda c, m, t: c.at[t % 2].add(m[0]),
    "changed": lambda c, m, t: c.at[0].set(m[1]),
    "element": lambda c, m, t: c.at[jnp.clip(m[0, 0], 0, 1), 1].add(3),
    "total": lambda c, m, t: c + c.sum(),
    "where": lambda c, m, t: jnp.where(c > m, c, m - t),
    "reversed": lambda c, m, t: c[::-1] * 3 - m[:, ::-1],
    "joined": lambda c, m, t: jnp.concatenate([c[1:], m[:1]]),
}


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 5),
    names=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4),
    how=st.sampled_from(("scan", "fori", "while", "reverse")),
    seed=st.integers(0, 9),
)
def test_loops_over_small_arrays_give_what_they_mean(
    n: int, names: list[str], how: str, seed: int
) -> None:
    def step(c: Any, m: Any, t: Any) -> Any:
        for name in names:
            c = STEPS[name](c, m, t)
        return c

    def run(c: Any, ms: Any) -> Any:
        if how == "fori":
            return lax.fori_loop(0, 5, lambda t, c: step(c, ms[t], t), c)
        if how == "while":
            return lax.while_loop(
                lambda s: (s[0] < 5) & (s[1][0, 0] != 77),
                lambda s: (s[0] + 1, step(s[1], ms[0], s[0])),
                (0, c),
            )
        return lax.scan(
            lambda s, m: ((step(s[0], m, s[1]), s[1] + 1), s[0]),
            (c, 0),
            ms,
            reverse=how == "reverse",
        )

    agree(run, (numbers(n, n, seed=seed), numbers(5, n, n, seed=seed + 1)))


# A vector of four that is faster as a vector, unless scalars have just stored its elements.
FOUR = """function f(%i0: f32[4]) -> (%o1: f32[4], %o2: f32[4]) {
  nest i0 < 4 {
    v0: f32 = %i0[i0]
    %o1[i0] = v0
  }
  loop t < 10 {
    nest {
      v0: f32 = %o1[0]
      v1: f32 = %o1[1]
      v2: f32 = mul v0 v1
      %o2[0] = v0
      %o2[1] = v1
      %o2[2] = v2
      %o2[3] = v0
    }
    nest i1 < 4 {
      v0: f32 = %FROM[i1]
      v1: f32 = mul v0 v0
      v2: f32 = mul v1 v0
      v3: f32 = add v1 v2
      v4: f32 = mul v3 v3
      v5: f32 = add v4 v0
      v6: f32 = mul v5 v5
      v7: f32 = add v6 v0
      %o1[i1] = v7
    }
  }
}
"""


@pytest.mark.parametrize(("source", "count"), [("o2", 1), ("o1", 2)])
def test_vectors_of_what_scalars_store(source: str, count: int) -> None:
    function = parse(FOUR.replace("FROM", source))
    straighten(function)
    check(function, "straight")
    (loop,) = [each for each in function.body if isinstance(each, Loop)]
    assert len(loop.body) == count
