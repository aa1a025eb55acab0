"""Rows of whole programs: simulations, sampling, graphs, images, finance."""

from __future__ import annotations

from typing import Any

import numpy
import scipy.ndimage
import scipy.special

from benchmarks.suite.row import Row, Work, integers, normal, shared, uniform


def mandelbrot(n: int, steps: int) -> Work:
    """Count the steps until each point escapes."""
    real = numpy.linspace(-2, 0.6, n, dtype="float32")[None, :].repeat(n, 0)
    imaginary = numpy.linspace(-1.2, 1.2, n, dtype="float32")[:, None].repeat(n, 1)

    def step(np: Any, cr: Any, ci: Any, zr: Any, zi: Any, count: Any) -> Any:
        inside = zr * zr + zi * zi < 4
        after = zr * zr - zi * zi + cr, 2 * zr * zi + ci
        zr, zi = np.where(inside, after[0], zr), np.where(inside, after[1], zi)
        return zr, zi, count + inside

    def program(lib: Any, cr: Any, ci: Any) -> Any:
        zero = lib.np.zeros_like(cr)
        start = zero, zero, lib.np.zeros(cr.shape, "int32")
        return lib.root.lax.fori_loop(0, steps, lambda i, s: step(lib.np, cr, ci, *s), start)[2]

    def repeated(np: Any, cr: Any, ci: Any) -> Any:
        zr = zi = np.zeros_like(cr)
        count = 0
        for _ in range(steps):
            zr, zi, count = step(np, cr, ci, zr, zi, count)
        return count

    # Points on the border depend on rounding, so the mean is compared.
    return Work(
        (real, imaginary),
        lambda lib, cr, ci: lib.np.mean(program(lib, cr, ci), dtype="float32"),
        lambda cr, ci: numpy.mean(repeated(numpy, cr, ci), dtype="float32"),
        lambda torch, cr, ci: torch.mean(repeated(torch, cr, ci).to(torch.float32)),
        "mandelbrot" if steps == 50 else None,
    )


def life(n: int, steps: int) -> Work:
    """Play the game of life."""

    def step(np: Any, board: Any) -> Any:
        near = -board
        for i in (-1, 0, 1):
            for j in (-1, 0, 1):
                near = near + np.roll(board, (i, j), (0, 1))
        return ((near == 3) | ((board == 1) & (near == 2))) * np.ones_like(board)

    def repeated(np: Any, board: Any) -> Any:
        for _ in range(steps):
            board = step(np, board)
        return board

    return Work(
        (integers(n, n, high=2),),
        lambda lib, b: lib.root.lax.fori_loop(0, steps, lambda i, b: step(lib.np, b), b),
        lambda b: repeated(numpy, b),
        repeated,
        "life" if steps == 10 else None,
    )


def black_scholes(n: int) -> Work:
    """Price options, calls and puts."""

    def price(np: Any, erf: Any, spot: Any, strike: Any, time: Any) -> Any:
        rate, volatility = 0.02, 0.3
        root = volatility * np.sqrt(time)
        d1 = (np.log(spot / strike) + (rate + volatility**2 / 2) * time) / root
        d2 = d1 - root
        c1, c2 = (0.5 + 0.5 * erf(d * 0.7071067811865476) for d in (d1, d2))
        discounted = strike * np.exp(-rate * time)
        call = spot * c1 - discounted * c2
        return call, call - spot + discounted

    return Work(
        (
            uniform(n, low=10, high=50),
            uniform(n, low=10, high=50, seed=1),
            uniform(n, low=1, high=2),
        ),
        lambda lib, *xs: price(lib.np, lib.root.lax.erf, *xs),
        lambda *xs: price(numpy, scipy.special.erf, *xs),
        lambda torch, *xs: price(torch, torch.erf, *xs),
        "black_scholes",
    )


def n_body(n: int, steps: int) -> Work:
    """Move bodies that attract each other."""

    def step(np: Any, x: Any, v: Any) -> Any:
        apart = x[None, :, :] - x[:, None, :]
        square = np.sum(apart * apart, 2) + 0.01
        force = np.sum(apart * (square**-1.5)[:, :, None], 1)
        v = v + 0.001 * force
        return x + 0.001 * v, v

    def repeated(np: Any, x: Any, v: Any) -> Any:
        for _ in range(steps):
            x, v = step(np, x, v)
        return x, v

    def program(lib: Any, x: Any, v: Any) -> Any:
        return lib.root.lax.fori_loop(0, steps, lambda i, s: step(lib.np, *s), (x, v))

    return Work(
        (normal(n, 3), normal(n, 3, seed=1)),
        program,
        lambda x, v: repeated(numpy, x, v),
        repeated,
        "n_body" if steps == 10 else None,
    )


def _lorenz(np: Any, u: Any) -> Any:
    x, y, z = u[0], u[1], u[2]
    return np.stack([10 * (y - x), x * (28 - z) - y, x * y - 2.667 * z])


def _runge_kutta(np: Any, u: Any, h: Any) -> Any:
    a = _lorenz(np, u)
    b = _lorenz(np, u + 0.5 * h * a)
    c = _lorenz(np, u + 0.5 * h * b)
    return u + h / 6 * (a + 2 * b + 2 * c + _lorenz(np, u + h * c))


def runge_kutta(n: int, steps: int) -> Work:
    """Integrate the equations of Lorenz from many starts, with fixed steps."""

    def repeated(np: Any, u: Any) -> Any:
        for _ in range(steps):
            u = _runge_kutta(np, u, 0.002)
        return u

    def program(lib: Any, u: Any) -> Any:
        return lib.root.lax.fori_loop(0, steps, lambda i, u: _runge_kutta(lib.np, u, 0.002), u)

    return Work((normal(3, n),), program, lambda u: repeated(numpy, u), repeated)


def adaptive(end: float) -> Work:
    """Integrate an oscillator, with steps that keep the error small."""

    def field(np: Any, u: Any) -> Any:
        return np.stack([u[1], (1 - u[0] * u[0]) * u[1] - u[0]])

    def attempt(np: Any, t: Any, u: Any, h: Any) -> Any:
        a = field(np, u)
        b = field(np, u + 0.5 * h * a)
        c = field(np, u + 0.75 * h * b)
        after = u + h * (2 * a + 3 * b + 4 * c) / 9
        d = field(np, after)
        error = np.max(np.abs(h * (-5 * a / 72 + b / 12 + c / 9 - d / 8)))
        good = error < 1e-5
        factor = np.clip(0.9 * (1e-5 / (error + 1e-12)) ** (1 / 3), 0.2, 5.0)
        return np.where(good, t + h, t), np.where(good, after, u), h * factor

    def program(lib: Any, u: Any) -> Any:
        np = lib.np
        start = (np.float32(0), u, np.float32(0.01))
        return lib.root.lax.while_loop(lambda s: s[0] < end, lambda s: attempt(np, *s), start)[1]

    def plain(u: Any) -> Any:
        t, h = numpy.float32(0), numpy.float32(0.01)
        while t < end:
            t, u, h = attempt(numpy, t, u, h)
        return u

    return Work((numpy.array([2, 0.5], "float32"),), program, plain)


def leapfrog(n: int, samples: int) -> Work:
    """Sample a regression by Hamiltonian Monte Carlo, with ten leapfrog steps each."""

    def program(lib: Any, key: Any, w: Any, x: Any, y: Any) -> Any:
        np, random = lib.np, lib.root.random

        def energy(w: Any) -> Any:
            z = x @ w
            return np.sum(np.logaddexp(0.0, z) - y * z) + 0.5 * np.sum(w * w)

        slope = lib.root.grad(energy)

        def step(w: Any, key: Any) -> Any:
            first, second = random.split(key)
            start = random.normal(first, w.shape)

            def move(i: Any, state: Any) -> Any:
                q, p = state
                p = p - 0.005 * slope(q)
                q = q + 0.01 * p
                return q, p - 0.005 * slope(q)

            q, p = lib.root.lax.fori_loop(0, 10, move, (w, start))
            change = energy(w) - energy(q) + 0.5 * np.sum(start * start) - 0.5 * np.sum(p * p)
            w = np.where(np.log(random.uniform(second)) < change, q, w)
            return w, w

        return lib.root.lax.scan(step, w, random.split(key, samples))[1]

    x = normal(n, 8)
    y = (x @ normal(8, seed=1) > 0).astype("float32")
    return Work((numpy.array([0, 7], "uint32"), numpy.zeros(8, "float32"), x, y), program)


def k_means(n: int, clusters: int, steps: int) -> Work:
    """Find the centers of clusters."""

    def program(lib: Any, points: Any, centers: Any) -> Any:
        np = lib.np

        def step(i: Any, centers: Any) -> Any:
            far = np.sum(centers**2, 1)[None, :] - 2 * points @ centers.T
            nearest = np.argmin(far, 1)
            total = np.zeros_like(centers).at[nearest].add(points)
            count = np.zeros(clusters, "float32").at[nearest].add(1.0)
            return total / np.maximum(count, 1)[:, None]

        return lib.root.lax.fori_loop(0, steps, step, centers)

    def plain(points: Any, centers: Any) -> Any:
        for _ in range(steps):
            far = numpy.sum(centers**2, 1)[None, :] - 2 * points @ centers.T
            nearest = numpy.argmin(far, 1)
            columns = [numpy.bincount(nearest, c, clusters) for c in points.T]
            count = numpy.bincount(nearest, minlength=clusters)
            centers = (numpy.stack(columns, 1) / numpy.maximum(count, 1)[:, None]).astype("float32")
        return centers

    def torch_of(torch: Any, points: Any, centers: Any) -> Any:
        ones = torch.ones(points.shape[0])
        for _ in range(steps):
            far = torch.sum(centers**2, 1)[None, :] - 2 * points @ centers.T
            nearest = torch.argmin(far, 1)
            total = torch.zeros_like(centers).index_add(0, nearest, points)
            count = torch.zeros(clusters).index_add(0, nearest, ones)
            centers = total / torch.clamp(count, min=1)[:, None]
        return centers

    middles = 10 * normal(clusters, 4, seed=1)
    points = middles[integers(n, high=clusters)] + normal(n, 4, seed=2)
    return Work((points, (middles + 0.5).astype("float32")), program, plain, torch_of)


def page_rank(n: int, links: int, steps: int) -> Work:
    """Rank the nodes of a graph."""
    sources, targets = (integers(links, high=n, seed=s) for s in (0, 1))
    degree = numpy.maximum(numpy.bincount(sources, minlength=n), 1).astype("float32")

    def program(lib: Any, sources: Any, targets: Any, degree: Any) -> Any:
        np = lib.np

        def step(i: Any, rank: Any) -> Any:
            return 0.15 / n + 0.85 * np.zeros(n).at[targets].add((rank / degree)[sources])

        return lib.root.lax.fori_loop(0, steps, step, np.full(n, 1 / n, "float32"))

    def plain(sources: Any, targets: Any, degree: Any) -> Any:
        rank = numpy.full(n, 1 / n, "float32")
        for _ in range(steps):
            total = numpy.bincount(targets, (rank / degree)[sources], n).astype("float32")
            rank = numpy.float32(0.15 / n) + numpy.float32(0.85) * total
        return rank

    def torch_of(torch: Any, sources: Any, targets: Any, degree: Any) -> Any:
        rank = torch.full((n,), 1 / n)
        for _ in range(steps):
            total = torch.zeros(n).index_add(0, targets, (rank / degree)[sources])
            rank = 0.15 / n + 0.85 * total
        return rank

    name = "page_rank" if steps == 20 else None
    return Work((sources, targets, degree), program, plain, torch_of, name)


def image_pipeline(n: int) -> Work:
    """Blur an image, find its edges, and cut off weak ones."""
    weights = (1 / 16, 4 / 16, 6 / 16, 4 / 16, 1 / 16)

    def of(np: Any, x: Any) -> Any:
        x = sum(w * x[i : n - 4 + i, :] for i, w in enumerate(weights))
        x = sum(w * x[:, i : n - 4 + i] for i, w in enumerate(weights))
        smooth = x[:-2, :] + 2 * x[1:-1, :] + x[2:, :]
        across = smooth[:, 2:] - smooth[:, :-2]
        smooth = x[:, :-2] + 2 * x[:, 1:-1] + x[:, 2:]
        down = smooth[2:, :] - smooth[:-2, :]
        edge = np.sqrt(across * across + down * down)
        return np.where(edge > 0.02, edge - 0.02, 0.0 * edge)

    def plain(x: Any) -> Any:
        for axis in (0, 1):
            x = scipy.ndimage.correlate1d(x, weights, axis)
        edge = numpy.hypot(scipy.ndimage.sobel(x, 1), scipy.ndimage.sobel(x, 0))[3:-3, 3:-3]
        return numpy.maximum(edge - numpy.float32(0.02), 0)

    rows, columns = numpy.mgrid[0:n, 0:n].astype("float32") / n
    return shared(of, numpy.sin(9 * rows) * numpy.cos(7 * columns), plain=plain)


def monte_carlo(n: int, steps: int) -> Work:
    """Simulate paths of a price and return the mean pay-off."""

    def program(lib: Any, key: Any) -> Any:
        np, random = lib.np, lib.root.random

        def step(price: Any, key: Any) -> Any:
            return price * np.exp(-0.0002 + 0.02 * random.normal(key, (n,))), None

        price = lib.root.lax.scan(step, np.ones(n), random.split(key, steps))[0]
        return np.mean(np.maximum(price - 1, 0))

    def plain(key: Any) -> Any:
        generator, price = numpy.random.default_rng(0), numpy.ones(n, "float32")
        for _ in range(steps):
            price = price * numpy.exp(-0.0002 + 0.02 * generator.standard_normal(n, "float32"))
        return numpy.mean(numpy.maximum(price - 1, 0))

    def torch_of(torch: Any, key: Any) -> Any:
        price = torch.ones(n)
        for _ in range(steps):
            price = price * torch.exp(-0.0002 + 0.02 * torch.randn(n))
        return torch.mean(torch.clamp(price - 1, min=0))

    return Work((numpy.array([0, 3], "uint32"),), program, plain, torch_of)


def heat(n: int, steps: int) -> Work:
    """Let heat spread over a plate whose edge is kept cold."""

    def step(np: Any, u: Any) -> Any:
        inner = u[1:-1, 1:-1]
        around = u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]
        return inner + 0.2 * (around - 4 * inner)

    def program(lib: Any, u: Any) -> Any:
        def body(i: Any, u: Any) -> Any:
            return u.at[1:-1, 1:-1].set(step(lib.np, u))

        return lib.root.lax.fori_loop(0, steps, body, u)

    def plain(u: Any) -> Any:
        u = u.copy()
        for _ in range(steps):
            u[1:-1, 1:-1] = step(numpy, u)
        return u

    def torch_of(torch: Any, u: Any) -> Any:
        u = u.clone()
        for _ in range(steps):
            u[1:-1, 1:-1] = step(torch, u)
        return u

    return Work((uniform(n, n),), program, plain, torch_of, "heat" if steps == 50 else None)


def conjugate_gradients(n: int, steps: int) -> Work:
    """Solve equations by conjugate gradients."""
    a = normal(n, n, seed=2) / numpy.float32(n**0.5)
    a = a @ a.T + numpy.eye(n, dtype="float32")

    def step(np: Any, a: Any, x: Any, r: Any, p: Any) -> Any:
        ap = a @ p
        square = np.sum(r * r)
        alpha = square / np.sum(p * ap)
        x, r = x + alpha * p, r - alpha * ap
        return x, r, r + np.sum(r * r) / square * p

    def repeated(np: Any, a: Any, b: Any) -> Any:
        x, r, p = np.zeros_like(b), b, b
        for _ in range(steps):
            x, r, p = step(np, a, x, r, p)
        return x

    def program(lib: Any, a: Any, b: Any) -> Any:
        start = (lib.np.zeros_like(b), b, b)
        return lib.root.lax.fori_loop(0, steps, lambda i, s: step(lib.np, a, *s), start)[0]

    return Work(
        (a, normal(n)),
        program,
        lambda a, b: repeated(numpy, a, b),
        repeated,
    )


def kalman(steps: int) -> Work:
    """Follow a moving point by a Kalman filter."""

    def program(lib: Any, seen: Any) -> Any:
        np = lib.np
        move = np.array([[1.0, 0.1], [0.0, 1.0]], "float32")
        noise = 0.01 * np.eye(2, dtype="float32")

        def step(state: Any, z: Any) -> Any:
            x, p = state
            x, p = move @ x, move @ p @ move.T + noise
            gain = p[:, 0] / (p[0, 0] + 0.5)
            x = x + gain * (z - x[0])
            return (x, p - np.outer(gain, p[0])), x[0]

        start = (np.zeros(2, "float32"), np.eye(2, dtype="float32"))
        return lib.root.lax.scan(step, start, seen)[1]

    def plain(seen: Any) -> Any:
        move = numpy.array([[1.0, 0.1], [0.0, 1.0]], "float32")
        noise = numpy.float32(0.01) * numpy.eye(2, dtype="float32")
        x, p, out = numpy.zeros(2, "float32"), numpy.eye(2, dtype="float32"), []
        for z in seen:
            x, p = move @ x, move @ p @ move.T + noise
            gain = p[:, 0] / (p[0, 0] + numpy.float32(0.5))
            x = x + gain * (z - x[0])
            p = p - numpy.outer(gain, p[0])
            out.append(x[0])
        return numpy.array(out)

    return Work((numpy.cumsum(normal(steps)) * numpy.float32(0.1),), program, plain)


ROWS = [
    Row("Mandelbrot 512^2, 50 steps", "program", mandelbrot, (512, 50), (9, 5), 1e-3),
    Row("game of life 1024^2, 10 steps", "program", life, (1024, 10), (8, 2)),
    Row("Black-Scholes 1e6", "program", black_scholes, (1_000_000,), (9,), 1e-4, compiled=True),
    Row("N-body 512, 10 steps", "program", n_body, (512, 10), (4, 2), 1e-3),
    Row("ODE of 1e4, 100 steps of RK4", "program", runge_kutta, (10_000, 100), (4, 3), 1e-3),
    Row("ODE, adaptive steps", "program", adaptive, (20.0,), (1.0,), 1e-2),
    Row("HMC, 100 samples", "program", leapfrog, (256, 100), (9, 2), 1e-2),
    Row("k-means 1e5 x 4, 16 clusters", "program", k_means, (100_000, 16, 10), (40, 3, 2), 1e-3),
    Row(
        "PageRank 1e5 nodes, 1e6 links",
        "program",
        page_rank,
        (100_000, 1_000_000, 20),
        (9, 30, 3),
        1e-3,
    ),
    Row("image pipeline 1024^2", "program", image_pipeline, (1024,), (12,), 1e-3, compiled=True),
    Row(
        "Monte Carlo, 1e5 paths, 20 steps",
        "program",
        monte_carlo,
        (100_000, 20),
        (9, 2),
        1e-3,
        by_shape=("numpy", "torch", "torch.compile", "numba"),
    ),
    Row("heat on 512^2, 50 steps", "program", heat, (512, 50), (7, 3), 1e-4),
    Row(
        "conjugate gradients 512, 15 steps", "program", conjugate_gradients, (512, 15), (5, 3), 1e-3
    ),
    Row("Kalman filter, 1000 steps", "program", kalman, (1000,), (6,), 1e-3),
]
