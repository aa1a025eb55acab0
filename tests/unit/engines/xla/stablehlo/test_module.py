"""Programs to StableHLO: what the text is, and what compiled text computes."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.base.dtypes.kinds import KeyDtype
from kiln.base.errors import CheckError, UnsupportedPrimitive
from kiln.core.engines.engine import Program
from kiln.core.primitive import Primitive
from kiln.core.staging import stage
from kiln.engines.xla.lowerings import LOWERINGS
from kiln.engines.xla.stablehlo.module import lower
from kiln.ops.elements import elementwise as ops
from kiln.ops.shape import reduce_sum
from tests.unit.engines.xla.programs import XLA, aval, compiled, one_equation, run

INT = aval(dtype=np.int32)


def test_a_program_as_text():
    jaxpr, _ = stage(
        lambda x, y: [ops.sin(ops.add(x, ops.mul(y, np.float32(2)))), x], [aval(3), aval()]
    )
    assert lower(jaxpr, "f", LOWERINGS).text.splitlines() == [
        "module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {",
        (
            "  func.func public @main(%arg0: tensor<3xf32>, %arg1: tensor<f32>)"
            " -> (tensor<3xf32>, tensor<3xf32>) {"
        ),
        "    %0 = stablehlo.constant dense<2.0> : tensor<f32>",
        "    %1 = stablehlo.multiply %arg1, %0 : tensor<f32>",
        "    %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<3xf32>",
        "    %3 = stablehlo.add %arg0, %2 : tensor<3xf32>",
        "    %4 = stablehlo.sine %3 : tensor<3xf32>",
        "    return %4, %arg0 : tensor<3xf32>, tensor<3xf32>",
        "  }",
        "}",
    ]
    out, same = run(
        XLA.compiler.compile(Program(jaxpr, "f")), np.zeros(3, np.float32), np.float32(1)
    )
    assert out == pytest.approx(np.full(3, np.sin(2)), rel=1e-6)
    assert same.tolist() == [0, 0, 0]


def test_programs_without_equations_inputs_or_outputs():
    for fun, ins, expected in (
        (list, [], []),
        (lambda x: [], [aval(2)], []),
        (lambda: [np.float32(3), True], [], [3.0, True]),
        (lambda x: [x, x], [aval(2)], [[0, 0], [0, 0]]),
    ):
        jaxpr, _ = stage(fun, ins)
        outs = run(
            XLA.compiler.compile(Program(jaxpr, "f")), *[np.zeros(a.shape, np.float32) for a in ins]
        )
        assert [out.tolist() for out in outs] == expected


def test_equal_programs_give_equal_texts_without_locations():
    def staged():
        return stage(lambda x: [ops.sin(x)], [aval(3)])[0]

    assert lower(staged(), "f", LOWERINGS).text == lower(staged(), "f", LOWERINGS).text
    assert "loc(" not in lower(staged(), "f", LOWERINGS).text
    located = lower(staged(), "f", LOWERINGS, locations=True).text
    assert f'loc("{__file__}":' in located


def test_donated_inputs_name_their_output():
    jaxpr, _ = stage(lambda x, y: [ops.add(x, y)], [aval(3), aval(3)])
    assert (
        "%arg1: tensor<3xf32> {tf.aliasing_output = 0 : i32}"
        in lower(jaxpr, "f", LOWERINGS, aliases={1: 0}).text
    )


def test_a_jaxpr_called_twice_is_written_once():
    inner, _ = stage(lambda x, y: [ops.add(x, y), ops.mul(x, y)], [aval(3), aval(3)])
    other, _ = stage(lambda x: [ops.neg(x)], [aval(3)])

    def lowering(b, out, x):
        y, z = b.call(inner, [x, x], "my fn")
        y, z = b.call(inner, [y, z], "my fn")
        return [*b.call(other, [y], "my fn"), z]

    executable = compiled(lowering, [aval(3)], [aval(3), aval(3)])
    text = executable.as_text("stablehlo")
    assert text.count("func.func private @my_fn(") == 1
    assert text.count("func.call @my_fn(") == 2
    assert text.count("func.func private @my_fn_1(") == 1
    y, z = run(executable, np.full(3, 2, np.float32))
    assert y.tolist() == [-8] * 3
    assert z.tolist() == [16] * 3


class Expanded(Primitive):
    name = "expanded"
    traced = 0

    def expand(self, x, *, k):
        type(self).traced += 1
        return ops.add(ops.sin(x), np.float32(k))


def test_expand_stands_in_for_a_lowering_and_is_traced_once():
    primitive = Expanded()

    def twice(b, out, x):
        y = b.lower_fun(primitive.expand, x, k=2)
        return [b.lower_fun(primitive.expand, y, k=2)]

    x = np.ones(3, np.float32)
    once = run(XLA.compiler.compile(one_equation(primitive, [aval(3)], [aval(3)], k=2)), x)[0]
    assert once == pytest.approx(np.sin(x) + 2)
    Expanded.traced = 0
    assert run(compiled(twice, [aval(3)], [aval(3)]), x)[0] == pytest.approx(np.sin(once) + 2)
    assert Expanded.traced == 1


def test_kiln_functions_are_lowered_with_what_they_close_over():
    table = np.arange(3, dtype=np.float32)

    def fun(x, y):
        return [ops.mul(ops.add(x, y), table), reduce_sum(x, (0,))]

    executable = compiled(
        lambda b, out, x, y: b.lower_fun(fun, x, y), [aval(3), aval()], [aval(3), aval()]
    )
    product, total = run(executable, np.ones(3, np.float32), np.float32(1))
    assert product.tolist() == [0, 2, 4]
    assert total == 3


def test_a_missing_lowering_names_primitive_and_line():
    with pytest.raises(
        UnsupportedPrimitive, match=r"unknown: operands float32\[3\] at .*\n.*no low"
    ):
        XLA.compiler.compile(one_equation(Primitive("unknown"), [aval(3)], [aval(3)]))


def test_a_lowering_with_a_wrong_result_is_named():
    with pytest.raises(CheckError, match=r"lowering test .*\nit returned float32\[3\] where"):
        compiled(lambda b, out, x: [x], [aval(3)], [aval(4)])
    with pytest.raises(CheckError, match="lowering test"):
        compiled(lambda b, out, x: [x, x], [aval(3)], [aval(3)])


def test_reductions_have_their_own_constants():
    def lowering(b, out, x):
        b.constant(2, aval())
        start = b.constant(0, aval())

        def body(inner, p, q):
            return [inner.apply("add", p, inner.apply("multiply", q, inner.constant(2, aval())))]

        return b.reduce([x], [start], [1], body)

    (out,) = run(compiled(lowering, [aval(2, 3)], [aval(2)]), np.ones((2, 3), np.float32))
    assert out.tolist() == [6, 6]


def test_while_loops():
    def lowering(b, out, n):
        one = b.constant(1, INT)
        return b.while_loop(
            lambda b, i, total: b.compare("LT", i, n),
            lambda b, i, total: [b.apply("add", i, one), b.apply("add", total, i)],
            [b.constant(0, INT), b.constant(0, INT)],
        )

    i, total = run(compiled(lowering, [INT], [INT, INT]), np.int32(5))
    assert (i, total) == (5, 10)


@pytest.mark.parametrize(("index", "expected"), [(0, 2), (1, 9), (2, 4), (7, 4), (-1, 4)])
def test_case_takes_the_last_branch_when_out_of_range(index, expected):
    def lowering(b, out, i, x):
        return b.case(
            i,
            [
                lambda b: [b.apply("add", x, b.constant(-1, INT))],
                lambda b: [b.apply("multiply", x, x)],
                lambda b: [b.apply("add", x, b.constant(1, INT))],
            ],
            [INT],
        )

    (out,) = run(compiled(lowering, [INT, INT], [INT]), np.int32(index), np.int32(3))
    assert out == expected


def test_keys_move_like_numbers():
    key = KeyDtype("fry")

    def lowering(b, out, k):
        back = b.op("stablehlo.reverse", [k], k.aval, "dimensions = array<i64: 0>")
        same = LOWERINGS[ops.eq_p](b, [aval(3, dtype=np.bool_)], k, back)
        return [
            b.transpose(b.broadcast(k, out[0].with_(shape=(3, 2)), (0,)), (1, 0)),
            b.slice(k, [1], [3]),
            LOWERINGS[ops.select_n_p](b, [k.aval], same, b.constant(7, k.aval), k),
            same,
        ]

    outs = [*[aval(*s, dtype=key) for s in ((2, 3), (2,), (3,))], aval(3, dtype=np.bool_)]
    data = np.array([1, 2**63, 3], np.uint64)
    got = run(compiled(lowering, [aval(3, dtype=key)], outs), data)
    assert (got[0] == data[None]).all()
    assert (got[1] == data[1:]).all()
    assert got[2].tolist() == [7, 2**63, 7]
    assert got[3].tolist() == [False, True, False]


def test_every_operation_of_the_writer():
    def lowering(b, out, x, y):
        wide = b.broadcast(x, aval(2, 3), [1])
        return [
            b.pad(x, b.constant(9, aval()), [(1, -1, 1)]),
            b.slice(wide, [0, 1], [2, 3], [1, 2]),
            b.convert(b.iota(aval(2, 2, dtype=np.int32), 1), np.float32),
            b.bitcast(x, np.int32),
            b.compare("GE", x, b.fill(y, (3,))),
            b.select(b.compare("LT", x, b.like(1, x)), x, b.fill(y, (3,))),
            b.reduce_with("maximum", wide, -np.inf, [0, 1]),
        ]

    outs = [
        aval(5),
        aval(2, 1),
        aval(2, 2),
        aval(3, dtype=np.int32),
        aval(3, dtype=np.bool_),
        aval(3),
        aval(),
    ]
    x = np.array([0, 1, 2], np.float32)
    got = run(compiled(lowering, [aval(3), aval()], outs), x, np.float32(1))
    assert [g.tolist() for g in got] == [
        [9, 0, 9, 1, 9],
        [[1], [1]],
        [[0, 1], [0, 1]],
        x.view(np.int32).tolist(),
        [False, True, True],
        [0, 1, 1],
        2,
    ]
