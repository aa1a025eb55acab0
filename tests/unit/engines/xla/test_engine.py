"""Programs with effects: host callbacks, their order, what happens when they fail."""

from __future__ import annotations

import threading

import ml_dtypes
import numpy as np
import pytest

from kiln.base.errors import CheckError, JaxRuntimeError
from kiln.ir.effects import DEBUG, DEBUG_ORDERED
from tests.unit.engines.xla.programs import XLA, aval, compiled, run

INT = aval(dtype=np.int32)
ORDERED = frozenset([DEBUG_ORDERED])


THREE = (aval(3),)


def pure(fn, *, ins=THREE, outs=THREE):
    return compiled(lambda b, out, *xs: b.callback(fn, xs, out, pure=True), ins, outs)


@pytest.mark.parametrize(
    "dtype", [np.float32, np.float64, np.bool_, np.complex64, ml_dtypes.bfloat16, ml_dtypes.int4]
)
def test_callbacks_get_and_return_arrays(dtype):
    seen = []

    def fn(x):
        seen.append(x)
        return [x[::-1]]

    kind = aval(2, dtype=dtype)
    value = np.array([0, 1]).astype(dtype)
    assert (run(pure(fn, ins=[kind], outs=[kind]), value)[0] == value[::-1]).all()
    # A copy: XLA takes its own memory back after the call.
    assert seen[0].flags.owndata
    assert seen[0].dtype == value.dtype


def test_results_of_the_wrong_type_are_refused():
    for result, wrong in (
        ([np.zeros(2, np.float32)], r"output shape for return value #0: Expected: \(3,\)"),
        ([np.zeros(3, np.int32)], "output dtype for return value #0: Expected: float32"),
        ([], "returned 0 values"),
        (None, "returned 0 values"),
    ):
        with pytest.raises(JaxRuntimeError, match=wrong):
            run(pure(lambda x, result=result: result), np.zeros(3, np.float32))


def test_wide_host_results_are_narrowed():
    assert run(pure(lambda x: [np.ones(3, np.float64)]), np.zeros(3, np.float32))[0].sum() == 3


def test_the_users_exception_is_the_cause():
    def fail(x):
        raise KeyError("mine")

    with pytest.raises(JaxRuntimeError, match="KeyError: 'mine'") as caught:
        run(pure(fail), np.zeros(3, np.float32))
    assert isinstance(caught.value.__cause__, KeyError)


def test_effects_happen_without_results():
    seen = []
    executable = compiled(
        lambda b, out, x: b.callback(lambda v: seen.append(int(v)), [x], []),
        [INT],
        [],
        frozenset([DEBUG]),
    )
    for i in range(20):
        assert executable([XLA.memory.put(np.array(i, np.int32))]) == []
    XLA.barrier()
    assert sorted(seen) == list(range(20))


def test_ordered_effects_keep_their_order_across_programs_and_regions():
    seen = []

    def note(b, *xs):
        b.callback(lambda *vs: seen.append([int(v) for v in vs]), xs, [], ordered=True)

    def lowering(b, out, n):
        def cond(b, i):
            note(b, i, b.constant(-1, INT))
            return b.compare("LT", i, n)

        def body(b, i):
            def branch(mark):
                return lambda b: note(b, i, b.constant(mark, INT)) or []

            odd = b.apply("and", i, b.constant(1, INT))
            b.case(odd, [branch(0), branch(1)], [], ordered=True)
            return [b.apply("add", i, b.constant(1, INT))]

        start = [b.constant(0, INT)]
        return b.while_loop(cond, body, start, ordered=True, ordered_cond=True)

    executable = compiled(lowering, [INT], [INT], ORDERED)
    once = [[0, -1], [0, 0], [1, -1], [1, 1], [2, -1], [2, 0], [3, -1]]
    for _ in range(5):
        assert run(executable, np.int32(3))[0] == 3
    XLA.barrier()
    assert seen == once * 5


def test_an_undeclared_ordered_effect_is_an_error():
    def lowering(b, out, n):
        def body(b, i):
            b.callback(lambda v: None, [i], [], ordered=True)
            return [i]

        return b.while_loop(lambda b, i: b.compare("LT", i, n), body, [n])

    with pytest.raises(CheckError, match="not declared ordered"):
        compiled(lowering, [INT], [INT], ORDERED)


def test_a_failed_ordered_program_does_not_spoil_the_next():
    def fail(x):
        if x:
            raise ValueError("mine")

    executable = compiled(
        lambda b, out, x: b.callback(fail, [x], [], ordered=True), [INT], [], ORDERED
    )

    def call(i):
        executable([XLA.memory.put(np.array(i, np.int32))])
        XLA.barrier()

    with pytest.raises(JaxRuntimeError, match="mine"):
        call(1)
    call(0)


def test_a_callback_may_run_programs():
    add = compiled(lambda b, out, x: [b.apply("add", x, x)], [aval(3)], [aval(3)])
    outer = pure(lambda x: run(add, x))
    assert run(outer, np.ones(3, np.float32))[0].tolist() == [2, 2, 2]


def test_programs_with_callbacks_do_not_serialize():
    with pytest.raises(ValueError, match="1 Python functions"):
        pure(lambda x: [x]).serialize()


def test_many_threads_run_one_executable():
    double = compiled(lambda b, out, x: [b.apply("add", x, x)], [aval(3)], [aval(3)])
    wrong = []

    def work(i):
        for _ in range(50):
            if run(double, np.full(3, i, np.float32))[0].tolist() != [2 * i] * 3:
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
