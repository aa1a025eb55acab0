"""Reports about loops over small arrays, and their gradients."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.reports.tracker import JAX, KEPLER, reported
from benchmarks.suite.row import Row, Work, integers, normal, uniform


def mass_matrix(joints: int) -> Work:
    """Return the mass matrix of a chain of joints, each turned against the one before."""

    def program(lib: Any, angles: Any, links: Any, masses: Any) -> Any:
        np = lib.np
        turned, place, axes, starts, ends = np.eye(3), np.zeros(3), [], [], []
        for i in range(joints):
            c, s = np.cos(angles[i]), np.sin(angles[i])
            turn = (
                [[c, -s, 0], [s, c, 0], [0, 0, 1]] if i % 2 else [[c, 0, s], [0, 1, 0], [-s, 0, c]]
            )
            turned = turned @ np.array(turn)
            axes.append(turned[:, 2 if i % 2 else 1])
            starts.append(place)
            place = place + turned @ links[i]
            ends.append(place)
        arms = np.stack(ends)[:, None] - np.stack(starts)[None]
        moved = np.cross(np.stack(axes)[None], arms) * np.tril(np.ones((joints, joints)))[..., None]
        return np.einsum("kid,kjd,k->ij", moved, moved, masses)

    return Work((normal(joints, dtype="float64"), normal(joints, 3, dtype="float64", seed=1),
                 uniform(joints, dtype="float64")), program)  # fmt: skip


def cable(compartments: int, steps: int) -> Work:
    """Simulate voltage and gates along a cable of excitable membrane."""

    def program(lib: Any, voltage: Any, current: Any) -> Any:
        np = lib.np

        def toward(gate: Any, opens: Any, closes: Any) -> Any:
            rate = opens + closes
            return opens / rate + (gate - opens / rate) * np.exp(-0.025 * rate)

        def step(state: Any, applied: Any) -> Any:
            v, m, h, n = state
            ratio = (v + 40) / 10
            m = toward(m, ratio / (1 - np.exp(-ratio)), 4 * np.exp(-(v + 65) / 18))
            h = toward(h, 0.07 * np.exp(-(v + 65) / 20), 1 / (1 + np.exp(-(v + 35) / 10)))
            ratio = (v + 55) / 10
            n = toward(n, 0.1 * ratio / (1 - np.exp(-ratio)), 0.125 * np.exp(-(v + 65) / 80))
            inward = 120 * m**3 * h * (v - 50) + 36 * n**4 * (v + 77) + 0.3 * (v + 54.4)
            padded = np.pad(v, 1, mode="edge")
            spread = padded[2:] - 2 * v + padded[:-2]
            v = v + 0.025 * (spread - inward + applied)
            return (v, m, h, n), v[0]

        gates = (np.full_like(voltage, x) for x in (0.05, 0.6, 0.32))
        return lib.root.lax.scan(step, (voltage, *gates), current)

    voltage = -65 + uniform(compartments, dtype="float64")
    return Work((voltage, uniform(steps, high=20.0, dtype="float64")), program)


def counted_maximum(n: int) -> Work:
    """Find the greatest number of an array by a `while` loop over scalars."""

    def program(lib: Any, xs: Any) -> Any:
        def more(state: Any) -> Any:
            return state[0] < n

        def step(state: Any) -> Any:
            i, most = state
            return i + 1, lib.np.maximum(most, xs[i])

        return lib.root.lax.while_loop(more, step, (0, xs[0]))[1]

    return Work((integers(n, high=1 << 30),), program, numba="counted_maximum")


def _turns(steps: int) -> numpy.ndarray:
    small = 0.1 * normal(steps, 3, 3, dtype="float64")
    return numpy.eye(3) + small - numpy.swapaxes(small, 1, 2)


def products(steps: int, gradient: bool) -> Work:
    """Multiply 3 x 3 matrices one after another."""

    def program(lib: Any, matrices: Any) -> Any:
        def total(matrices: Any) -> Any:
            def step(product: Any, matrix: Any) -> Any:
                product = product @ matrix
                product = product / lib.np.sqrt(lib.np.sum(product * product))
                return product, product[0, 0]

            last, corners = lib.root.lax.scan(step, lib.np.eye(3), matrices)
            return lib.np.sum(last) + lib.np.sum(corners)

        return lib.root.grad(total)(matrices) if gradient else total(matrices)

    return Work((_turns(steps),), program)


def bodies(steps: int, gradient: bool) -> Work:
    """Integrate four bodies under gravity by symplectic steps."""

    def program(lib: Any, places: Any, speeds: Any, masses: Any) -> Any:
        np = lib.np

        def pull(x: Any) -> Any:
            apart = x[None] - x[:, None]
            distances = np.sum(apart * apart, -1) + np.eye(4)
            return np.sum(apart * (masses[None] * distances**-1.5)[..., None], 1)

        def last(places: Any, speeds: Any) -> Any:
            def step(state: Any, _: Any) -> Any:
                x, v = state
                x = x + 0.005 * v
                v = v + 0.01 * pull(x)
                return (x + 0.005 * v, v), None

            return lib.root.lax.scan(step, (places, speeds), None, length=steps)[0]

        def spread(places: Any, speeds: Any) -> Any:
            return np.sum(last(places, speeds)[0] ** 2)

        return lib.root.grad(spread, (0, 1))(places, speeds) if gradient else last(places, speeds)

    places = normal(4, 3, dtype="float64") * 3
    speeds = normal(4, 3, dtype="float64", seed=1) * 0.2
    return Work((places, speeds, uniform(4, dtype="float64")), program)


def many_scalars(count: int, steps: int) -> Work:
    """Return the gradient through a scan whose carry is a tuple of scalars."""

    def program(lib: Any, start: Any) -> Any:
        np = lib.np

        def total(start: Any) -> Any:
            def step(xs: Any, _: Any) -> Any:
                moved = [
                    xs[i] + 0.01 * (np.sin(xs[i - 1]) - xs[i] * xs[(i + 1) % count])
                    for i in range(count)
                ]
                return tuple(moved), moved[0]

            carry = tuple(start[i] for i in range(count))
            last, firsts = lib.root.lax.scan(step, carry, None, length=steps)
            return np.sum(firsts) + sum(last)

        return lib.root.grad(total)(start)

    # Positive: otherwise they grow beyond all bounds, and what is timed are nans.
    return Work((uniform(count),), program)


def annealing(spins: int, steps: int) -> Work:
    """Flip spins at falling temperatures, by numbers drawn before; add up weights."""

    def program(lib: Any, couplings: Any, picks: Any, draws: Any) -> Any:
        np = lib.np

        def step(t: Any, state: Any) -> Any:
            spins_now, energy, weight = state
            i, heat = picks[t], t / steps
            change = 2 * spins_now[i] * (couplings[i] @ spins_now)
            weight = weight - energy / steps
            taken = draws[t] < np.exp(-heat * change)
            flipped = spins_now.at[i].multiply(np.where(taken, -1, 1))
            return flipped, energy + np.where(taken, change, 0), weight

        start = (np.ones(spins), -0.5 * np.sum(couplings), 0.0)
        return lib.root.lax.fori_loop(0, steps, step, start)[1:]

    couplings = normal(spins, spins, dtype="float64") / spins
    couplings = numpy.triu(couplings, 1) + numpy.triu(couplings, 1).T
    arguments = (couplings, integers(steps, high=spins), uniform(steps, dtype="float64"))
    return Work(arguments, program, numba="annealing")


def growing(n: int) -> Work:
    """Fill an array number by number, each from the one before."""

    def program(lib: Any, shocks: Any) -> Any:
        def step(t: Any, x: Any) -> Any:
            return x.at[t + 1].set(0.9 * x[t] + shocks[t])

        return lib.root.lax.fori_loop(0, n, step, lib.np.zeros(n + 1, shocks.dtype))

    return Work((normal(n, dtype="float64"),), program, numba="growing")


def removals(n: int, steps: int) -> Work:
    """Take numbers out of an array, each time moving those behind it one place ahead."""
    behind = n // 2

    def program(lib: Any, xs: Any, places: Any) -> Any:
        lax = lib.root.lax

        def step(xs: Any, i: Any) -> Any:
            taken = xs[i]
            moved = lax.dynamic_slice(xs, (i + 1,), (behind,))
            return lax.dynamic_update_slice(xs, moved, (i,)), taken

        return lax.scan(step, xs, places)

    return Work((normal(n), integers(steps, high=n - behind)), program)


ROWS: list[Row] = [
    reported("mass matrix of 24 joints, f64", f"{JAX}/26021", "scan", mass_matrix, (24,), (3,),
             x64=True),
    reported("cable of 32 compartments, f64", f"{JAX}/26145", "scan", cable, (32, 1000), (3, 5),
             x64=True),
    reported("while loop over 2^17 scalars", f"{JAX}/25190", "scan", counted_maximum, (1 << 17,),
             (5,)),
    reported("scan of 3x3 products, f64", f"{JAX}/36799", "scan", products, (2000, False),
             (5, False), x64=True),
    reported("gradient of 3x3 products, f64", f"{JAX}/36799", "scan", products, (2000, True),
             (5, True), x64=True),
    reported("four bodies, f64", KEPLER, "scan", bodies, (1000, False), (3, False), x64=True),
    reported("gradient of four bodies, f64", KEPLER, "scan", bodies, (1000, True), (3, True),
             x64=True),
    reported("gradient, 24 scalars in a carry", f"{JAX}/40150", "scan", many_scalars, (24, 300),
             (3, 4), tolerance=1e-4),
    reported("annealing of 20 spins, f64", f"{JAX}/1421", "scan", annealing, (20, 20_000),
             (4, 7), x64=True),
    reported("array filled by a loop, f64", f"{JAX}/40101", "scan", growing, (100_000,), (5,),
             x64=True),
    reported("numbers taken out of an array", f"{JAX}/17845", "scan", removals, (4000, 1000),
             (6, 3)),
]  # fmt: skip
