"""Models of other data: graphs, clicks, measurements over time, rewards."""

from __future__ import annotations

from typing import Any

import numpy

from benchmarks.models.layers import Init, inference, layer, training
from benchmarks.suite.row import Row, Work, integers, normal, uniform


def graph(nodes: int, edges: int, width: int, rounds: int, learns: bool = False) -> Work:
    """Pass messages along the edges of a graph, each a function of both ends."""
    init = Init()
    for i in range(rounds):
        for name, inputs in (("edge", 2 * width), ("node", 2 * width)):
            init.dense(f"{i} {name} a", inputs, width)
            init.dense(f"{i} {name} b", width, width)
    init.dense("head", width, 1)

    def model(ops: Any, p: Any, x: Any, sources: Any, targets: Any) -> Any:
        def pair(name: str, y: Any) -> Any:
            return layer(ops, p, f"{name} b", ops.relu(layer(ops, p, f"{name} a", y)))

        for i in range(rounds):
            ends = ops.joined([ops.rows(x, sources), ops.rows(x, targets)], -1)
            received = ops.sums(pair(f"{i} edge", ends), targets, nodes)
            x = x + pair(f"{i} node", ops.joined([x, received], -1))
        return layer(ops, p, "head", x)[:, 0]

    def loss(ops: Any, p: Any, x: Any, sources: Any, targets: Any, y: Any) -> Any:
        return ops.mean((model(ops, p, x, sources, targets) - y) ** 2)

    x, ends = normal(nodes, width), [integers(edges, high=nodes, seed=i) for i in range(2)]
    if learns:
        return training(loss, init.weights, x, *ends, normal(nodes, seed=5))
    return inference(model, init.weights, x, *ends)


def dlrm(batch: int, tables: int, length: int, width: int, learns: bool = False) -> Work:
    """Predict clicks from numbers and from rows of tables, by their inner products."""
    init, numbers = Init(), 13
    for i in range(tables):
        init.normal(f"table {i}", length, width, scale=0.1)
    pairs = numpy.tril_indices(tables + 1, -1)
    places = (pairs[0] * (tables + 1) + pairs[1]).astype("int32")
    for name, a, b in (
        ("b0", numbers, 256),
        ("b1", 256, width),
        ("t0", width + len(places), 256),
        ("t1", 256, 128),
        ("t2", 128, 1),
    ):
        init.dense(name, a, b)

    def model(ops: Any, p: Any, x: Any, words: Any, places: Any) -> Any:
        x = ops.relu(layer(ops, p, "b1", ops.relu(layer(ops, p, "b0", x))))
        found = [ops.rows(p[f"table {i}"], words[:, i])[:, None] for i in range(tables)]
        together = ops.joined([x[:, None], *found], 1)
        products = (together @ ops.swapped(together, 1, 2)).reshape(batch, -1)
        products = ops.columns(products, places)
        y = ops.joined([x, products], 1)
        y = ops.relu(layer(ops, p, "t0", y))
        return ops.sigmoid(layer(ops, p, "t2", ops.relu(layer(ops, p, "t1", y))))[:, 0]

    def loss(ops: Any, p: Any, x: Any, words: Any, places: Any, clicks: Any) -> Any:
        return ops.mean((model(ops, p, x, words, places) - clicks) ** 2)

    inputs = (normal(batch, numbers), integers(batch, tables, high=length), places)
    if learns:
        return training(loss, init.weights, *inputs, uniform(batch))
    return inference(model, init.weights, *inputs)


def kalman(filters: int, steps: int) -> Work:
    """Track points in the plane by a bank of Kalman filters over the same time steps."""
    moves = numpy.eye(4, dtype="float32")
    moves[0, 2] = moves[1, 3] = 0.1
    weights = {
        "moves": moves,
        "sees": numpy.eye(2, 4, dtype="float32"),
        "drift": 0.01 * numpy.eye(4, dtype="float32"),
        "blur": 0.1 * numpy.eye(2, dtype="float32"),
    }

    def step(np: Any, p: Any, state: Any, y: Any) -> Any:
        x, cov = state
        x = x @ p["moves"].T
        cov = p["moves"] @ cov @ p["moves"].T + p["drift"]
        seen = p["sees"] @ cov
        gain = np.linalg.solve(seen @ p["sees"].T + p["blur"], seen)
        off = y - x @ p["sees"].T
        x = x + (off[:, None, :] @ gain)[:, 0]
        return x, cov - np.swapaxes(gain, 1, 2) @ seen

    def program(lib: Any, p: Any, ys: Any) -> Any:
        def body(state: Any, y: Any) -> Any:
            state = step(lib.np, p, state, y)
            return state, state[0]

        start = (lib.np.zeros((filters, 4)), lib.np.tile(lib.np.eye(4), (filters, 1, 1)))
        return lib.root.lax.scan(body, start, ys)[1]

    def torch_of(torch: Any, p: Any, ys: Any) -> Any:
        state, found = (torch.zeros(filters, 4), torch.eye(4).repeat(filters, 1, 1)), []
        for y in ys:
            state = step(torch, p, state, y)
            found.append(state[0])
        return torch.stack(found)

    return Work((weights, normal(steps, filters, 2)), program, torch=torch_of, constants=1)


def ppo(steps: int, games: int, seen: int, width: int) -> Work:
    """Improve a policy by a step of proximal policy optimization, advantages included."""
    init, actions, discount, decay = Init(), 6, 0.99, 0.95
    for name, a, b in (
        ("0", seen, width), ("1", width, width), ("policy", width, actions), ("value", width, 1),
    ):  # fmt: skip
        init.dense(name, a, b)
    folded = steps * games

    def loss(ops: Any, p: Any, x: Any, taken: Any, rewards: Any, values: Any, before: Any) -> Any:
        surprise = rewards + discount * values[1:] - values[:-1]
        gained = ops.discounted(surprise, discount * decay).reshape(folded)
        y = ops.np.tanh(layer(ops, p, "1", ops.np.tanh(layer(ops, p, "0", x))))
        chances = ops.softmax(layer(ops, p, "policy", y), axis=-1)
        chosen = ops.np.log((chances * taken).sum(-1))
        ratio = ops.np.exp(chosen - before)
        scaled = (gained - gained.mean()) / (((gained - gained.mean()) ** 2).mean() ** 0.5 + 1e-6)
        clipped = ops.np.clip(ratio, 0.8, 1.2)
        gains = ops.np.minimum(ratio * scaled, clipped * scaled)
        entropy = -(chances * ops.np.log(chances)).sum(-1)
        off = layer(ops, p, "value", y)[:, 0] - (gained + values[:-1].reshape(folded))
        return -gains.mean() + 0.5 * (off**2).mean() - 0.01 * entropy.mean()

    taken = numpy.eye(actions, dtype="float32")[integers(folded, high=actions)]
    return training(
        loss,
        init.weights,
        normal(folded, seen),
        taken,
        normal(steps, games, seed=2),
        normal(steps + 1, games, seed=3),
        -uniform(folded, low=1.5, high=2.0),
    )


def _rows(name: str, build: Any, size: Any, tiny: Any) -> list[Row]:
    step = (*size, True), (*tiny, True)
    return [
        Row(name, "inference", build, size, tiny, 1e-3, compiled=True, exported=True),
        Row(f"{name}, training", "training", build, *step, 1e-3, compiled=True),
    ]


ROWS = [
    *_rows("graph network, 2000 nodes, 8000 edges", graph, (2000, 8000, 64, 3), (5, 9, 4, 2)),
    *_rows("DLRM, 512 x 8 tables of 1e4", dlrm, (512, 8, 10_000, 32), (3, 2, 5, 4)),
    Row("Kalman filters, 256 of 100 steps", "inference", kalman, (256, 100), (3, 5), 1e-3),
    Row("PPO, 128 x 16", "training", ppo, (128, 16, 32, 128), (4, 2, 3, 5), 1e-3, compiled=True),
]
