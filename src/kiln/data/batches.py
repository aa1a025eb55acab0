"""`Batches`: an iterator of arrays on the devices of all processes, read ahead by a thread."""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self, cast

from kiln.api.sharding.process_arrays import make_array_from_process_local_data
from kiln.base.errors import three_lines
from kiln.base.named_tuples import NamedTuple
from kiln.base.options.config import options, options_of_key, override
from kiln.base.source import api_boundary, current_source
from kiln.base.tree import tree_unflatten
from kiln.core.processes.peers import peers
from kiln.data.feed import End, Feed
from kiln.data.rounds import CHOICES, Rounds, Uneven
from kiln.data.rows import Local, local_batch, with_devices
from kiln.data.sources import Position, Reader, position_of, shared_states

_numbers = itertools.count()
"""Iterators of all processes have the same numbers, if they are made in the same order."""


class Batches(Iterator[Any]):
    """The batches of a source as arrays sharded over the devices of all processes.

    A thread reads the source ahead and puts `prefetch` batches at most on the devices before they
    are asked for. All processes make and advance such iterators in the same order; each gives the
    rows of its own devices, as to `make_array_from_process_local_data`.

    Args:
        source: an iterable of trees of NumPy arrays (or of what NumPy converts); or a function of
            the number of examples that were taken before, which returns one.
        sharding: the shardings of the arrays, a pytree prefix of the batches.
        prefetch: how many batches are read ahead.
        uneven: what happens if a batch has fewer rows in one process, or only some have one.
            "error" raises in all processes. "drop" leaves out each batch that is not as large as
            the first in all of them. "pad" appends rows of zeros; items are then pairs of a batch
            and a mask, an array of bools for each row.
        state: where to begin, as `get_state` returned it; None for the beginning.

    Raises: ValueError for uneven batches and arguments that do not fit; PeerError if another
        process or its source has failed; the errors of the source. They are raised by `next`.
    Example:
        >>> rows = [np.arange(4.0) + 4 * i for i in range(3)]
        >>> with kiln.data.Batches(rows, kiln.devices()[0]) as batches:
        ...     print([float(batch.sum()) for batch in batches], batches.get_state()["examples"])
        [6.0, 22.0, 38.0] 12
    """

    @api_boundary
    def __init__(
        self,
        source: Iterable[Any] | Callable[[int], Iterable[Any]],
        sharding: Any,
        *,
        prefetch: int = 2,
        uneven: Uneven = "error",
        state: Mapping[str, Any] | None = None,
    ) -> None:
        place = f"Batches at {current_source()}"
        asked = f"{place} with prefetch={prefetch!r}, uneven={uneven!r}"
        if operator.index(prefetch) < 1:
            raise ValueError(
                three_lines(
                    asked,
                    "at least one batch is read ahead",
                    "write prefetch=2",
                )
            )
        if uneven not in CHOICES:
            raise ValueError(
                three_lines(
                    asked, "uneven is one of 'error', 'drop' and 'pad'", "write uneven='drop'"
                )
            )
        self._others = peers()
        self._place, self._topic = place, f"data-{next(_numbers)}"
        self._position = position_of(state, place)
        self._state: str | None = None
        self._is_over, self._asked_states = False, 0
        self._length = _length(source)
        limit = options().collective_timeout
        reading = _Reading(
            reader=Reader(source, self._position, self._others, place),
            rounds=Rounds(uneven, self._others, self._topic, limit),
            sharding=with_devices(sharding),
            begin=self._position,
            is_padded=uneven == "pad",
            processes=1 if self._others is None else self._others.count,
            place=place,
            options=options_of_key(options().key()),
        )
        self._feed = Feed(_items(reading), prefetch)

    def __iter__(self) -> Self:
        return self

    @api_boundary
    def __next__(self) -> Any:
        if self._is_over:
            raise StopIteration
        found = self._feed.take(self._check)
        if isinstance(found, End):
            self._is_over = True
            raise StopIteration if found.error is None else found.error
        item = cast(_Item, found)
        self._position, self._state = item.position, item.state
        return item.value

    def _check(self) -> None:
        if self._others is not None:
            self._others.check(f"batch {self._position.batches} of {self._place}")

    def __len__(self) -> int:
        """Return how many batches are left, for a source that has a length."""
        if self._length is None:
            raise TypeError(
                three_lines(
                    f"the length of {self._place} at {current_source()}",
                    "the source has no length",
                    "give the number where it is needed: kiln.debug.track(batches, total=100)",
                )
            )
        return max(0, self._length - self._position.batches)

    @api_boundary
    def get_state(self) -> dict[str, Any]:
        """Return the position after the batch that was last returned, to save in a checkpoint.

        It consists of numbers and texts, the same in all processes, and may be a part of a saved
        tree or its metadata. All processes call it, in the same order.

        Raises: PeerError if another process has failed.
        """
        self._asked_states += 1
        topic, asked = f"{self._topic}-state/{self._asked_states}", f"the state of {self._place}"
        source = ""
        if self._state is not None or self._others is not None:
            source = shared_states(self._state, self._others, topic, asked)
        count = 1 if self._others is None else self._others.count
        return {**self._position._asdict(), "processes": count, "source": source}

    def close(self) -> None:
        """Stop reading ahead; the iterator has ended."""
        self._is_over = True
        self._feed.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # The arguments may have been refused.
        feed = getattr(self, "_feed", None)
        if feed is not None:
            feed.close()

    def __repr__(self) -> str:
        return f"{self._place}, after {self._position.batches} batches"


class _Item(NamedTuple):
    """A batch, the position after it, and the state of the source there."""

    value: Any
    position: Position
    state: str | None


class _Reading(NamedTuple):
    """What the thread needs; it must not keep the iterator alive."""

    reader: Reader
    rounds: Rounds
    sharding: Any
    begin: Position
    is_padded: bool
    processes: int
    place: str
    options: dict[str, Any]

    def asked(self, number: int) -> str:
        """Return the first line of errors about a batch."""
        return f"batch {number} of {self.place}"

    def local(self, number: int) -> Local | None:
        """Return the next batch of this process; None after the last."""
        try:
            batch = self.reader.read()
        except StopIteration:
            return None
        return local_batch(batch, self.sharding, self.asked(number))

    def skip(self) -> bool:
        """Read what was taken before; tell whether there is more."""
        begin = self.reader.skipped
        if begin.processes == self.processes or not begin.examples:
            return all(self.local(number) is not None for number in range(begin.batches))
        passed = 0
        while passed < begin.examples:
            batch = self.local(begin.batches)
            if batch is None:
                return False
            passed += batch.all_rows(batch.rows or 0, self.place)
        if passed > begin.examples:
            raise ValueError(
                three_lines(
                    f"{self.place}, from a position of {begin.processes} processes",
                    f"{begin.examples} examples were taken, and batches of {self.processes} "
                    f"processes end at {passed}",
                    "choose batches that divide it, or pass a function of the number of examples",
                )
            )
        return True

    def placed(self, batch: Local, rows: int | None) -> Any:
        """Return a batch on the devices, with a mask if it is padded."""
        if not self.is_padded:
            tree = tree_unflatten(batch.tree, batch.leaves)
            return make_array_from_process_local_data(self.sharding, tree)
        padded, mask = batch.resized(rows or 0)
        return (
            make_array_from_process_local_data(self.sharding, padded),
            make_array_from_process_local_data(batch.mask_sharding(), mask),
        )


def _items(reading: _Reading) -> Generator[_Item | None, None, None]:
    """Yield None, then the batches that all processes agree on."""
    number, examples = reading.begin.batches, reading.begin.examples
    try:
        yield None
        with override(**reading.options):
            last, has_more = None, _own(reading, number, reading.skip)
            while True:
                batch = None
                if has_more:
                    batch = _own(reading, number, functools.partial(reading.local, number))
                has_more = batch is not None
                verdict = reading.rounds.settle(number, batch, reading.asked(number))
                if verdict.action == "end":
                    break
                number += 1
                if verdict.action == "skip":
                    continue
                if batch is not None:
                    last = batch
                assert last is not None
                used = last if batch is not None else last.without_rows()
                value = _own(reading, number, functools.partial(reading.placed, used, verdict.rows))
                examples += used.all_rows(verdict.rows or 0, reading.place)
                yield _Item(value, Position(number, examples), reading.reader.state())
    except GeneratorExit:
        reading.rounds.tell(number, None)
        raise
    finally:
        reading.reader.close()


def _own(reading: _Reading, number: int, call: Callable[[], Any]) -> Any:
    """Call a function of this process alone; if it fails, tell the others."""
    try:
        return call()
    except BaseException as error:
        error.add_note(f"while {reading.asked(number)} was read")
        reading.rounds.tell(number, error)
        raise


def _length(source: Any) -> int | None:
    try:
        return len(source)
    except TypeError:
        return None
