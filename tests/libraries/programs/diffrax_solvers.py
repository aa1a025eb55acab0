"""Diffrax: differential equations by several solvers, with gradients."""

from __future__ import annotations

import functools

import diffrax
import jax
import jax.numpy as jnp
import optimistix

jax.config.update("jax_enable_x64", True)


def predator_prey(t, y, args):
    """Lotka and Volterra's equations."""
    a, b, c, d = args
    x, z = y
    return jnp.stack([a * x - b * x * z, -c * z + d * x * z])


def robertson(t, y, args):
    """A stiff system of three reactions."""
    x, y, z = y
    k1, k2, k3 = args
    first, second, third = k1 * x, k2 * y**2, k3 * y * z
    return jnp.stack([-first + third, first - second - third, second])


def solve(solver, adjoint=None, field=predator_prey, tolerance=1e-8):
    """The solution at given times, how many steps it took, and the gradient of its end."""
    stiff = field is robertson
    args = jnp.asarray([0.04, 3e7, 1e4] if stiff else [0.8, 0.3, 1.1, 0.4])
    start = jnp.asarray([1.0, 0.0, 0.0] if stiff else [2.0, 1.0])
    end = 100.0 if stiff else 8.0

    def run(start, args, saveat):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(field),
            solver,
            0.0,
            end,
            1e-4 if stiff else 0.4,
            start,
            args,
            saveat=saveat,
            stepsize_controller=diffrax.PIDController(
                rtol=tolerance, atol=tolerance, pcoeff=0.3, icoeff=0.4
            ),
            adjoint=adjoint or diffrax.RecursiveCheckpointAdjoint(),
            max_steps=4096,
        )

    @jax.jit
    @functools.partial(jax.value_and_grad, argnums=(0, 1))
    def loss(start, args):
        return jnp.sum(run(start, args, diffrax.SaveAt(t1=True)).ys ** 2)

    found = run(start, args, diffrax.SaveAt(ts=jnp.linspace(0.0, end, 9)))
    value, (of_start, of_args) = loss(start, args)
    return {
        "ys": found.ys,
        "steps": found.stats["num_steps"],
        "rejected": found.stats["num_rejected_steps"],
        "value": value,
        "of_start": of_start,
        "of_args": of_args,
    }


def dense_and_event():
    """An interpolated solution, and a solution that ends where a condition changes its sign."""

    def falling(t, y, args):
        return jnp.stack([y[1], -9.81 - 0.1 * y[1]])

    term, solver = diffrax.ODETerm(falling), diffrax.Tsit5()
    start = jnp.asarray([10.0, 3.0])
    dense = diffrax.diffeqsolve(
        term, solver, 0.0, 2.0, 0.1, start, saveat=diffrax.SaveAt(dense=True)
    )

    def time_of_ground(start):
        event = diffrax.Event(lambda t, y, args, **_: y[0], optimistix.Newton(1e-9, 1e-9))
        found = diffrax.diffeqsolve(term, solver, 0.0, 5.0, 0.01, start, event=event)
        return found.ts[0]

    times = jnp.linspace(0.0, 2.0, 7)
    time, gradient = jax.value_and_grad(time_of_ground)(start)
    return {"ys": jax.vmap(dense.evaluate)(times), "time": time, "gradient": gradient}


def stochastic():
    """A stochastic equation along one Brownian path, by three solvers."""
    path = diffrax.VirtualBrownianTree(0.0, 2.0, 1e-3, (), jax.random.key(3))
    terms = diffrax.MultiTerm(
        diffrax.ODETerm(lambda t, y, args: -args * y),
        diffrax.ControlTerm(lambda t, y, args: 0.3, path),
    )
    times = diffrax.SaveAt(ts=jnp.linspace(0.0, 2.0, 6))

    def run(solver, rate):
        return diffrax.diffeqsolve(terms, solver, 0.0, 2.0, 0.02, 1.0, rate, saveat=times).ys

    solvers = (diffrax.Euler(), diffrax.Heun(), diffrax.EulerHeun())
    found = {type(solver).__name__: run(solver, 0.7) for solver in solvers}
    found["gradient"] = jax.grad(lambda rate: run(diffrax.Euler(), rate).sum())(0.7)
    return found


PROGRAMS = {
    "tsit5": functools.partial(solve, diffrax.Tsit5()),
    "tsit5_direct": functools.partial(solve, diffrax.Tsit5(), diffrax.DirectAdjoint()),
    "tsit5_backsolve": functools.partial(solve, diffrax.Tsit5(), diffrax.BacksolveAdjoint()),
    "dopri8": functools.partial(solve, diffrax.Dopri8()),
    "kvaerno5": functools.partial(solve, diffrax.Kvaerno5(), None, robertson, 1e-6),
    "kvaerno3": functools.partial(solve, diffrax.Kvaerno3(), None, predator_prey, 1e-5),
    "dense_and_event": dense_and_event,
    "stochastic": stochastic,
}
