"""Every elementary function: its error over the whole range, and its special values."""

from __future__ import annotations

import numpy as np
import pytest

from kiln.engines.native.elementary import EXPANSIONS, expand
from kiln.engines.native.llvm import assembly
from kiln.engines.native.llvm.target import FOR_LIBRARIES, LEVELS
from kiln.engines.native.loop_ir.scalars import BASIC, NUMPY_TYPES, Scope, postorder
from tests.unit.engines.native.elementary import references
from tests.unit.engines.native.elementary.references import CASES
from tests.unit.engines.native.object_file import undefined_symbols
from tests.unit.engines.native.vectors import EPILOGUE, compiled, loop_text

WIDTHS = {"f32": 16, "f64": 8}


def worst(name, dtype, n):
    """The largest error in ulp, and where."""
    case = CASES[name]
    run = compiled(EXPANSIONS[name], [dtype] * case.arity, WIDTHS[dtype])
    kind = NUMPY_TYPES[dtype]
    xs = references.arguments(case, kind.str, n)
    found = run(*xs)
    if dtype == "f32":
        wanted, low = references.in_f64(case, xs), 0.0
    else:
        wanted, low = references.in_mpmath(case, xs)
    errors = references.errors(found, wanted, low, case.floor)
    at = int(np.argmax(errors))
    return errors[at], [x[at] for x in xs], found[at], wanted[at]


@pytest.mark.parametrize("name", CASES)
def test_f32_is_within_its_bound(name):
    error, *where = worst(name, "f32", 40_000)
    # Where multiply-add rounds twice, a little more is lost.
    more = 0 if assembly.host_target().fma else 0.1
    assert error <= CASES[name].bounds[0] + more, where


@pytest.mark.parametrize("name", CASES)
def test_f64_is_within_its_bound(name):
    error, *where = worst(name, "f64", 300)
    assert error <= CASES[name].bounds[1], where


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_special_values_are_those_of_numpy(name, dtype):
    case, kind = CASES[name], NUMPY_TYPES[dtype]
    values = references.special(kind.str)
    xs = [values] if case.arity == 1 else [x.ravel() for x in np.meshgrid(values, values)]
    found = compiled(EXPANSIONS[name], [dtype] * case.arity, WIDTHS[dtype])(*xs)
    wanted = references.in_f64(case, xs)
    errors = references.errors(found, wanted, 0.0, case.floor)
    # NumPy's own f64 functions err by some ulp.
    assert (errors <= 6).all(), [(x[errors > 6], found[errors > 6]) for x in xs]
    with np.errstate(all="ignore"):
        zero = wanted.astype(kind) == 0
    if name not in ("erf_inv", "erf"):
        assert (np.signbit(found) == np.signbit(wanted))[zero].all()


@pytest.mark.parametrize("level", {**LEVELS, **FOR_LIBRARIES}.values(), ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", WIDTHS)
def test_expansions_are_basic_and_call_the_extension_only(dtype, level):
    text = []
    for i, (name, function) in enumerate(EXPANSIONS.items()):
        dtypes = [dtype] * CASES[name].arity
        scope = Scope()
        operands = [scope.node("parameter", dtype, (), k) for k in range(len(dtypes))]
        ops = {x.op for x in postorder([function(*operands)])}
        assert ops <= {*BASIC, "constant", "parameter", "rare", "of_runtime"}
        text.append(loop_text(level, function, dtypes, level.lanes(int(dtype[1:])), f"run{i}")[0])
    called = undefined_symbols(assembly.assemble("".join([*text, EPILOGUE]), level))
    assert sorted(called) == [f"kiln_{name}_{dtype}" for name in ("cos", "sin", "tan")]


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_halves_are_computed_in_f32(dtype):
    kind = NUMPY_TYPES[dtype]
    x = np.arange(1 << 16, dtype=np.uint16).view(kind)
    found = compiled(lambda x: expand(x.unary("tanh")), [dtype])(x)
    with np.errstate(all="ignore"):
        wanted = np.tanh(x.astype(np.float32)).astype(kind)
        steps = np.abs(found.view(np.int16).astype(int) - wanted.view(np.int16))
    assert (np.isnan(found.astype("f4")) == np.isnan(wanted.astype("f4"))).all()
    assert steps[~np.isnan(wanted.astype("f4"))].max() <= 1


def test_lanes_do_not_affect_each_other():
    # One huge argument sends the whole vector through the branch.
    x = np.linspace(-3, 3, 16, dtype=np.float32)
    run = compiled(EXPANSIONS["sin"], ["f32"])
    y = x.copy()
    y[5] = 1e30
    same = np.arange(16) != 5
    assert (run(x)[same] == run(y)[same]).all()


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("name", ["sin", "cos", "tan"])
def test_the_extension_reduces_large_numbers_and_nothing_that_is_not_finite(name, dtype):
    def leaves(x):
        (branch,) = [node for node in postorder([EXPANSIONS[name](x)]) if node.op == "rare"]
        one = x.scope.constant(1, dtype)
        return branch.operands[0].select(one, one - one)

    xs = np.array([0, 1, -3, 1e12, -1e30, np.inf, -np.inf, np.nan], NUMPY_TYPES[dtype])
    found = compiled(leaves, [dtype], WIDTHS[dtype])(np.tile(xs, 2))
    assert found[:8].tolist() == [0, 0, 0, 1, 1, 0, 0, 0]


def test_remainders_are_exact():
    rng = np.random.default_rng(0)
    for dtype, low, high in (("f32", -126, 127), ("f64", -1070, 1020)):
        kind = NUMPY_TYPES[dtype]
        x, y = (
            np.ldexp(rng.uniform(-2, 2, 20_000), rng.integers(low, high, 20_000)).astype(kind)
            for _ in range(2)
        )
        found = compiled(EXPANSIONS["rem"], [dtype] * 2, WIDTHS[dtype])(x, y)
        assert (found == np.fmod(x, y)).all()


def test_arguments_next_to_multiples_of_pi():
    # The f64 and the f32 nearest to an odd or even multiple of pi / 2, in proportion to its size.
    for dtype, x in (("f64", 6381956970095103.0 * 2.0**797), ("f32", 16367173.0 * 2.0**72)):
        for name in ("sin", "cos", "tan"):
            found = compiled(EXPANSIONS[name], [dtype], WIDTHS[dtype])(np.full(16, x))
            with references.mp.workprec(2000):
                exact = getattr(references.mp, name)(references.mp.mpf(x))
                error = float(abs(references.mp.mpf(float(found[0])) / exact - 1))
            assert error < 2 * float(np.finfo(NUMPY_TYPES[dtype]).eps), name
