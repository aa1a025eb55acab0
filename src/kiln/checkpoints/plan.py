"""Where the blocks of a checkpoint are: computed from the leaves and their layouts, and not stored.

The file of a process holds its blocks leaf by leaf, in row-major order. All processes compute the
same places, so that blocks share no bytes, and the index does not grow with the number of blocks.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from kiln.base.records import Record
from kiln.checkpoints.data_files import DataFiles, file_name
from kiln.checkpoints.entries import Block, Box, Entry, Layout, Numbered, block_shape
from kiln.checkpoints.tables import aligned, head_nbytes, read_table


class Places(Record, eq=False):
    """Where the blocks of each leaf begin in one file: their first row, and their offset."""

    rows: list[int]
    offsets: list[int]
    count: int
    """How many blocks the file holds."""


class Plan:
    """Where all blocks are. `save` is the name of the save, `entries` all leaves in order."""

    def __init__(self, save: str, entries: Sequence[Entry]) -> None:
        self.save = save
        layouts: Numbered[Layout] = Numbered(lambda layout: layout)
        self._strides, self._numbers = [0] * len(entries), [-1] * len(entries)
        for entry in entries:
            layout = entry.layout
            if layout is not None:
                self._numbers[entry.number] = layouts.number(layout)
                self._strides[entry.number] = stride(entry, layout)
        self._counts = [Counter(layout.owners) for layout in layouts.values]
        self._ranks = [_ranks(layout) for layout in layouts.values]
        self._places: dict[int, Places] = {}
        # By the numbers of blocks of each layout: most processes hold as many as the others.
        self._equal: dict[tuple[int, ...], Places] = {}

    @property
    def files(self) -> set[str]:
        """The names of the files that hold blocks."""
        owners = {process for counts in self._counts for process in counts}
        return {file_name(process, self.save) for process in owners}

    def places(self, process: int) -> Places:
        """Return where the blocks of a process are in its file."""
        found = self._places.get(process)
        if found is None:
            each = tuple([counts[process] for counts in self._counts])
            found = self._equal.get(each)
            if found is None:
                found = self._equal[each] = self._placed(each)
            self._places[process] = found
        return found

    def _placed(self, each: tuple[int, ...]) -> Places:
        """Return the places in a file that has this many blocks of the leaves of each layout."""
        # The last is that of leaves without a layout.
        counts = np.array([*each, 0])[self._numbers]
        nbytes = counts * np.array(self._strides, np.int64)
        count = int(counts.sum())
        rows, offsets = counts.cumsum() - counts, nbytes.cumsum() - nbytes + head_nbytes(count)
        return Places(rows.tolist(), offsets.tolist(), count)

    def offsets(self, process: int) -> list[int]:
        """Return where each block of a process starts in its file, in order."""
        places = self.places(process)
        found = []
        for layout, first, step in zip(self._numbers, places.offsets, self._strides, strict=True):
            if layout >= 0:
                found += [first + i * step for i in range(self._counts[layout][process])]
        return found

    def covering(self, entry: Entry, box: Box, files: DataFiles) -> list[Block]:
        """Return the blocks of a leaf that hold the elements of a region.

        Raises: Damage if the table of checksums of one of their files is damaged.
        """
        layout = entry.layout
        assert layout is not None
        shape, spans = block_shape(entry, layout), []
        for (start, stop), size in zip(box, shape, strict=True):
            if start >= stop:
                return []
            spans.append(range(start // size, (stop - 1) // size + 1))
        return [
            self._block(entry, layout, shape, place, files) for place in itertools.product(*spans)
        ]

    def _block(
        self,
        entry: Entry,
        layout: Layout,
        shape: tuple[int, ...],
        place: tuple[int, ...],
        files: DataFiles,
    ) -> Block:
        number = 0
        for at, count in zip(place, layout.grid, strict=True):
            number = number * count + at
        process = layout.owners[number]
        rank = self._ranks[self._numbers[entry.number]][number]
        places, name = self.places(process), file_name(process, self.save)
        table = files.tables.get(name)
        if table is None:
            with files.opened(name) as opened:
                table = read_table(opened, name, self.save, process, places.count)
            files.tables[name] = table
        return Block(
            tuple([at * n for at, n in zip(place, shape, strict=True)]),
            shape,
            name,
            places.offsets[entry.number] + rank * self._strides[entry.number],
            int(table[places.rows[entry.number] + rank]),
        )


def stride(entry: Entry, layout: Layout) -> int:
    """Return the distance between consecutive blocks of a leaf in a file, in bytes."""
    return aligned(math.prod(block_shape(entry, layout)) * entry.stored_dtype.itemsize)


def _ranks(layout: Layout) -> list[int]:
    """Return for each block how many blocks before it have the same owner."""
    seen: Counter[int] = Counter()
    found = []
    for process in layout.owners:
        found.append(seen[process])
        seen[process] += 1
    return found
