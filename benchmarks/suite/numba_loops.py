"""The rows as loops for numba, which compiles them; imported only where numba is installed.

Plain functions: every row compiles its own, so that a first call is one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import prange


def add_one(x: Any) -> Any:
    """Add one."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] + 1
    return out


def selu(x: Any) -> Any:
    """Return the activation of the tutorial."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = 1.05 * x[i] if x[i] > 0 else 1.05 * (1.67 * np.exp(x[i]) - 1.67)
    return out


def gelu(x: Any) -> Any:
    """Return the activation by its approximation with tanh."""
    out = np.empty_like(x)
    c, s, half, one = np.float32(0.044715), np.float32(0.7978845608), np.float32(0.5), np.float32(1)
    for i in prange(x.size):
        v = x[i]
        out[i] = half * v * (one + np.tanh(s * (v + c * v * v * v)))
    return out


def silu(x: Any) -> Any:
    """Return x times its logistic function."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = x[i] / (np.float32(1) + np.exp(-x[i]))
    return out


def polynomial(x: Any) -> Any:
    """Evaluate a polynomial of degree seven by Horner's rule."""
    out = np.empty_like(x)
    for i in prange(x.size):
        v = x[i]
        t = v * np.float32(0.3) + np.float32(-1.2)
        t = t * v + np.float32(0.7)
        t = t * v + np.float32(2.0)
        t = t * v + np.float32(-0.4)
        t = t * v + np.float32(0.9)
        t = t * v + np.float32(1.1)
        out[i] = t * v + np.float32(-0.6)
    return out


def stencil(x: Any) -> Any:
    """Average the four neighbors of each inner point."""
    n, m = x.shape
    out = np.empty((n - 2, m - 2), x.dtype)
    quarter = np.float32(0.25)
    for i in prange(1, n - 1):
        for j in range(1, m - 1):
            around = x[i - 1, j] + x[i + 1, j] + x[i, j - 1] + x[i, j + 1]
            out[i - 1, j - 1] = quarter * around
    return out


def exp(x: Any) -> Any:
    """Apply exp."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.exp(x[i])
    return out


def log(x: Any) -> Any:
    """Apply log."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.log(x[i])
    return out


def tanh(x: Any) -> Any:
    """Apply tanh."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.tanh(x[i])
    return out


def sin(x: Any) -> Any:
    """Apply sin."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.sin(x[i])
    return out


def cos(x: Any) -> Any:
    """Apply cos."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.cos(x[i])
    return out


def sin_cos(x: Any) -> Any:
    """Add sin and cos."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.sin(x[i]) + np.cos(x[i])
    return out


def atan2(y: Any, x: Any) -> Any:
    """Return angles."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.arctan2(y[i], x[i])
    return out


def erf(x: Any) -> Any:
    """Apply the error function."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = math.erf(x[i])
    return out


def log1p(x: Any) -> Any:
    """Apply log1p."""
    out = np.empty_like(x)
    for i in prange(x.size):
        out[i] = np.log1p(x[i])
    return out


def sum_all(x: Any) -> Any:
    """Add everything."""
    total = np.float32(0)
    for i in prange(x.shape[0]):
        part = np.float32(0)
        for j in range(x.shape[1]):
            part += x[i, j]
        total += part
    return total


def sum_rows(x: Any) -> Any:
    """Add along axis 1."""
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        out[i] = x[i].sum()
    return out


def argmax_rows(x: Any) -> Any:
    """Return where each row is greatest."""
    out = np.empty(x.shape[0], np.int32)
    for i in prange(x.shape[0]):
        out[i] = x[i].argmax()
    return out


def softmax(x: Any) -> Any:
    """Return the softmax of each row."""
    out = np.empty_like(x)
    for i in prange(x.shape[0]):
        greatest, total = x[i].max(), np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = np.exp(x[i, j] - greatest)
            total += out[i, j]
        for j in range(x.shape[1]):
            out[i, j] /= total
    return out


def logsumexp(x: Any) -> Any:
    """Return the logarithm of the sum of exponentials of each row."""
    out = np.empty(x.shape[0], x.dtype)
    for i in prange(x.shape[0]):
        greatest, total = x[i].max(), np.float32(0)
        for j in range(x.shape[1]):
            total += np.exp(x[i, j] - greatest)
        out[i] = greatest + np.log(total)
    return out


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    """Normalize each row, then scale and shift."""
    out = np.empty_like(x)
    n = np.float32(x.shape[1])
    for i in prange(x.shape[0]):
        mean, square = np.float32(0), np.float32(0)
        for j in range(x.shape[1]):
            mean += x[i, j]
        mean /= n
        for j in range(x.shape[1]):
            square += (x[i, j] - mean) * (x[i, j] - mean)
        factor = np.float32(1) / np.sqrt(square / n + np.float32(1e-5))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - mean) * factor * scale[j] + shift[j]
    return out


def transpose_add(x: Any) -> Any:
    """Transpose and add one, block by block."""
    n, m = x.shape
    out = np.empty((m, n), x.dtype)
    for block in prange((m + 31) // 32):
        for i in range(n):
            for j in range(32 * block, min(m, 32 * block + 32)):
                out[j, i] = x[i, j] + 1
    return out


def gather_rows(x: Any, rows: Any) -> Any:
    """Look up rows of a table."""
    out = np.empty((rows.size, x.shape[1]), x.dtype)
    for i in prange(rows.size):
        out[i] = x[rows[i]]
    return out


def segment_sum(x: Any, of: Any) -> Any:
    """Add numbers by the segment they belong to."""
    out = np.zeros(1000, x.dtype)
    for i in range(x.size):
        out[of[i]] += x[i]
    return out


def cumsum(x: Any) -> Any:
    """Add cumulatively."""
    out = np.empty_like(x)
    total = np.float32(0)
    for i in range(x.size):
        total += x[i]
        out[i] = total
    return out


def rnn(h: Any, w: Any, xs: Any) -> Any:
    """Run a recurrent cell over a sequence; return the last state."""
    h = h.copy()
    after = np.empty_like(h)
    for t in range(xs.shape[0]):
        after[:] = xs[t]
        for k in range(h.size):
            for j in range(h.size):
                after[j] += h[k] * w[k, j]
        for j in range(h.size):
            h[j] = np.tanh(after[j])
    return h


def smoothing(x: Any) -> Any:
    """Smooth a sequence exponentially."""
    out = np.empty_like(x)
    state = np.float32(0)
    for i in range(x.size):
        state = np.float32(0.95) * state + np.float32(0.05) * x[i]
        out[i] = state
    return out


def recurrence(a: Any, b: Any) -> Any:
    """Solve a linear recurrence."""
    out = np.empty_like(b)
    state = np.float32(0)
    for i in range(b.size):
        state = a[i] * state + b[i]
        out[i] = state
    return out


def filled_together(force: Any) -> Any:
    """Fill positions and velocities of an oscillator from each other."""
    x, v = np.ones_like(force), np.zeros_like(force)
    step, kept = np.float32(0.01), np.float32(0.99)
    for i in range(1, force.size):
        x[i] = x[i - 1] + step * v[i - 1]
        v[i] = kept * v[i - 1] - step * x[i - 1] + force[i]
    return x, v


def edit_distances(first: Any, second: Any) -> Any:
    """Fill the table of edit distances."""
    n, m = first.size, second.size
    table = np.zeros((n + 1, m + 1), np.float32)
    table[0] = np.arange(m + 1)
    table[:, 0] = np.arange(n + 1)
    one = np.float32(1)
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            changed = np.float32(0) if first[i - 1] == second[j - 1] else one
            least = min(table[i - 1, j], table[i, j - 1]) + one
            table[i, j] = min(least, table[i - 1, j - 1] + changed)
    return table


def fori(x: Any) -> Any:
    """Update a number 100,000 times."""
    value = np.float32(x.item())
    for _ in range(100_000):
        value = value * np.float32(0.999) + np.float32(1)
    return value


def collatz(x: Any) -> Any:
    """Count the steps of the Collatz map."""
    out = np.zeros_like(x)
    for i in prange(x.size):
        value, steps = x[i], 0
        while value > 1:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        out[i] = steps
    return out


def switching(ops: Any) -> Any:
    """Choose one of four branches at every step."""
    x = np.float32(0)
    for i in range(ops.size):
        if ops[i] == 0:
            x = x + np.float32(1)
        elif ops[i] == 1:
            x = x * np.float32(0.5)
        elif ops[i] == 2:
            x = np.sin(x)
        else:
            x = x - np.float32(0.25)
    return x


def sort(x: Any) -> Any:
    """Sort a vector."""
    return np.sort(x)


def draw_normal(key: Any) -> Any:
    """Draw a million numbers from the normal distribution."""
    out = np.empty(1_000_000, np.float32)
    for i in prange(out.size):
        out[i] = np.random.standard_normal()
    return out


def mandelbrot(real: Any, imaginary: Any) -> Any:
    """Return the mean number of steps, of 50, until each point escapes."""
    n, m = real.shape
    total = 0
    for i in prange(n):
        part = 0
        for j in range(m):
            zr = zi = np.float32(0)
            for _ in range(50):
                if not zr * zr + zi * zi < 4:
                    break
                after = zr * zr - zi * zi + real[i, j]
                zi = np.float32(2) * zr * zi + imaginary[i, j]
                zr = after
                part += 1
        total += part
    return np.float32(total / (n * m))


def life(board: Any) -> Any:
    """Play ten steps of the game of life."""
    n, m = board.shape
    for _ in range(10):
        after = np.empty_like(board)
        for i in prange(n):
            up, down = (i - 1) % n, (i + 1) % n
            for j in range(m):
                left, right = (j - 1) % m, (j + 1) % m
                near = board[up, left] + board[up, j] + board[up, right] + board[i, left]
                near += board[i, right] + board[down, left] + board[down, j] + board[down, right]
                after[i, j] = near == 3 or (near == 2 and board[i, j] == 1)
        board = after
    return board


def black_scholes(spot: Any, strike: Any, time: Any) -> Any:
    """Price options, calls and puts."""
    call, put = np.empty_like(spot), np.empty_like(spot)
    for i in prange(spot.size):
        root = 0.3 * np.sqrt(time[i])
        d1 = (np.log(spot[i] / strike[i]) + 0.065 * time[i]) / root
        c1 = 0.5 + 0.5 * math.erf(d1 * 0.7071067811865476)
        c2 = 0.5 + 0.5 * math.erf((d1 - root) * 0.7071067811865476)
        discounted = strike[i] * np.exp(-0.02 * time[i])
        call[i] = spot[i] * c1 - discounted * c2
        put[i] = call[i] - spot[i] + discounted
    return call, put


def n_body(x: Any, v: Any) -> Any:
    """Move bodies that attract each other, ten steps."""
    x, v = x.copy(), v.copy()
    n = x.shape[0]
    for _ in range(10):
        for i in prange(n):
            fx = fy = fz = np.float32(0)
            for j in range(n):
                dx, dy, dz = x[j, 0] - x[i, 0], x[j, 1] - x[i, 1], x[j, 2] - x[i, 2]
                square = dx * dx + dy * dy + dz * dz + np.float32(0.01)
                weight = np.float32(1) / (square * np.sqrt(square))
                fx += dx * weight
                fy += dy * weight
                fz += dz * weight
            v[i, 0] += np.float32(0.001) * fx
            v[i, 1] += np.float32(0.001) * fy
            v[i, 2] += np.float32(0.001) * fz
        x += np.float32(0.001) * v
    return x, v


def page_rank(sources: Any, targets: Any, degree: Any) -> Any:
    """Rank the nodes of a graph, twenty steps."""
    n = degree.size
    rank = np.full(n, 1 / n, np.float32)
    for _ in range(20):
        share = rank / degree
        rank = np.full(n, 0.15 / n, np.float32)
        for i in range(sources.size):
            rank[targets[i]] += np.float32(0.85) * share[sources[i]]
    return rank


def heat(u: Any) -> Any:
    """Let heat spread over a plate, fifty steps."""
    n, m = u.shape
    u = u.copy()
    other = u.copy()
    for _ in range(50):
        for i in prange(1, n - 1):
            for j in range(1, m - 1):
                around = u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1]
                other[i, j] = u[i, j] + np.float32(0.2) * (around - np.float32(4) * u[i, j])
        u, other = other, u
    return u
