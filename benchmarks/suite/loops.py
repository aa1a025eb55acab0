"""Rows that carry a state along: cumulative operations, scans, counted and open loops."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.signal

from benchmarks.suite.row import Row, Work, integers, normal, shared, uniform


def cumsum(n: int) -> Work:
    """Add cumulatively."""
    return shared(lambda np, x: np.cumsum(x, 0), normal(n), numba="cumsum")


def cumsum_columns(n: int) -> Work:
    """Add cumulatively along axis 0."""
    return shared(lambda np, x: np.cumsum(x, 0), normal(n, n))


def cumulative_maximum(n: int) -> Work:
    """Return the greatest number so far."""
    return Work(
        (normal(n),),
        lambda lib, x: lib.root.lax.cummax(x),
        numpy.maximum.accumulate,
        lambda torch, x: torch.cummax(x, 0)[0],
    )


def rnn(steps: int, width: int, batch: int) -> Work:
    """Run a recurrent cell over a sequence; return the last state."""
    shape = (width,) if batch == 1 else (batch, width)

    def program(lib: Any, h: Any, w: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = lib.np.tanh(h @ w + x)
            return h, None

        return lib.root.lax.scan(step, h, xs)[0]

    def plain(h: Any, w: Any, xs: Any) -> Any:
        for x in xs:
            h = numpy.tanh(h @ w + x)
        return h

    def torch_of(torch: Any, h: Any, w: Any, xs: Any) -> Any:
        for x in xs:
            h = torch.tanh(h @ w + x)
        return h

    w = normal(width, width, seed=1) / numpy.float32(1.5 * width**0.5)
    arguments = (normal(*shape), w, normal(steps, *shape, seed=2))
    return Work(arguments, program, plain, torch_of, "rnn" if batch == 1 else None)


def rnn_gradient(steps: int, width: int) -> Work:
    """Return the gradient of a recurrent network by its weights."""

    def program(lib: Any, h: Any, w: Any, xs: Any) -> Any:
        def loss(w: Any) -> Any:
            def step(h: Any, x: Any) -> Any:
                h = lib.np.tanh(h @ w + x)
                return h, h[0]

            h, heads = lib.root.lax.scan(step, h0, xs)
            return lib.np.sum(h * h) + lib.np.sum(heads)

        h0 = h
        return lib.root.grad(loss)(w)

    def torch_of(torch: Any, h: Any, w: Any, xs: Any) -> Any:
        def loss(w: Any) -> Any:
            state, total = h, 0.0
            for x in xs:
                state = torch.tanh(state @ w + x)
                total = total + state[0]
            return torch.sum(state * state) + total

        return torch.func.grad(loss)(w)

    w = normal(width, width, seed=1) / numpy.float32(1.5 * width**0.5)
    return Work((normal(width), w, normal(steps, width, seed=2)), program, torch=torch_of)


def smoothing(n: int) -> Work:
    """Smooth a sequence exponentially; return all states."""

    def program(lib: Any, xs: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            state = 0.95 * state + 0.05 * x
            return state, state

        return lib.root.lax.scan(step, lib.np.zeros((), xs.dtype), xs)[1]

    def plain(xs: Any) -> Any:
        return scipy.signal.lfilter([0.05], [1.0, -0.95], xs).astype("float32")

    return Work((normal(n),), program, plain, numba="smoothing")


def scalar_gradient(steps: int, leaves: int) -> Work:
    """Return the gradient of a scan that carries a dictionary of scalars."""

    def program(lib: Any, state: Any, xs: Any) -> Any:
        def loss(state: Any) -> Any:
            def step(state: Any, x: Any) -> Any:
                names = list(state)
                after = {
                    name: state[name] * 0.9 + 0.1 * state[names[i - 1]] * x
                    for i, name in enumerate(names)
                }
                return after, None

            last = lib.root.lax.scan(step, state, xs)[0]
            return sum(last.values())

        return lib.root.grad(loss)(state)

    state = {f"s{i:02}": numpy.float32(1 + i / 8).reshape(()) for i in range(leaves)}
    state = {name: numpy.asarray(value) for name, value in state.items()}
    return Work((state, normal(steps)), program)


def associative(n: int) -> Work:
    """Solve a linear recurrence by an associative scan."""

    def program(lib: Any, a: Any, b: Any) -> Any:
        def join(left: Any, right: Any) -> Any:
            return left[0] * right[0], left[1] * right[0] + right[1]

        return lib.root.lax.associative_scan(join, (a, b))[1]

    return Work((uniform(n, low=0.5, high=0.99), normal(n)), program, numba="recurrence")


def fori(n: int) -> Work:
    """Update a number many times."""

    def program(lib: Any, x: Any) -> Any:
        return lib.root.lax.fori_loop(0, n, lambda i, x: x * 0.999 + 1.0, x)

    def plain(x: Any) -> Any:
        x = float(x)
        for _ in range(n):
            x = x * 0.999 + 1.0
        return numpy.float32(x)

    return Work((numpy.array(0.5, "float32"),), program, plain, numba="fori" if n > 100 else None)


def fori_vector(n: int, steps: int) -> Work:
    """Iterate the logistic map on a small vector."""

    def program(lib: Any, x: Any) -> Any:
        return lib.root.lax.fori_loop(0, steps, lambda i, x: 3.2 * x * (1 - x), x)

    def plain(x: Any) -> Any:
        for _ in range(steps):
            x = numpy.float32(3.2) * x * (1 - x)
        return x

    def torch_of(torch: Any, x: Any) -> Any:
        for _ in range(steps):
            x = 3.2 * x * (1 - x)
        return x

    return Work((uniform(n, low=0.1, high=0.9),), program, plain, torch_of)


def filled(n: int) -> Work:
    """Fill an array, each number from the one before and from another array."""

    def program(lib: Any, a: Any, b: Any) -> Any:
        def iteration(i: Any, out: Any) -> Any:
            return out.at[i].set(a[i] * out[i - 1] + b[i])

        return lib.root.lax.fori_loop(1, n, iteration, lib.np.zeros(n).at[0].set(b[0]))

    return Work((uniform(n, low=0.5, high=0.99), normal(n)), program, numba="recurrence")


def filled_together(n: int) -> Work:
    """Fill two arrays, positions and velocities of an oscillator, from each other."""

    def program(lib: Any, force: Any) -> Any:
        def iteration(i: Any, arrays: Any) -> Any:
            x, v = arrays
            slower = 0.99 * v[i - 1] - 0.01 * x[i - 1] + force[i]
            return x.at[i].set(x[i - 1] + 0.01 * v[i - 1]), v.at[i].set(slower)

        return lib.root.lax.fori_loop(1, n, iteration, (lib.np.ones(n), lib.np.zeros(n)))

    return Work((normal(n),), program, numba="filled_together")


def edit_distances(n: int) -> Work:
    """Fill the table of edit distances between the beginnings of two texts."""

    def program(lib: Any, first: Any, second: Any) -> Any:
        edge = lib.np.arange(n + 1.0)

        def row(i: Any, table: Any) -> Any:
            def column(j: Any, table: Any) -> Any:
                changed = lib.np.where(first[i - 1] == second[j - 1], 0.0, 1.0)
                least = lib.np.minimum(table[i - 1, j], table[i, j - 1]) + 1.0
                found = lib.np.minimum(least, table[i - 1, j - 1] + changed)
                return table.at[i, j].set(found)

            return lib.root.lax.fori_loop(1, n + 1, column, table)

        table = lib.np.zeros((n + 1, n + 1)).at[0].set(edge).at[:, 0].set(edge)
        return lib.root.lax.fori_loop(1, n + 1, row, table)

    return Work((integers(n, high=4), integers(n, high=4)), program, numba="edit_distances")


def bisection(n: int) -> Work:
    """Find roots of many cubics by Newton's method until all have converged."""

    def program(lib: Any, a: Any) -> Any:
        def unfinished(state: Any) -> Any:
            x, number = state
            return (lib.np.max(lib.np.abs(x * x * x - a)) > 1e-3) & (number < 100)

        def step(state: Any) -> Any:
            x, number = state
            return x - (x * x * x - a) / (3 * x * x), number + 1

        return lib.root.lax.while_loop(unfinished, step, (lib.np.ones_like(a), 0))[0]

    def shared_loop(np: Any, x: Any, a: Any) -> Any:
        number = 0
        while np.max(np.abs(x * x * x - a)) > 1e-3 and number < 100:
            x, number = x - (x * x * x - a) / (3 * x * x), number + 1
        return x

    return Work(
        (uniform(n, low=1, high=8),),
        program,
        lambda a: shared_loop(numpy, numpy.ones_like(a), a),
        lambda torch, a: shared_loop(torch, torch.ones_like(a), a),
    )


def collatz(n: int) -> Work:
    """Count the steps of the Collatz map, for many numbers at once."""

    def program(lib: Any, x: Any) -> Any:
        def count(x: Any) -> Any:
            def step(state: Any) -> Any:
                x, steps = state
                return lib.np.where(x % 2 == 0, x // 2, 3 * x + 1), steps + 1

            return lib.root.lax.while_loop(lambda state: state[0] > 1, step, (x, 0))[1]

        return lib.root.vmap(count)(x)

    return Work((integers(n, high=5000) + 1,), program, numba="collatz")


def switching(n: int) -> Work:
    """Choose one of four branches at every step."""

    def program(lib: Any, ops: Any) -> Any:
        branches = [
            lambda x: x + 1.0,
            lambda x: x * 0.5,
            lib.np.sin,
            lambda x: x - 0.25,
        ]

        def step(x: Any, op: Any) -> Any:
            return lib.root.lax.switch(op, branches, x), None

        return lib.root.lax.scan(step, lib.np.float32(0), ops)[0]

    return Work((integers(n, high=4),), program, numba="switching")


ROWS = [
    Row("cumsum 1e6", "scans", cumsum, (1_000_000,), (33,), tolerance=1e-4, compiled=True),
    Row("cumsum axis 0, 1024^2", "scans", cumsum_columns, (1024,), (7,), tolerance=1e-4),
    Row("cumulative maximum 1e6", "scans", cumulative_maximum, (1_000_000,), (33,)),
    Row("RNN, 1000 steps, width 64", "scans", rnn, (1000, 64, 1), (5, 4, 1), tolerance=1e-4),
    Row("RNN, 500 steps, batch 32", "scans", rnn, (500, 64, 32), (5, 4, 3), tolerance=1e-4),
    Row("gradient of an RNN, 200 steps", "scans", rnn_gradient, (200, 64), (5, 4), 1e-3),
    Row("exponential smoothing 1e5", "scans", smoothing, (100_000,), (9,), tolerance=1e-4),
    Row("gradient, 30 scalars, 1000 steps", "scans", scalar_gradient, (1000, 30), (5, 4), 1e-3),
    Row("associative scan 1e6", "scans", associative, (1_000_000,), (17,), tolerance=1e-4),
    Row("fori 1e5, x * 0.999 + 1", "loops", fori, (100_000,), (5,), tolerance=1e-3),
    Row("fori 1000 over 64 numbers", "loops", fori_vector, (64, 1000), (5, 4), tolerance=1e-3),
    Row("array filled from itself, 1e5", "loops", filled, (100_000,), (9,), tolerance=1e-4),
    Row("two arrays filled together, 1e3", "loops", filled_together, (1000,), (9,), 1e-4),
    Row("edit distances, 200 x 200", "loops", edit_distances, (200,), (7,)),
    Row("while, Newton on 1e5", "loops", bisection, (100_000,), (7,), tolerance=1e-3),
    Row("while under vmap, Collatz 1e4", "loops", collatz, (10_000,), (9,)),
    Row("switch at 1e4 steps", "loops", switching, (10_000,), (9,), tolerance=1e-4),
]
