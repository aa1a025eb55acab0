"""What jax's numbers alone do not say of variates: programs, derivatives, distributions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import kiln
import kiln.numpy as jnp
from kiln import lax, random
from kiln.base.options.config import override
from kiln.execution.compilation import on_compile

DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda k: random.uniform(k, (3,), minval=-1),
    "normal": lambda k: random.normal(k, (3,)),
    "randint": lambda k: random.randint(k, (3,), 0, 9),
    "categorical": lambda k: random.categorical(k, jnp.zeros(4), shape=(3,)),
    "permutation": lambda k: random.permutation(k, 5),
    "gamma": lambda k: random.gamma(k, 0.5, (3,)),
    "poisson": lambda k: random.poisson(k, 20.0, (3,)),
}


DRAWN_BY_INVERSION: dict[str, Callable[[Any, str], Any]] = {
    "uniform": lambda k, d: random.uniform(k, (), d),
    "normal": lambda k, d: random.normal(k, (), d),
    "truncated_normal": lambda k, d: random.truncated_normal(k, -2.0, 2.0, (), d),
    "lognormal": lambda k, d: random.lognormal(k, 1.0, (), d),
    "laplace": lambda k, d: random.laplace(k, (), d),
    "logistic": lambda k, d: random.logistic(k, (), d),
    "gumbel": lambda k, d: random.gumbel(k, (), d),
    "precise gumbel": lambda k, d: random.gumbel(k, (), d, mode="high"),
    "cauchy": lambda k, d: random.cauchy(k, (), d),
    "exponential": lambda k, d: random.exponential(k, (), d),
    "weibull_min": lambda k, d: random.weibull_min(k, 1.0, 2.0, (), d),
    "pareto": lambda k, d: random.pareto(k, 2.0, (), d),
    "maxwell": lambda k, d: random.maxwell(k, (), d),
    "double_sided_maxwell": lambda k, d: random.double_sided_maxwell(k, 0.0, 1.0, (), d),
    "triangular": lambda k, d: random.triangular(k, 0.0, 0.5, 1.0, (), d),
    "wald": lambda k, d: random.wald(k, 1.0, (), d),
}


@pytest.fixture
def drawn_bits(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function after which all random bits are equal."""

    def set_to(ones: bool) -> None:
        def bits(key: Any, width: int, shape: Any) -> Any:
            return jnp.full(shape, 2**width - 1 if ones else 0, f"uint{width}")

        monkeypatch.setattr(sys.modules["kiln.random.uniform"], "random_bits", bits)

    return set_to


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("ones", [False, True])
def test_the_outermost_bits_give_finite_variates(
    drawn_bits: Callable[[bool], None], ones: bool, dtype: str
) -> None:
    drawn_bits(ones)
    with kiln.disable_jit():
        found = {n: float(draw(random.key(0), dtype)) for n, draw in DRAWN_BY_INVERSION.items()}
    assert [name for name, x in found.items() if not np.isfinite(x)] == []
    size = float(jnp.finfo(dtype).epsneg)
    # The least uniform number is -1 + epsneg; the greatest is three such steps below 1.
    expected = float(np.log(3 * size)) if ones else -float(np.log(size))
    assert found["laplace"] == pytest.approx(expected, rel=0.01)


def test_the_printed_selu() -> None:
    def selu(x: Any, alpha: float = 1.67, lmbda: float = 1.05) -> Any:
        return lmbda * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)

    x = random.normal(random.PRNGKey(0), (10,))
    printed = """
        -0.54485 0.27744 -0.29255 -0.91421 -0.62452 -0.24748 -0.85743 -0.78232 0.76827 0.59566
    """
    np.testing.assert_allclose(kiln.jit(selu)(x), np.array(printed.split(), float), atol=1e-5)


def test_the_other_layout() -> None:
    with kiln.threefry_partitionable(True):
        found = random.normal(random.key(0), (10,))
    np.testing.assert_allclose(found[:3], [1.6226422, 2.0252647, -0.4335944], rtol=1e-6)


def test_a_jitted_function_follows_the_layout() -> None:
    draw = kiln.jit(lambda k: random.uniform(k))
    key = random.key(1)
    plain = draw(key)
    with kiln.threefry_partitionable(True):
        other = draw(key)
        assert other == random.uniform(key)
    assert plain == draw(key) == random.uniform(key) != other


@pytest.mark.parametrize("name", ["uniform", "normal", "permutation"])
def test_one_call_is_one_program(name: str) -> None:
    key = random.key(np.int32(11))
    compiled: list[str] = []
    stop = on_compile(lambda what, seconds: compiled.append(what))
    with override(engine="xla"):
        kiln.clear_caches()
        DRAWS[name](key)
        DRAWS[name](key)
    stop()
    assert len(compiled) == 1


@pytest.mark.parametrize("name", DRAWS)
def test_jit_and_eager_agree(name: str) -> None:
    key = random.key(2)
    with override(engine="reference"):
        np.testing.assert_array_equal(kiln.jit(DRAWS[name])(key), DRAWS[name](key))


def test_under_a_trace_the_equations_stand_in_the_open() -> None:
    text = str(kiln.make_jaxpr(lambda k: random.normal(k, (3,)))(random.key(0)))
    assert "random_bits[bit_width=32 shape=(3,)] a" in text
    assert "jit" not in text


@pytest.mark.parametrize(
    "fun",
    [
        lambda k, x: random.uniform(k, (), minval=x, maxval=3.0),
        lambda k, x: random.truncated_normal(k, -x, x, (3,)).sum(),
        lambda k, x: random.pareto(k, x),
        lambda k, x: random.weibull_min(k, x, x),
        lambda k, x: random.multivariate_normal(k, x * jnp.ones(2), x * jnp.eye(2)).sum(),
    ],
)
def test_reparametrized_gradients_are_finite_differences(fun: Callable[..., Any]) -> None:
    with override(engine="reference", enable_x64=True):
        key, x, h = random.key(5), jnp.asarray(1.3), 1e-5
        numeric = (fun(key, x + h) - fun(key, x - h)) / (2 * h)
        found = kiln.grad(fun, 1)(key, x)
        assert found == kiln.jit(kiln.grad(fun, 1))(key, x)
        np.testing.assert_allclose(found, numeric, rtol=2e-5)


@pytest.mark.parametrize("a", [0.3, 2.0])
def test_gamma_gradients_move_the_distribution(a: float) -> None:
    alpha = jnp.full(20000, a)
    key = random.key(6)
    with override(engine="reference"):
        slopes = kiln.grad(lambda x: random.gamma(key, x).sum())(alpha)
        of_logs = kiln.grad(lambda x: random.loggamma(key, x).sum())(alpha)
    # The mean is a, and that of the logarithm is digamma(a).
    assert float(slopes.mean()) == pytest.approx(1.0, abs=0.05)
    assert float(of_logs.mean()) == pytest.approx(float(lax.polygamma(1.0, a)), rel=0.05)


@pytest.mark.parametrize(
    ("draw", "mean", "variance"),
    [
        (lambda k, n: random.normal(k, n), 0, 1),
        (lambda k, n: random.uniform(k, n), 1 / 2, 1 / 12),
        (lambda k, n: random.exponential(k, n), 1, 1),
        (lambda k, n: random.gamma(k, 0.4, n), 0.4, 0.4),
        (lambda k, n: random.beta(k, 2.0, 3.0, n), 0.4, 0.04),
        (lambda k, n: random.poisson(k, 3.0, n), 3, 3),
        (lambda k, n: random.poisson(k, 30.0, n), 30, 30),
        (lambda k, n: random.binomial(k, 100.0, 0.3, n), 30, 21),
        (lambda k, n: random.geometric(k, 0.4, n), 2.5, 3.75),
        (lambda k, n: random.gumbel(k, n), 0.5772, np.pi**2 / 6),
        (lambda k, n: random.bernoulli(k, 0.3, n), 0.3, 0.21),
        (lambda k, n: random.randint(k, n, 0, 10), 4.5, 8.25),
        (lambda k, n: random.choice(k, 3, n, p=jnp.array([0.2, 0.5, 0.3])), 1.1, 0.49),
    ],
)
def test_mean_and_variance(draw: Callable[..., Any], mean: float, variance: float) -> None:
    with override(engine="reference"):
        found = np.asarray(draw(random.key(9), (20000,)), np.float64)
    assert abs(found.mean() - mean) < 5 * np.sqrt(variance / 20000)
    assert abs(found.var() - variance) < 0.06 * variance


def test_permutations_and_choices_lose_nothing() -> None:
    with override(engine="reference"):
        key, x = random.key(4), jnp.arange(24).reshape(4, 6)
        shuffled = np.asarray(random.permutation(key, x, 1, independent=True))
        np.testing.assert_array_equal(np.sort(shuffled, 1), x)
        assert sorted(random.permutation(key, 100).tolist()) == list(range(100))
        assert len(set(random.choice(key, 50, (50,), replace=False).tolist())) == 50


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda k: random.uniform(k, (2,), int), "^uniform.*\ndtype argument to `uniform`"),
        (lambda k: random.normal(k, (), "int8"), "^normal.*\ndtype argument to `normal`"),
        (lambda k: random.bits(k, (), "int32"), "must be an unsigned int dtype, got int32"),
        (lambda k: random.uniform(k, (2,), minval=jnp.zeros(3)), "^uniform"),
        (lambda k: random.gamma(k, jnp.zeros(3), (2,)), "^gamma.*\n.*must be broadcast-compatible"),
        (lambda k: random.choice(k, 3, (4,), False), "^choice.*\nCannot take a larger sample"),
        (lambda k: random.poisson(k, 1.0, (), float), "^poisson"),
    ],
)
def test_errors_name_the_function(use: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        use(random.key(0))


@pytest.mark.parametrize("name", ["laplace", "logistic", "gumbel", "exponential"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_lowest_draw_is_finite(name: str, dtype: str) -> None:
    # Of numbers of eleven bits or eight, 20,000 draws meet the lowest and the highest.
    drawn = getattr(random, name)(random.key(0), (20_000,), dtype)
    assert np.isfinite(np.asarray(drawn, np.float32)).all()


@pytest.mark.parametrize("n", [10.0, 30.0, 1e5])
def test_no_nan_is_made_on_the_way_to_a_binomial_number(n):
    def draw(key):
        return random.binomial(key, n, 0.3, (200,))

    drawn = kiln.jit(draw, check="nan")(random.key(5))
    assert abs(float(drawn.mean()) - 0.3 * n) < 0.1 * n
