"""Batches of other libraries' loaders, in several processes, continued from a position.

`python -m kiln launch -n 2 -m tests.processes.loaders FOLDER KIND STOP` prints the numbers of each
batch, all of which are different, and saves the position after batch STOP.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import kiln
from kiln.checkpoints import Checkpoints
from kiln.data import Batches
from kiln.sharding import NamedSharding
from kiln.sharding import PartitionSpec as P

ROWS, BATCH = 96, 12
NUMBERS = np.arange(ROWS, dtype=np.float32)


def grain_dataset(count: int, here: int) -> Any:
    import grain  # noqa: PLC0415

    data = grain.MapDataset.source(NUMBERS).shuffle(seed=1)
    return data.slice(slice(here, None, count)).batch(BATCH // count).to_iter_dataset()


def grain_loader(count: int, here: int) -> Any:
    import grain  # noqa: PLC0415

    shards = grain.sharding.ShardOptions(here, count, drop_remainder=True)
    sampler = grain.samplers.IndexSampler(ROWS, shards, shuffle=True, num_epochs=1, seed=1)
    batch = grain.transforms.Batch(BATCH // count)
    return grain.DataLoader(data_source=NUMBERS, sampler=sampler, operations=[batch])


def torch_loader(count: int, here: int) -> Any:
    import torch.utils.data as data  # noqa: PLC0415
    from torch import from_numpy  # noqa: PLC0415

    rows = data.TensorDataset(from_numpy(NUMBERS))
    sampler: Any = data.DistributedSampler(rows, count, here, shuffle=True, seed=1)
    return data.DataLoader(rows, BATCH // count, sampler=sampler)


def map_dataset(count: int, here: int) -> Any:
    import datasets  # noqa: PLC0415

    rows = datasets.Dataset.from_dict({"x": NUMBERS}).shuffle(seed=1).with_format("numpy")
    own = rows.shard(count, here, contiguous=False)
    return own.iter(BATCH // count)


def iterable_dataset(count: int, here: int) -> Any:
    import datasets  # noqa: PLC0415
    from datasets.distributed import split_dataset_by_node  # noqa: PLC0415

    rows = datasets.Dataset.from_dict({"x": NUMBERS}).to_iterable_dataset(num_shards=12)
    return split_dataset_by_node(rows, here, count).batch(BATCH // count).with_format("numpy")


LOADERS: dict[str, Callable[[int, int], Any]] = {
    "grain": grain_dataset,
    "grain-loader": grain_loader,
    "torch": torch_loader,
    "datasets": map_dataset,
    "datasets-iterable": iterable_dataset,
}
IN_TURNS = ("grain", "torch", "datasets")
"""Those from which the processes take the rows in turns, so that any number of them continues."""


def main(folder: str, kind: str, stop: str) -> None:
    kiln.distributed.initialize()
    run = Checkpoints(folder)
    state = None if run.latest() is None else run.restore()
    rows = NamedSharding(kiln.make_mesh((kiln.device_count(),), ("d",)), P("d"))
    whole = NamedSharding(rows.mesh, P())
    source = LOADERS[kind](kiln.process_count(), kiln.process_index())
    with Batches(source, rows, state=state) as batches:
        for number, batch in enumerate(batches):
            (x,) = kiln.tree.leaves(batch)
            found = np.asarray(kiln.device_put(x, whole))
            if not kiln.process_index():
                print("batch", *found.astype(int).tolist(), flush=True)
            if number == int(stop):
                run.save(number, batches.get_state())
                break


if __name__ == "__main__":
    main(*sys.argv[1:])
