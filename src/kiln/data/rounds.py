"""What the processes agree on before each batch, and what becomes of uneven ones.

All processes run a program on each batch, so that a batch which one of them lacks would make the
others wait for ever. Each says how many rows it has, and all decide the same.
"""

from __future__ import annotations

from typing import Literal

from kiln.base.errors import PeerError, one_line, three_lines
from kiln.base.lazy import json
from kiln.base.named_tuples import NamedTuple
from kiln.core.processes.peers import Peers
from kiln.data.rows import Local

Uneven = Literal["error", "drop", "pad"]
CHOICES = ("error", "drop", "pad")
_LONGEST_ERROR = 1000


class Verdict(NamedTuple):
    """What to do: "use" the batch with a number of rows, "skip" it, or "end"."""

    action: Literal["use", "skip", "end"]
    rows: int | None = None


class Said(NamedTuple):
    """What a process says of a batch.

    `kind` is "batch", "end", "failed" or "closed"; `fitting` is the number of rows, rounded up to
    one that the devices of the process divide evenly; `text` describes the leaves, or the error.
    """

    kind: str
    rows: int | None = None
    fitting: int = 0
    text: str = ""


Answers = list[tuple[Said, tuple[int, ...]]]


class Rounds:
    """The agreements about the batches of one iterator; `topic` differs for each iterator."""

    def __init__(self, uneven: Uneven, others: Peers | None, topic: str, limit: float) -> None:
        self._uneven, self._others, self._topic, self._limit = uneven, others, topic, limit
        self._size: int | None = None

    def settle(self, number: int, batch: Local | None, asked: str) -> Verdict:
        """Decide with the other processes about a batch; None if this process has no more.

        Raises: ValueError for uneven batches; PeerError if another process has failed.
        """
        own = Said("end")
        if batch is not None:
            fitting = -(-(batch.rows or 0) // batch.parts) * batch.parts
            own = Said("batch", batch.rows, fitting, batch.text)
        if self._others is None:
            return self._decided([(own, (0,))], number, asked)
        found = self._others.exchange(
            f"{self._topic}/{number}", _written(own), asked, limit=self._limit
        )
        return self._decided([(_read(text), ranks) for text, ranks in found.items()], number, asked)

    def tell(self, number: int, error: BaseException | None) -> None:
        """Tell the others that this process has failed, or has closed its iterator."""
        if self._others is not None:
            said = Said("closed")
            if error is not None:
                text = f"{type(error).__name__}: {one_line(error)}"
                said = Said("failed", text=text[:_LONGEST_ERROR])
            self._others.tell(f"{self._topic}/{number}", _written(said))

    def _decided(self, said: Answers, number: int, asked: str) -> Verdict:
        _require_well(said, number, asked)
        batches = [(each, ranks) for each, ranks in said if each.kind == "batch"]
        ended = [rank for each, ranks in said if each.kind == "end" for rank in ranks]
        if not batches:
            return Verdict("end")
        _require_same(batches, number, asked)
        rows = [each.rows for each, _ in batches]
        is_first = self._size is None
        if is_first:
            self._size = max(each.fitting for each, _ in batches)
        size = self._size or 0
        if ended and self._uneven == "drop":
            return Verdict("end")
        if ended and (self._uneven == "error" or is_first):
            wrong = f"{_named(ended)} no batch {number}, and {_having(batches, 'another one')}"
            remedy = _REMEDY if self._uneven == "error" else "give each process at least one batch"
            raise ValueError(three_lines(asked, wrong, remedy))
        if None in rows:
            if self._uneven == "pad":
                wrong = "no leaf of the batch has rows that are divided among devices"
                raise ValueError(three_lines(asked, wrong, "shard the first axis, or leave it out"))
            return Verdict("use")
        if self._uneven == "pad":
            if max(each.rows or 0 for each, _ in batches) > size:
                wrong = f"batch {number} has {_listed(batches)}, and the first one {size}"
                raise ValueError(three_lines(asked, wrong, "give the largest batch first"))
            return Verdict("use", size)
        is_even = len({*rows}) == 1 and all(each.rows == each.fitting for each, _ in batches)
        if is_even and (self._uneven == "error" or rows[0] == size):
            return Verdict("use", rows[0])
        if self._uneven == "drop" and not is_first:
            return Verdict("skip")
        wrong = f"batch {number} has {_listed(batches)}"
        if len({*rows}) == 1:
            wrong += f", which the devices there do not divide evenly; {batches[0][0].fitting} can"
        remedy = _REMEDY if self._uneven == "error" else "give the whole batches first"
        raise ValueError(three_lines(asked, wrong, remedy))


_REMEDY = (
    "give all processes equal batches, or pass uneven='drop' to leave out what is uneven, or "
    "uneven='pad' for rows of zeros and a mask"
)


def _require_well(said: Answers, number: int, asked: str) -> None:
    """Raise PeerError if a process has failed, or takes no more batches."""
    for each, ranks in said:
        if each.kind == "failed":
            wrong = f"the source of process {ranks[0]} has raised {each.text}"
            raise PeerError(three_lines(asked, wrong, "see the traceback there"))
    for each, ranks in said:
        if each.kind == "closed":
            wrong = f"{_named(ranks)} closed the iterator before batch {number}"
            remedy = "take the same number of batches in all processes"
            raise PeerError(three_lines(asked, wrong, remedy))


def _require_same(batches: Answers, number: int, asked: str) -> None:
    """Raise ValueError if the leaves of a batch differ between the processes."""
    if len({each.text for each, _ in batches}) > 1:
        listed = "; ".join([f"{each.text} in process {ranks[0]}" for each, ranks in batches])
        raise ValueError(
            three_lines(
                asked,
                f"batch {number} differs between the processes: {listed}",
                "give leaves of the same names, dtypes and axes in all processes",
            )
        )


def _named(ranks: tuple[int, ...] | list[int]) -> str:
    if len(ranks) == 1:
        return f"process {ranks[0]} has"
    return f"processes {', '.join(map(str, ranks))} have"


def _having(batches: Answers, other: str) -> str:
    ranks = [rank for _, found in batches for rank in found]
    return f"process {ranks[0]} has one" if len(ranks) == 1 else f"{_named(sorted(ranks))} {other}"


def _listed(batches: Answers) -> str:
    if len(batches) == 1:
        return f"{batches[0][0].rows} rows"
    return ", ".join([f"{each.rows} rows in process {ranks[0]}" for each, ranks in batches])


def _written(said: Said) -> str:
    return str(json.dumps([*said], ensure_ascii=False))


def _read(text: str) -> Said:
    return Said(*json.loads(text))
