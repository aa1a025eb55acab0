"""Train a transformer to continue a book letter by letter, written with kiln.linen.

The book is `data/alice.txt`; its last tenth is held out. The layers are one `scan` over a block
whose activations are recomputed in the backward pass (`remat`). Afterwards the same network,
behind `linen.jit` and with a cache of keys and values, writes a text letter by letter. Shows a
progress bar, prints the loss on the held-out text, and draws the loss curve into
`char_transformer.png`.

    python examples/char_transformer.py [--steps 1200] [--out char_transformer.png]
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adam
import kiln
import kiln.numpy as jnp
import progress
from kiln import lax, random
from kiln import linen as nn

BOOK = Path(__file__).parent / "data" / "alice.txt"
BATCH, LENGTH = 8, 64
RATE, WARMUP, STEPS = 8e-3, 40, 1200
ENOUGH = 2.7


class Block(nn.Module):
    """Attention, then a small network at each position; both are added to what comes in."""

    heads: int
    dropout: float
    train: bool
    decode: bool

    @nn.compact
    def __call__(self, x: Any, mask: Any) -> tuple[Any, None]:
        """Return what `scan` carries to the next layer, and nothing for it to stack."""
        attention = nn.MultiHeadAttention(self.heads, decode=self.decode, name="attention")
        drop = nn.Dropout(self.dropout, deterministic=not self.train)
        x = x + drop(attention(nn.LayerNorm(name="first_norm")(x), mask=mask))
        y = nn.Dense(4 * x.shape[-1], name="wide")(nn.LayerNorm(name="second_norm")(x))
        return x + drop(nn.Dense(x.shape[-1], name="narrow")(nn.gelu(y))), None


class Transformer(nn.Module):
    """Letters in, scores of each next letter out; with `decode`, one letter at a time."""

    letters: int
    width: int = 64
    heads: int = 4
    layers: int = 3
    dropout: float = 0.05
    train: bool = False
    decode: bool = False

    @nn.compact
    def __call__(self, text: Any) -> Any:
        """Return scores: (batch, length) of numbers of letters -> (batch, length, letters)."""
        x = nn.Embed(self.letters, self.width, name="embed")(text) + self.places(text.shape[1])
        block = nn.scan(
            nn.remat(Block, prevent_cse=False),
            variable_axes={"params": 0, "cache": 0},
            split_rngs={"params": True, "dropout": True},
            in_axes=nn.broadcast,
            length=self.layers,
        )(self.heads, self.dropout, self.train, self.decode, name="blocks")
        x, _ = block(x, None if self.decode else nn.make_causal_mask(text))
        return nn.Dense(self.letters, name="scores")(nn.LayerNorm(name="last_norm")(x))

    def places(self, count: int) -> Any:
        """Return a vector for each place in the text; when decoding, from the place reached on."""
        places = self.param("places", nn.initializers.normal(0.2), (LENGTH, self.width))
        if not self.decode:
            return places[:count]
        reached = self.variable("cache", "reached", lambda: jnp.int32(0))
        here = reached.value
        if not self.is_initializing():
            reached.value = here + count
        return lax.dynamic_slice_in_dim(places, here, count)


def read() -> tuple[np.ndarray, np.ndarray, str]:
    """Return the book as numbers of letters: a part to learn, one held out; and the letters."""
    lines = BOOK.read_text(encoding="ascii").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("#"))
    letters = "".join(sorted(set(text)))
    numbers = np.array([letters.index(letter) for letter in text], np.int32)
    cut = len(numbers) * 9 // 10
    return numbers[:cut], numbers[cut:], letters


def pieces(text: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return random pieces of a text, one letter longer than what the network reads."""
    starts = rng.integers(0, len(text) - LENGTH, count)
    return text[starts[:, None] + np.arange(LENGTH + 1)]


@kiln.jit(static_argnums=0)
def loss(model: Transformer, params: Any, batch: Any, key: Any) -> Any:
    """Return the mean cross entropy of each next letter, in bits."""
    scores = model.apply({"params": params}, batch[:, :-1], rngs={"dropout": key})
    logp = jnp.take_along_axis(kiln.nn.log_softmax(scores), batch[:, 1:, None], axis=-1)
    return -jnp.mean(logp) / np.log(2)


@kiln.jit(static_argnums=0)
def update(
    model: Transformer, params: Any, state: Any, batch: Any, key: Any, rate: Any
) -> tuple[Any, Any, Any]:
    """Take one step on a mini-batch."""
    value, grads = kiln.value_and_grad(loss, 1)(model, params, batch, key)
    params, state = adam.update(params, grads, state, rate)
    return params, state, value


def train(steps: int, seed: int = 0) -> tuple[Any, list[float], tuple[float, float]]:
    """Train; return the parameters, the losses, and those on held-out text before and after."""
    learned, held, letters = read()
    model = Transformer(len(letters), train=True)
    rng = np.random.default_rng(seed)
    key = random.key(seed)
    exam = pieces(held, 64, np.random.default_rng(1))
    params = model.init(key, exam[:1, :-1])["params"]
    state = adam.init(params)
    before = float(loss(model.copy(train=False), params, exam, key))
    losses: list[Any] = []
    for step in range(steps):
        rate = RATE * min(1.0, (step + 1) / WARMUP) * (1 - step / steps)
        batch = pieces(learned, BATCH, rng)
        params, state, value = update(model, params, state, batch, random.fold_in(key, step), rate)
        losses.append(value)
        if (step + 1) % 10 == 0 or step + 1 == steps:
            progress.show(step + 1, steps, f"loss {float(value):.3f} bits")
    after = float(loss(model.copy(train=False), params, exam, key))
    return params, [float(x) for x in losses], (before, after)


Decoder = nn.jit(Transformer)


def write(params: Any, prompt: str, count: int, heat: float = 0.5, seed: int = 0) -> Iterator[str]:
    """Yield letters that continue a prompt; with heat 0, the most likely one each time.

    A cache that is full begins anew, with the last half of what was read.
    """
    letters = read()[2]
    decoder = Decoder(len(letters), decode=True)
    shapes = kiln.eval_shape(decoder.init, random.key(0), jnp.zeros((1, LENGTH), np.int32))
    empty = kiln.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes["cache"])
    key = random.key(seed)
    cache, held = empty, 0
    unread = text = [letters.index(letter) for letter in prompt]
    for i in range(count):
        if held + len(unread) > LENGTH:
            cache, held, unread = empty, 0, text[-LENGTH // 2 :]
        for number in unread:
            scores, changed = decoder.apply(
                {"params": params, "cache": cache}, jnp.array([[number]]), mutable=["cache"]
            )
            cache = changed["cache"]
        held += len(unread)
        unread = [chosen(scores[0, 0], heat, random.fold_in(key, i))]
        text = text + unread
        yield letters[unread[0]]


def chosen(scores: Any, heat: float, key: Any) -> int:
    """Choose a letter: the better its score the likelier, above all if the heat is small."""
    return int(random.categorical(key, scores / heat) if heat else jnp.argmax(scores))


def draw(path: str, losses: list[float]) -> None:
    """Draw the loss curve."""
    import matplotlib  # noqa: PLC0415 - the picture is optional, training is not

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt  # noqa: PLC0415

    fig, axes = plt.subplots(figsize=(8, 4))
    axes.plot(losses, lw=0.6, alpha=0.5, label="each mini-batch")
    window = min(20, len(losses))
    smooth = np.convolve(losses, np.ones(window) / window, "valid")
    axes.plot(np.arange(len(smooth)) + window // 2, smooth, label=f"mean of {window}")
    axes.set_xlabel("step")
    axes.set_ylabel("bits per letter")
    axes.set_title("training loss")
    axes.legend()
    fig.savefig(path, dpi=110)


def main() -> None:
    """Train, report, draw, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--letters", type=int, default=400)
    parser.add_argument("--out", default="char_transformer.png")
    options = parser.parse_args()
    start = time.perf_counter()
    params, losses, (before, after) = train(options.steps)
    seconds = time.perf_counter() - start
    draw(options.out, losses)
    print(
        f"char_transformer: {len(losses)} steps in {seconds:.1f} s, "
        f"loss {np.mean(losses[:10]):.3f} -> {np.mean(losses[-10:]):.3f} bits per letter"
    )
    print(f"char_transformer: picture in {options.out}")
    print(f"char_transformer: on held-out text {before:.3f} -> {after:.3f} bits per letter")
    start = time.perf_counter()
    prompt = "Alice was beginning to "
    print("-" * 70 + "\n" + prompt, end="")
    for letter in write(params, prompt, options.letters):
        print(letter, end="", flush=True)
    print("\n" + "-" * 70)
    print(f"char_transformer: {options.letters} letters in {time.perf_counter() - start:.1f} s")
    if after > ENOUGH and options.steps >= STEPS:
        sys.exit(f"char_transformer: the loss on held-out text should be below {ENOUGH} bits")


if __name__ == "__main__":
    main()
