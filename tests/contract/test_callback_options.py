"""Section 13.6: what callbacks are told beside functions and arguments, and in which forms."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, sharding
from kiln.experimental import io_callback
from tests.contract.marks import contract

P = sharding.PartitionSpec
SCALAR = kiln.ShapeDtypeStruct((), np.float32)
X = np.arange(8, dtype=np.float32)
ENGINES = ["", "xla"]


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run programs on each engine."""
    before = kiln.config.read("engine")
    kiln.config.update("engine", request.param)
    yield request.param
    kiln.config.update("engine", before)


def spread() -> Any:
    mesh = sharding.make_mesh((8,), ("d",))
    return sharding.NamedSharding(mesh, P("d"))


@contract("13.6")
def test_options_may_be_given_apart(capsys: pytest.CaptureFixture[str], engine: str) -> None:
    def fun(x: Any) -> None:
        kiln.debug.print(ordered=True)("x = {x}, {}", "text", x=x)
        kiln.debug.callback(ordered=True)(lambda v, ordered: print(v, ordered), x, ordered=3)
        kiln.debug.print("x = {}", x, ordered=True)

    kiln.jit(fun)(1.0)
    kiln.effects_barrier()
    assert capsys.readouterr().out == "x = 1.0, text\n1.0 3\nx = 1.0\n"


@contract("13.6")
def test_arguments_belong_to_the_second_call() -> None:
    for call in (kiln.debug.print, kiln.debug.callback):
        with pytest.raises(TypeError, match="two-call form"):
            call(x=3)
        with pytest.raises(TypeError):
            call(3, 4)


@contract("13.6")
def test_partitioned_callbacks_see_the_part_of_each_device(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[Any] = []

    def fun(x: Any) -> Any:
        kiln.debug.callback(lambda v: seen.append(np.array(v).tolist()), x, partitioned=True)
        kiln.debug.print("{}", x * 2, partitioned=True)
        return x

    kiln.jit(fun)(kiln.device_put(X, spread()))
    kiln.effects_barrier()
    assert sorted(seen) == [[x] for x in X]
    assert sorted(capsys.readouterr().out.split("\n")[:-1]) == sorted(f"[{2 * x:.0f}.]" for x in X)
    kiln.jit(fun)(X), fun(X)
    kiln.effects_barrier()
    assert seen[8:] == [X.tolist()] * 2


@contract("13.6")
def test_prints_follow_numpys_options_of_where_they_are_recorded(
    capsys: pytest.CaptureFixture[str], engine: str
) -> None:
    fun = kiln.jit(lambda x: kiln.debug.print("{}", x))
    x = np.array([1.23456, 2.0], np.float32)
    with np.printoptions(precision=2):
        fun(x)
        kiln.effects_barrier()
    fun(x)
    kiln.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.  ]\n" * 2


@contract("13.6")
def test_fresh_functions_follow_their_own_options(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.array([1.23456, 2.0], np.float32)
    for digits in (2, 3):
        with np.printoptions(precision=digits):
            kiln.jit(lambda x: kiln.debug.print("{}", x))(x)
            kiln.effects_barrier()
    assert capsys.readouterr().out == "[1.23 2.  ]\n[1.235 2.   ]\n"


@contract("13.6")
def test_formats_need_not_be_checked(capsys: pytest.CaptureFixture[str]) -> None:
    kiln.debug.print("values:", 1, X[:2], skip_format_check=True)
    kiln.debug.print("{{}} {}", 1)
    assert capsys.readouterr().out == "values: 1 [0. 1.]\n{} 1\n"


@contract("13.6")
def test_lines_are_logged(caplog: pytest.LogCaptureFixture, engine: str) -> None:
    with caplog.at_level(logging.INFO, "kiln.debug"):
        kiln.jit(lambda x: kiln.debug.log("x = {}", x))(1.0)
        kiln.debug.log(ordered=True)("y = {y}", y=2)
        kiln.effects_barrier()
    assert [record.getMessage() for record in caplog.records] == ["x = 1.0", "y = 2"]
    assert all(record.pathname == __file__ for record in caplog.records)


@contract("13.6")
def test_the_device_that_calls_may_be_named(engine: str) -> None:
    first = sharding.SingleDeviceSharding(kiln.devices()[0])
    for call in (kiln.pure_callback, io_callback):
        fun = kiln.jit(lambda x, call=call: call(lambda v: v + 1, SCALAR, x, sharding=first))
        assert float(fun(1.0)) == 2.0
        with pytest.raises(NotImplementedError, match="only supports SingleDeviceSharding"):
            call(lambda v: v, SCALAR, 1.0, sharding=spread())


@contract("13.6")
def test_unmapped_arguments_as_they_are() -> None:
    shapes: list[Any] = []

    def host(x: Any, y: Any) -> Any:
        shapes.append((x.shape, y.shape))
        return np.asarray(x) + np.asarray(y)

    fun = kiln.vmap(
        lambda x, y: kiln.pure_callback(host, SCALAR, x, y, vmap_method="legacy_vectorized"),
        (0, None),
    )
    np.testing.assert_array_equal(fun(X, 1.0), X + 1)
    assert shapes == [((8,), ())]


@contract("13.6")
def test_64_bit_results_have_to_be_enabled() -> None:
    wide = kiln.ShapeDtypeStruct((), np.int64)
    for call in (kiln.pure_callback, io_callback):
        with pytest.raises(ValueError, match="cannot specify 64-bit types"):
            call(lambda: 3, wide)
        with kiln.enable_x64(True):
            assert call(lambda: np.int64(3), wide).dtype == np.int64


@contract("13.6")
def test_ordered_calls_of_members_run_once_for_each() -> None:
    seen: list[float] = []

    def member(x: Any) -> Any:
        io_callback(lambda v: seen.append(float(v[0])), None, x, ordered=True)
        kiln.debug.callback(lambda v: seen.append(-float(v[0])), x, ordered=True)
        return x

    fun = kiln.shard_map(member, mesh=spread().mesh, in_specs=P("d"), out_specs=P("d"))
    for run in (kiln.jit(fun), fun):
        seen.clear()
        np.testing.assert_array_equal(run(X), X)
        kiln.effects_barrier()
        assert seen == [*X, *-X]


@contract("13.6")
def test_results_are_checked_in_every_kind_of_program(engine: str) -> None:
    def calls(result: Any) -> list[Any]:
        host = lambda v: result
        return [
            lambda x: kiln.pure_callback(host, SCALAR, x),
            lambda x: io_callback(host, SCALAR, x),
            lambda x: io_callback(host, SCALAR, x, ordered=True),
        ]

    wrong = {
        "Expected: (), Actual: (3,)": np.zeros(3, np.float32),
        "Expected: float32, Actual: int32": np.int32(1),
        "returned 2 values": (np.float32(1), np.float32(1)),
        "returned 0 values": None,
    }
    for text, result in wrong.items():
        for call in calls(result):
            scanned = lambda x, f=call: lax.scan(lambda c, _: (f(c), None), x, None, length=3)[0]
            for fun in (kiln.jit(call), kiln.jit(scanned), call):
                with pytest.raises(RuntimeError) as caught:
                    np.asarray(fun(jnp.float32(1.0))), kiln.effects_barrier()
                assert text in str(caught.value)
                assert len(str(caught.value.__cause__ or caught.value).splitlines()) == 3
