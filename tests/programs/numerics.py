"""Programs of numerical analysis and statistics, as functions of the library."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.programs.registry import data, model


@model
def newton(jax: Any) -> Any:
    """Newton's method: a while_loop whose body takes gradients and Hessians."""
    jnp, lax = jax.numpy, jax.lax

    def f(x: Any) -> Any:
        return jnp.sum(jnp.cosh(x - jnp.array([0.5, -0.25]))) + 0.3 * x[0] * x[1]

    def inverse(m: Any) -> Any:
        a, b, c, d = m[0, 0], m[0, 1], m[1, 0], m[1, 1]
        return jnp.array([[d, -b], [-c, a]]) / (a * d - b * c)

    def go_on(state: Any) -> Any:
        _, g, count = state
        return (jnp.max(jnp.abs(g)) > 1e-5) & (count < 20)

    def step(state: Any) -> Any:
        x, g, count = state
        x = x - inverse(jax.hessian(f)(x)) @ g
        return x, jax.grad(f)(x), count + 1

    @jax.jit
    def minimize(x: Any) -> Any:
        return lax.while_loop(go_on, step, (x, jax.grad(f)(x), 0))

    starts = jnp.array([[2.0, 1.0], [-1.0, 0.5], [0.5, -0.2]])
    x, _, count = jax.vmap(minimize)(starts)
    return {"x": x, "count": count, "one": minimize(starts[0])[0]}


@model
def kalman_filter(jax: Any) -> Any:
    """A Kalman filter by scan, and the gradient of its likelihood."""
    jnp, lax = jax.numpy, jax.lax
    observations = np.cumsum(data(9, 20, scale=0.3)).astype(np.float32)
    move = np.array([[1.0, 0.1], [0.0, 1.0]], np.float32)
    look = np.array([1.0, 0.0], np.float32)

    def likelihood(noise: Any, y: Any) -> Any:
        q, r = jnp.exp(noise["process"]), jnp.exp(noise["sensor"])

        def step(belief: Any, y: Any) -> Any:
            mean, cov = belief
            mean, cov = move @ mean, move @ cov @ move.T + q * jnp.eye(2)
            spread = look @ cov @ look + r
            gain = cov @ look / spread
            error = y - look @ mean
            mean = mean + gain * error
            cov = cov - jnp.outer(gain, look @ cov)
            return (mean, cov), (mean, -0.5 * (jnp.log(spread) + error**2 / spread))

        _, (means, terms) = lax.scan(step, (jnp.zeros(2), jnp.eye(2)), y)
        return jnp.sum(terms), means

    noise = {"process": -2.0, "sensor": -1.0}
    run = jax.jit(jax.value_and_grad(likelihood, has_aux=True))
    (value, means), gradient = run(noise, observations)
    curvature = jax.hessian(lambda n: likelihood(n, observations)[0])(noise)
    return {"value": value, "means": means, "gradient": gradient, "curvature": curvature}


@model
def ode_sensitivity(jax: Any) -> Any:
    """Lotka-Volterra by Runge-Kutta in a fori_loop; derivatives in the parameters, three ways."""
    jnp, lax = jax.numpy, jax.lax

    def field(y: Any, p: Any) -> Any:
        return jnp.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[2] * y[0] * y[1] - p[3] * y[1]])

    def rk4(y: Any, p: Any, h: float) -> Any:
        a = field(y, p)
        b = field(y + h / 2 * a, p)
        c = field(y + h / 2 * b, p)
        d = field(y + h * c, p)
        return y + h / 6 * (a + 2 * b + 2 * c + d)

    def solve(p: Any) -> Any:
        return lax.fori_loop(0, 40, lambda i, y: rk4(y, p, 0.05), jnp.array([1.0, 0.5]))

    p = np.array([1.5, 1.0, 1.0, 3.0], np.float32)
    tangent = jax.jvp(jax.jit(solve), (p,), (np.ones(4, "f4"),))[1]
    return {
        "end": jax.jit(solve)(p),
        "forwards": jax.jit(jax.jacfwd(solve))(p),
        "backwards": jax.jit(jax.jacrev(solve))(p),
        "tangent": tangent,
    }


@model
def markov_chain(jax: Any) -> Any:
    """Metropolis steps with random keys in a scan, as several chains at once."""
    jnp, lax, random = jax.numpy, jax.lax, jax.random

    def density(x: Any) -> Any:
        return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x) ** 2

    def chain(key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            x, old = state
            move, accept = random.split(key)
            proposal = x + 0.7 * random.normal(move, x.shape)
            new = density(proposal)
            taken = jnp.log(random.uniform(accept)) < new - old
            state = jax.tree.map(lambda a, b: jnp.where(taken, a, b), (proposal, new), (x, old))
            return state, (state[0], taken)

        start = jnp.zeros(2)
        _, (samples, taken) = lax.scan(step, (start, density(start)), random.split(key, 12))
        return samples, taken

    samples, taken = jax.jit(jax.vmap(chain))(random.split(random.key(3), 4))
    return {"samples": samples, "taken": taken, "one": chain(random.key(1))[0]}


@model
def implicit_differentiation(jax: Any) -> Any:
    """The derivative of a fixed point found by while_loop, by a custom reverse rule."""
    jnp, lax = jax.numpy, jax.lax

    def iterate(f: Any, x: Any) -> Any:
        def go_on(state: Any) -> Any:
            old, new, count = state
            return (jnp.max(jnp.abs(old - new)) > 1e-6) & (count < 200)

        return lax.while_loop(go_on, lambda s: (s[1], f(s[1]), s[2] + 1), (x, f(x), 0))[1]

    def f(params: Any, x: Any) -> Any:
        return jnp.tanh(params["w"] @ x + params["b"])

    @jax.custom_vjp
    def fixed_point(params: Any) -> Any:
        return iterate(lambda x: f(params, x), jnp.zeros_like(params["b"]))

    def forwards(params: Any) -> Any:
        x = fixed_point(params)
        return x, (params, x)

    def backwards(kept: Any, ct: Any) -> Any:
        params, x = kept
        _, pull_x = jax.vjp(lambda x: f(params, x), x)
        u = iterate(lambda u: ct + pull_x(u)[0], ct)
        return jax.vjp(lambda p: f(p, x), params)[1](u)

    fixed_point.defvjp(forwards, backwards)
    params = {"w": data(26, 4, 4, scale=0.2), "b": data(27, 4)}
    loss = lambda p: jnp.sum(fixed_point(p) ** 2)
    unrolled = lambda p: jnp.sum(lax.fori_loop(0, 60, lambda i, x: f(p, x), jnp.zeros(4)) ** 2)
    return {
        "x": jax.jit(fixed_point)(params),
        "gradient": jax.jit(jax.grad(loss))(params),
        "unrolled": jax.jit(jax.grad(unrolled))(params),
        "rows": jax.vmap(jax.grad(loss))(jax.tree.map(lambda a: np.stack([a, 0.5 * a]), params)),
    }


@model
def conjugate_gradients(jax: Any) -> Any:
    """A linear system solved by Hessian-vector products that are never made a matrix."""
    jnp, lax = jax.numpy, jax.lax
    a = data(37, 6, 4)

    def energy(x: Any) -> Any:
        return 0.5 * jnp.sum((a @ x["u"]) ** 2) + 0.5 * jnp.sum(x["u"] ** 2) + jnp.sum(x["v"] ** 2)

    x = {"u": jnp.zeros(4), "v": jnp.zeros(2)}
    b = {"u": data(38, 4), "v": data(39, 2)}

    def product(v: Any) -> Any:
        return jax.jvp(jax.grad(energy), (x,), (v,))[1]

    def dot(p: Any, q: Any) -> Any:
        return sum(jnp.vdot(i, j) for i, j in zip(jax.tree.leaves(p), jax.tree.leaves(q)))

    def along(p: Any, t: Any, q: Any) -> Any:
        return jax.tree.map(lambda i, j: i + t * j, p, q)

    def step(state: Any) -> Any:
        x, r, p, rr, count = state
        ap = product(p)
        t = rr / dot(p, ap)
        x, r = along(x, t, p), along(r, -t, ap)
        new = dot(r, r)
        return x, r, along(r, new / rr, p), new, count + 1

    @jax.jit
    def solve(b: Any) -> Any:
        state = (x, b, b, dot(b, b), 0)
        return lax.while_loop(lambda s: (s[3] > 1e-9) & (s[4] < 20), step, state)[0]

    return {"x": solve(b), "back": product(solve(b)), "b": b}
