"""Loops over elementwise bodies run block by block, where each element depends on itself alone."""

from __future__ import annotations

import re
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kiln
import kiln.numpy as jnp
from kiln import lax
from kiln.base.options.config import override
from kiln.engines.native.loop_ir.parse import parse
from kiln.engines.native.loop_ir.text import to_text
from kiln.engines.native.loop_ir.validity import check
from kiln.engines.native.passes.pipeline import PASSES
from kiln.engines.native.passes.sequential.interchange import FEWEST_ITERATIONS, interchange

LOOP = """function f(%i0: f32[200], %i1: f32[4]) -> (%o2: f32[200]) {
  nest i0 < 200 {
    v0: f32 = %i0[i0]
    %o2[i0] = v0
  }
  loop t < 9 {
    nest i1 < 200 {
      v0: f32 = %o2[i1]
      v1: f32 = mul v0 v0
      v2: f32 = %i1[0]
      v3: f32 = add v1 v2
      %o2[i1] = v3
    }
  }
}
"""
BLOCKS = """function f(%i0: f32[200], %i1: f32[4]) -> (%o2: f32[200]) {
  row %r3: f32[64]
  row %r4: f32[8]
  parallel b < 3 {
    nest j < 64 {
      v0: f32 = %i0[b*64 + j]
      %r3[j] = v0
    }
    loop t < 9 {
      nest j_1 < 64 {
        v0: f32 = %r3[j_1]
        v1: f32 = mul v0 v0
        v2: f32 = %i1[0]
        v3: f32 = add v1 v2
        %r3[j_1] = v3
      }
    }
    nest j_2 < 64 {
      v0: f32 = %r3[j_2]
      %o2[b*64 + j_2] = v0
    }
  }
  parallel b_1 < 1 {
    nest j_3 < 8 {
      v0: f32 = %i0[j_3 + 192]
      %r4[j_3] = v0
    }
    loop t < 9 {
      nest j_4 < 8 {
        v0: f32 = %r4[j_4]
        v1: f32 = mul v0 v0
        v2: f32 = %i1[0]
        v3: f32 = add v1 v2
        %r4[j_4] = v3
      }
    }
    nest j_5 < 8 {
      v0: f32 = %r4[j_5]
      %o2[j_5 + 192] = v0
    }
  }
}
"""
UNTIL = """function f(%i0: f32[200]) -> (%o1: f32[200]) {
  temp %t2: i1[1]
  nest i0 < 200 {
    v0: f32 = %i0[i0]
    %o1[i0] = v0
  }
  while %t2 {
    nest i1 < 200 {
      v0: f32 = %o1[i1]
      v1: i1 = lt v0 9.0:f32
      %t2[0] = or v1
    }
  } do {
    nest i2 < 200 {
      v0: f32 = %o1[i2]
      v1: i1 = lt v0 9.0:f32
      v2: f32 = add v0 v0
      v3: f32 = select v1 v2 v0
      %o1[i2] = v3
    }
  }
}
"""


def changed(text: str) -> str:
    """Return a function after the pass."""
    function = parse(text)
    interchange(function)
    check(function, "interchange")
    return to_text(function)


def test_a_loop_runs_block_by_block() -> None:
    assert changed(LOOP) == BLOCKS


def test_a_loop_that_runs_again_finds_its_elements() -> None:
    head, loop = LOOP.split("  loop t", 1)
    inner = loop.rsplit("}\n", 1)[0]
    indented = "\n".join("  " + line for line in ("  loop t" + inner).rstrip().split("\n"))
    again = f"""{head}  loop s < 5 {{
{indented}
  }}
  nest i7 < 200 {{
    v0: f32 = %o2[i7]
    %o3[i7] = v0
  }}
}}
""".replace("-> (%o2: f32[200])", "-> (%o3: f32[200])").replace(
        "{\n  nest i0", "{\n  temp %o2: f32[200]\n  nest i0", 1
    )
    for text in (again, again.replace("v0: f32 = %o2[i7]", "v0: f32 = %i0[i7]")):
        found = changed(text)
        assert found.count("parallel") == 2
        assert re.search(r"%t3\[b\*64 \+ j_\d\] = v0", found)


def test_a_part_that_the_loop_does_not_write_stays_in_memory() -> None:
    text = (
        LOOP.replace("%o2: f32[200]", "%o2: f32[400]")
        .replace("    %o2[i0] = v0", "    %o2[i0*2] = v0\n    %o2[i0*2 + 1] = v0")
        .replace("%o2[i1]", "%o2[i1*2]")
    )
    found = changed(text)
    assert "  nest i0 < 200" in found
    assert found.count("parallel") == 2


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_body_that_does_not_run_keeps_what_it_would_only_write(count: int) -> None:
    def run(count: Any, x: Any, w: Any) -> Any:
        return lax.while_loop(
            lambda s: s[0] < count,
            lambda s: (s[0] + 1, s[1] * 2 + 1, s[1] * 3),
            # A kernel writes the second array, so its first elements are not computed in blocks.
            (jnp.int32(0), x.reshape(-1), (x @ w).reshape(-1)),
        )

    x = np.arange(400, dtype=np.float32).reshape(20, 20) % 7
    w = np.eye(20, dtype=np.float32)[::-1].copy()
    made, last = x.reshape(-1), (x @ w).reshape(-1)
    for _ in range(count):
        made, last = made * 2 + 1, made * 3
    with override(engine="native", check=True):
        compiled = kiln.jit(run).lower(np.int32(count), x, w)
    assert "parallel" in compiled.as_text("loops")
    _, *found = compiled.compile()(np.int32(count), x, w)
    np.testing.assert_array_equal(found[0], made)
    np.testing.assert_array_equal(found[1], last)


def test_what_only_an_earlier_loop_read_is_not_kept() -> None:
    # `%t3` is in rows during the first loop: the second one would find nothing to keep.
    text = LOOP.replace(
        "  nest i0", "  temp %t3: f32[200]\n  temp %t4: i1[1]\n  temp %t5: i32[1]\n  nest i0"
    )
    text = text.replace(
        "nest i1 < 200 {",
        "nest i2 < 200 {\n v0: f32 = %o2[i2]\n %t3[i2] = v0\n }\n nest i1 < 200 {",
    )
    text = text.replace(
        "      v1: f32 = mul v0 v0", "      v9: f32 = %t3[i1]\n      v1: f32 = mul v0 v9"
    )
    last = """  nest { %t5[0] = 0:i32 }
  while %t4 {
    nest {
      v0: i32 = %t5[0]
      v1: i1 = lt v0 9:i32
      %t4[0] = v1
    }
  } do {
    nest i3 < 200 {
      v0: f32 = %i0[i3]
      %t3[i3] = v0
    }
    nest {
      v0: i32 = %t5[0]
      v1: i32 = add v0 1:i32
      %t5[0] = v1
    }
  }
}
"""
    function = parse(
        text.rstrip().removesuffix("}") + last.replace("{ %t5[0] = 0:i32 }", "{\n%t5[0] = 0:i32\n}")
    )
    interchange(function)
    check(function, "interchange")
    assert "%t3" not in to_text(function)


def test_an_operand_that_is_donated_is_overwritten_at_the_end() -> None:
    def run(x: Any) -> Any:
        return lax.fori_loop(0, 9, lambda t, y: y * 0.5 + x, x)

    x = np.arange(1000, dtype=np.float32)
    expected = np.asarray(kiln.jit(run)(x))
    found = kiln.jit(lambda y: run(y), donate_argnums=0)(jnp.asarray(x))
    np.testing.assert_array_equal(found, expected)


def test_loops_that_stop_by_element_stop_by_block() -> None:
    found = changed(UNTIL)
    assert found.count("parallel") == 2
    assert found.count("row %") == 4


OTHERS = {
    "few iterations": LOOP.replace("t < 9", f"t < {FEWEST_ITERATIONS - 1}"),
    "few elements": LOOP.replace("200", "100"),
    "a neighbor": LOOP.replace("v0: f32 = %o2[i1]", "v0: f32 = %o2[i1*-1 + 199]"),
    "one element": LOOP.replace("v2: f32 = %i1[0]", "v2: f32 = %o2[0]"),
    "a row per iteration": LOOP.replace("%i0: f32[200]", "%i0: f32[1800]").replace(
        "%i1[0]", "%i0[t*200 + i1]"
    ),
    "a result per iteration": LOOP.replace("%o2: f32[200]", "%o2: f32[2000]").replace(
        "%o2[i1] =", "%o2[t*200 + i1 + 200] ="
    ),
    "a sum": LOOP.replace("%o2[i1] = v3", "%o2[0] = add v3"),
    "a masked store": LOOP.replace("%o2[i1] = v3", "v4: i1 = lt v3 v0\n      %o2[i1] = v3 if v4"),
    "stops by another condition": UNTIL.replace(
        "lt v0 9.0:f32\n      v2", "lt v0 8.0:f32\n      v2"
    ),
    "changes all": UNTIL.replace("select v1 v2 v0", "select v1 v0 v2"),
    "stops by all": UNTIL.replace("= or v1", "= and v1"),
}


@pytest.mark.parametrize("text", OTHERS.values(), ids=OTHERS)
def test_other_loops_stay(text: str) -> None:
    assert text not in (LOOP, UNTIL)
    assert changed(text) == to_text(parse(text))


@settings(max_examples=12, deadline=None)
@given(
    n=st.integers(100, 300),
    dtype=st.sampled_from(("float32", "complex64", "int32")),
    how=st.sampled_from(("scan", "fori", "while", "each")),
    threads=st.sampled_from((1, 2)),
    parts=st.lists(st.sampled_from(("square", "shift", "count", "roll", "given")), max_size=3),
)
def test_blocks_have_the_same_bits(
    n: int, dtype: str, how: str, threads: int, parts: list[str]
) -> None:
    def step(x: Any, c: Any, k: Any, t: Any) -> Any:
        x = jnp.where(k < 7, x / 2 + c if dtype != "int32" else x - c, x)
        for part in parts:
            if part == "square":
                x = jnp.where(abs(x) < 4, x * x, x)
            elif part == "shift":
                x = x + t.astype(dtype)
            elif part == "roll":
                x = jnp.roll(x, 1)
            elif part == "given":
                x = x - c[0]
        return x, k + (abs(x) < 3)

    def run(x: Any, c: Any) -> Any:
        k = jnp.zeros(x.shape, "int32")
        if how == "scan":
            return lax.scan(lambda s, t: (step(s[0], c, s[1], t), None), (x, k), jnp.arange(6))[0]
        if how == "fori":
            return lax.fori_loop(0, 6, lambda t, s: step(s[0], c, s[1], jnp.int32(t)), (x, k))
        if how == "while":
            return lax.while_loop(
                lambda s: s[2] < 6, lambda s: (*step(s[0], c, s[1], s[2]), s[2] + 1), (x, k, 0)
            )
        return kiln.vmap(
            lambda x, c: lax.while_loop(
                lambda s: (s[1] < 6) & (abs(s[0]) < 50),
                lambda s: (s[0] * 2 + c, s[1] + 1),
                (x, 0),
            )
        )(x, c)

    rng = np.random.default_rng(n)
    operands = [rng.integers(-3, 4, n).astype(dtype) for _ in range(2)]
    if dtype == "complex64":
        operands = [x + 1j * rng.integers(-3, 4, n).astype("float32") for x in operands]
    with override(engine="native", check=True):
        found = kiln.tree.leaves(kiln.jit(run, threads=threads)(*operands))
        with patch.dict(PASSES, interchange=lambda function: None):
            # Another result, so that this is another program.
            expected = kiln.tree.leaves(kiln.jit(lambda *args: (run(*args), 1))(*operands))
    for a, b in zip(found, expected[:-1], strict=True):
        np.testing.assert_array_equal(a, b)
