"""Pairs of operations that two threads do at the same time, over and over.

`python -m tests.unit._runtime.racing SECONDS [NAME ...]` races each pair for so long. A signal, an
exception that is not promised or a wrong value ends the process.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

os.environ["KILN_NUM_CPU_DEVICES"] = "4"

import numpy as np

import kiln
import kiln.numpy as jnp
from kiln import tree_util
from kiln.sharding import Mesh, NamedSharding, PartitionSpec

State = Any
N = 128

_long = kiln.jit(lambda x: ((x @ x) / N @ (x / N)) + 1.0)
_twice = kiln.jit(lambda x: x * 2)
_given_away = kiln.jit(lambda x: x + 1, donate_argnums=0)
_number = itertools.count()


def small() -> Any:
    """Return an array that is there, in memory of kiln's."""
    return jnp.full((8,), 2.0) + 0


def pending() -> Any:
    """Return an array of twos that is still being computed."""
    return _long(jnp.ones((N, N)))


def either() -> Any:
    """Return one of the two."""
    return pending() if next(_number) % 2 else small()


def cut() -> dict[str, Any]:
    """Return an array on four devices, and one of its parts."""
    mesh = Mesh(np.array(kiln.devices()), ("d",))
    x = kiln.device_put(jnp.full((8,), 2.0), NamedSharding(mesh, PartitionSpec("d")))
    return {"whole": x, "part": x.addressable_shards[next(_number) % 4].data}


def twos(found: Any) -> None:
    """Check a value."""
    value = np.asarray(found)
    assert (value == 2).all(), value


def fours(found: Any) -> None:
    """Check twice that value."""
    value = np.asarray(found)
    assert (value == 4).all(), value


def _repr(x: Any) -> None:
    text = repr(x)
    assert text.startswith("Array([") and "2." in text and "0." not in text.replace("2.", ""), text


def _use_whole(s: State) -> None:
    fours(_twice(s["whole"]))
    twos(s["whole"])
    _repr(s["whole"])


def _use_part(s: State) -> None:
    twos(s["part"])
    fours(_twice(s["part"]))
    twos(s["part"].block_until_ready())


def _donate(x: Any) -> None:
    value = np.asarray(_given_away(x))
    assert (value == 3).all(), value


def _nested() -> Any:
    return [[1.0, 2.0], {"a": 3.0, "b": [4.0]}, (5.0,)]


def _flatten(s: State) -> None:
    leaves, structure = tree_util.tree_flatten(s)
    assert set(leaves) <= {1.0, 2.0, 3.0, 4.0, 5.0}
    again = structure.unflatten(leaves)
    assert tree_util.tree_leaves(again) == leaves
    _sum(s)


_sum = kiln.jit(lambda t: sum(tree_util.tree_leaves(t), 0.0))


def _change_list(s: State) -> None:
    s[0].append(1.0)
    s[0].clear()
    s.pop()


def _change_dict(s: State) -> None:
    s[1]["c"] = 5.0
    del s[1]["a"]
    s[1].clear()


def _new_class() -> dict[str, Any]:
    made = dataclasses.make_dataclass("Made", ["a", "b"])
    return {"class": made, "value": made(1.0, [2.0])}


def _register(s: State) -> None:
    tree_util.register_dataclass(s["class"], ["a", "b"], [])


def _flatten_class(s: State) -> None:
    for _ in range(5):
        leaves, structure = tree_util.tree_flatten(s["value"])
        assert leaves in ([1.0, 2.0], [s["value"]])
        again = structure.unflatten(leaves)
        assert again is s["value"] or again.b == [2.0]


def _call(_: State) -> None:
    fours(_twice(jnp.full((8,), 2.0)))


def _apply_eagerly(_: State) -> None:
    x = jnp.full((8,), 2.0)
    fours(jnp.add(x, x))
    twos(jnp.reshape(x, (2, 4)).T)


def _other_options(_: State) -> None:
    with kiln.enable_x64(True):
        assert (jnp.ones(3, "float64") * 2).dtype == np.float64
    with kiln.debug_nans(True):
        fours(_twice(jnp.full((8,), 2.0)))


def _same_options(_: State) -> None:
    x = jnp.full((8,), 2.0) * 1.0
    assert x.dtype == np.float32
    assert _twice(x).dtype == np.float32


def _fresh_function() -> Any:
    number = float(next(_number) % 5 + 1)
    return kiln.jit(lambda x: x * number / number * 2)


def _first_call(f: State) -> None:
    fours(f(jnp.full((8,), 2.0)))


def _delete(x: Any) -> None:
    x.delete()


@dataclasses.dataclass(frozen=True)
class Pair:
    """What two threads do to the same thing."""

    make: Callable[[], State]
    left: Callable[[State], None]
    right: Callable[[State], None]
    errors: tuple[type[Exception], ...] = ()
    """What may be raised besides the RuntimeError of a deleted array."""


PAIRS: dict[str, Pair] = {
    "operators/delete": Pair(either, lambda x: (fours(x + x), twos(x * 1.0)), _delete),
    "functions/delete": Pair(either, lambda x: fours(jnp.add(x, x)), _delete),
    "repr/delete": Pair(either, _repr, _delete),
    "asarray/delete": Pair(either, twos, _delete),
    "memoryview/delete": Pair(either, lambda x: twos(memoryview(x)), _delete),
    "dlpack/delete": Pair(either, lambda x: twos(np.from_dlpack(x)), _delete),
    "wait/delete": Pair(pending, lambda x: (x.is_ready(), twos(x.block_until_ready())), _delete),
    "jit/delete": Pair(either, lambda x: fours(_twice(x)), _delete),
    "copy/delete": Pair(either, lambda x: (twos(x.copy()), twos(copy.deepcopy(x))), _delete),
    "repr/donate": Pair(either, _repr, _donate),
    "operators/donate": Pair(either, lambda x: (fours(x + x), fours(_twice(x))), _donate),
    "donate/donate": Pair(either, _donate, _donate),
    "whole/delete part": Pair(cut, _use_whole, lambda s: s["part"].delete()),
    "part/delete whole": Pair(cut, _use_part, lambda s: s["whole"].delete()),
    "whole/donate part": Pair(cut, _use_whole, lambda s: _donate(s["part"])),
    "part/donate whole": Pair(cut, _use_part, lambda s: _donate(s["whole"])),
    "flatten/change list": Pair(_nested, _flatten, _change_list, (RuntimeError, IndexError)),
    "flatten/change dict": Pair(_nested, _flatten, _change_dict, (KeyError, RuntimeError)),
    "flatten/register": Pair(_new_class, _flatten_class, _register, (ValueError,)),
    "call/clear caches": Pair(small, _call, lambda _: kiln.clear_caches()),
    "eager/clear caches": Pair(small, _apply_eagerly, lambda _: kiln.clear_caches()),
    "options/options": Pair(small, _same_options, _other_options),
    "first call/first call": Pair(_fresh_function, _first_call, _first_call),
}


def race(name: str, seconds: float) -> int:
    """Race a pair; return how often. Raises what a thread raised that is not promised."""
    pair, rng = PAIRS[name], random.Random(name)
    wrong: list[BaseException] = []
    for do in (pair.left, pair.right):
        do(pair.make())
    state: list[Any] = [pair.make()]
    end = time.monotonic() + seconds
    rounds = 0

    def prepare() -> None:
        nonlocal rounds
        rounds += 1
        state[0] = None if wrong or time.monotonic() > end else pair.make()

    start, stop = threading.Barrier(2), threading.Barrier(2, prepare)

    def run(do: Callable[[State], None], waits: bool) -> None:
        while state[0] is not None:
            given = state[0]
            start.wait(60)
            later = time.perf_counter() + (rng.random() * 0.0004 if waits else 0.0)
            while time.perf_counter() < later:
                pass
            try:
                do(given)
            except pair.errors:
                pass
            except RuntimeError as error:
                if "deleted" not in str(error) and "donated" not in str(error):
                    wrong.append(error)
            except BaseException as error:  # noqa: BLE001
                wrong.append(error)
            del given
            stop.wait(60)

    threads = [
        threading.Thread(target=run, args=a) for a in ((pair.left, False), (pair.right, True))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if wrong:
        raise wrong[0]
    return rounds


def main(seconds: float, names: list[str]) -> None:
    """Race all pairs, or those named."""
    sys.setswitchinterval(1e-5)
    for name in names or PAIRS:
        print(name, flush=True)
        print("  ", race(name, seconds), "times", flush=True)
    print("survived")


if __name__ == "__main__":
    main(float(sys.argv[1]), sys.argv[2:])
