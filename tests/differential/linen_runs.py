"""Modules called and differentiated: all runs of a group are one compiled program of each library."""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

import kiln
import kiln.linen
import kiln.nn
import kiln.numpy
import kiln.random
from tests.differential.oracle import Case, Topic

Build = Callable[[Any], Any]


@dataclasses.dataclass(frozen=True)
class Run:
    """A module called on inputs; `through` puts the call into a transformation."""

    build: Build
    inputs: tuple[Any, ...]
    options: dict[str, Any]
    method: str = "__call__"
    through: Callable[[Any, Any], Any] | None = None
    slopes: bool = True

    def __call__(self, lib: Any, names: list[str], seed: Any, inputs: Any) -> Any:
        """Return first values, output, updates, and gradients by parameters and inputs."""
        module = self.build(lib.linen)
        keys = {"params": lib.random.key(seed), "dropout": lib.random.key(seed + 1)}
        first = module.init(keys, *inputs, **self.options)
        names += spelled(lib, first)
        moved = lib.tree.map(nudged, first)
        rest = {name: values for name, values in moved.items() if name != "params"}
        floats = [i for i, x in enumerate(inputs) if np.issubdtype(x.dtype, np.inexact)]

        def call(params: Any, given: Any) -> Any:
            full = [*inputs]
            for i, x in zip(floats, given, strict=True):
                full[i] = x

            def plain(*args: Any) -> Any:
                return module.apply(
                    {"params": params, **rest},
                    *args,
                    **self.options,
                    rngs=keys,
                    mutable=[*rest],
                    method=self.method,
                )

            return (self.through(lib, plain) if self.through else plain)(*full)

        def loss(params: Any, given: Any) -> Any:
            out, updates = call(params, given)
            return sum(weighed(leaf) for leaf in lib.tree.leaves(out)), (out, updates)

        given = [inputs[i] for i in floats]
        params = moved.get("params", {})
        if not self.slopes:
            return first, call(params, given)
        slopes, found = lib.grad(loss, (0, 1), has_aux=True)(params, given)
        return first, found, slopes


def spelled(lib: Any, variables: Any) -> list[str]:
    """Return the paths of variables."""
    pairs, _ = lib.tree_util.tree_flatten_with_path(variables)
    return [lib.tree_util.keystr(path) for path, _ in pairs]


def nudged(x: Any) -> Any:
    """Return values moved a little upwards, so that zeros and ones are none any more."""
    waves = 0.2 * (1 + np.cos(np.arange(x.size)).reshape(x.shape))
    return (x + waves.astype(np.float32)).astype(x.dtype)


def weighed(x: Any) -> Any:
    """Return a sum in which every element counts differently."""
    weights = np.cos(1 + np.arange(x.size)).reshape(x.shape).astype(np.float32)
    total = (x * weights).sum()
    return (total.real + 2 * total.imag) if np.iscomplexobj(x) else total


Runs = Callable[[], Iterator[tuple[str, Run]]]
"""Makes the runs of a group, with their names."""


@functools.cache
def answers(lib: Any, runs: Runs) -> dict[str, Any]:
    """Return for each run the names of the variables and all arrays, or its error."""
    made = dict(runs())
    names: dict[str, list[str]] = {name: [] for name in made}
    wrong: dict[str, Exception] = {}

    def program(seed: Any, inputs: Any) -> Any:
        found = {}
        for name, run in made.items():
            try:
                found[name] = run(lib, names[name], seed, inputs[name])
            except Exception as error:  # noqa: BLE001 - an answer like any other
                wrong[name] = error
        return found

    given = {name: [lib.numpy.asarray(x) for x in run.inputs] for name, run in made.items()}
    with lib.threefry_partitionable(True), lib.disable_jit(False):
        found = lib.jit(program)(7, given)
    texts = {name: np.frombuffer(json.dumps(names[name]).encode(), np.uint8) for name in found}
    return {name: [texts[name], *lib.tree.leaves(found[name])] for name in found} | wrong


def answer(lib: Any, runs: Runs, name: str) -> Any:
    """Return what one run returns, or raise its error."""
    found = answers(lib, runs)[name]
    if isinstance(found, Exception):
        raise found
    return found


def cases(groups: Mapping[str, Runs], tolerance: Callable[[str], float]) -> Iterator[Case]:
    """Yield a case for each run; `tolerance` is told its name."""
    for group, runs in groups.items():
        for name, _ in runs():
            run = functools.partial(answer, runs=runs, name=name)
            yield Case(group, name, run, tolerance(name))


def check(topic: Topic, group: str) -> None:
    """Raise AssertionError naming every case of a group whose answer is not the stored one."""
    # What is remembered came from another engine.
    answers.cache_clear()
    topic.check(group, kiln)
