"""Answers of jax and flax, stored as data: the tests compare kiln with them and import neither.

A topic is a list of cases; a case is a named function of a library (jax, or kiln in its place) that
returns arrays. `python -m tests.differential.oracle [TOPIC ...]` asks jax and writes
`data/TOPIC.npz`, `--missing TOPIC` asks only for cases without an answer, `--show TOPIC` prints what
is stored. Topics are the `TOPIC` of the test files in this folder and in those of `ELSEWHERE`.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import tempfile
import traceback
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes  # noqa: F401  (makes np.dtype("bfloat16") known)
import numpy as np

HERE = Path(__file__).parent
DATA = HERE / "data"
ELSEWHERE = ("programs", "derivatives")
CACHE = Path(tempfile.gettempdir()) / "kiln-oracle-programs"

TOLERANCES = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}
TOLERANCES |= {"float64": 1e-12, "complex128": 1e-12}
"""Relative, and absolute times the largest finite number of the answer."""


@dataclasses.dataclass(frozen=True)
class Case:
    """`run(library)` returns an array or a list of arrays; `group` is one test's worth of cases."""

    group: str
    name: str
    run: Callable[[Any], Any]
    tolerance: float | None = None

    @property
    def id(self) -> str:
        """The key of the stored answer."""
        return f"{self.group}/{self.name}"


@dataclasses.dataclass(frozen=True)
class Answer:
    """Arrays with their dtypes and weak types, or the name of an exception class."""

    types: tuple[str, ...] = ()
    arrays: tuple[np.ndarray, ...] = ()
    error: str = ""


Together = Callable[[Any, Sequence[Case]], Iterable[tuple[str, Answer]]]


class NotProvided(AttributeError):
    """A library lacks what a case is about: that is its answer."""


class Topic:
    """Cases whose answers are in one file.

    `together` asks a library about many cases at once; those it has no answer to are asked alone.
    """

    def __init__(self, name: str, cases: Iterable[Case], together: Together | None = None) -> None:
        self.name = name
        self.cases = list(cases)
        self.together = together
        self._answers: dict[str, Answer] | None = None
        ids = [case.id for case in self.cases]
        assert len(set(ids)) == len(ids), sorted(i for i in ids if ids.count(i) > 1)[:5]

    @property
    def groups(self) -> list[str]:
        """The names of the groups, in order."""
        return list(dict.fromkeys(case.group for case in self.cases))

    @property
    def path(self) -> Path:
        """Where the answers are."""
        return DATA / f"{self.name}.npz"

    def answers(self) -> dict[str, Answer]:
        """Return the stored answers by case."""
        if self._answers is None:
            self._answers = load(self.path)
        return self._answers

    def check(self, group: str, library: Any) -> None:
        """Raise AssertionError naming every case of a group whose answer differs."""
        answers = self.answers()
        wrong = []
        for case in self.cases:
            if case.group != group:
                continue
            if case.id not in answers:
                wrong.append(f"{case.name}: no answer is stored; run `make oracle`")
                continue
            difference = compare(ask(case, library), answers[case.id], case.tolerance)
            if difference:
                wrong.append(f"{case.name}: {difference}")
        assert not wrong, f"{group}: {len(wrong)} cases differ from jax\n" + "\n".join(wrong[:40])


def ask(case: Case, library: Any, own: bool = False) -> Answer:
    """Return a library's answer; with `own`, an error of the case's own code is raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = case.run(library)
            leaves = list(_leaves(out))
            arrays = tuple(_on_host(x) for x in leaves)
    except Exception as error:
        if own and _raised_by_tests(error):
            raise
        return Answer(error=_base(error) + f" {error}"[:300])
    return Answer(tuple(_type(x) for x in leaves), arrays)


def _leaves(out: Any) -> Iterable[Any]:
    if isinstance(out, (list, tuple)):
        for item in out:
            yield from _leaves(item)
    elif out is not None:
        yield out


def _on_host(x: Any) -> np.ndarray:
    # The dtype is said again: jax has scalars of type int32 that NumPy takes for int64.
    return np.asarray(x, getattr(x, "dtype", None))


def _type(x: Any) -> str:
    dtype = x.dtype if hasattr(x, "dtype") else f"python {type(x).__name__}"
    # Bools yield to nothing, so their weakness means nothing.
    weak = getattr(x, "weak_type", False) and str(dtype) != "bool"
    shape = ",".join(map(str, getattr(x, "shape", ())))
    return f"{dtype}[{shape}]{'~' if weak else ''}"


def _raised_by_tests(error: Exception) -> bool:
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    path = Path(frame.f_code.co_filename)
    # An expression may ask what an operator or attribute of an array does.
    if isinstance(error, NotProvided):
        return False
    return path.is_relative_to(HERE.parent) or (str(path) == "<string>" and _is_typo(error))


def _is_typo(error: Exception) -> bool:
    return isinstance(error, (NameError, SyntaxError)) and not isinstance(error, AttributeError)


def _base(error: Exception) -> str:
    """Return the nearest of Python's own exception classes."""
    for kind in type(error).__mro__:
        if kind.__module__ == "builtins":
            return kind.__name__
    raise AssertionError(error)


def compare(found: Answer, expected: Answer, tolerance: float | None = None) -> str:
    """Say how two answers differ; nothing if they agree."""
    if found.error or expected.error:
        if found.error.split(" ")[0] == expected.error.split(" ")[0]:
            return ""
        return f"got {found.error or found.types}, expected {expected.error or expected.types}"
    if found.types != expected.types:
        return f"got {found.types}, expected {expected.types}"
    for i, (x, y) in enumerate(zip(found.arrays, expected.arrays, strict=True)):
        if not _near(x, y, tolerance):
            return f"result {i}: got {x.tolist()}, expected {y.tolist()}"
    return ""


def _near(x: np.ndarray, y: np.ndarray, tolerance: float | None) -> bool:
    name = str(y.dtype)
    if name not in TOLERANCES:
        return bool(np.array_equal(x, y))
    tolerance = max(TOLERANCES[name], tolerance or 0.0)
    wide = np.complex128 if y.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    finite = y[np.isfinite(y)]
    size = float(np.abs(finite).max()) if finite.size else 0.0
    if y.dtype.kind == "c":
        return all(
            np.allclose(a, b, rtol=tolerance, atol=tolerance * size, equal_nan=True)
            for a, b in ((x.real, y.real), (x.imag, y.imag))
        )
    return bool(np.allclose(x, y, rtol=tolerance, atol=tolerance * min(size, 1.0), equal_nan=True))


def store(path: Path, answers: dict[str, Answer]) -> None:
    """Write answers: a text naming types and errors, and all values as one run of bytes."""
    index: dict[str, Any] = {}
    values: list[bytes] = []
    for key, answer in answers.items():
        index[key] = answer.error or list(answer.types)
        values += [np.ascontiguousarray(x).tobytes() for x in answer.arrays]
    text = json.dumps(index, ensure_ascii=False, separators=(",", ":")).encode()
    path.parent.mkdir(exist_ok=True)
    np.savez_compressed(
        path,
        index=np.frombuffer(text, np.uint8),
        values=np.frombuffer(b"".join(values), np.uint8),
    )


def load(path: Path) -> dict[str, Answer]:
    """Read what `store` wrote."""
    with np.load(path) as stored:
        index = json.loads(stored["index"].tobytes().decode())
        values = stored["values"].tobytes()
    answers = {}
    offset = 0
    for key, types in index.items():
        if isinstance(types, str):
            answers[key] = Answer(error=types)
            continue
        arrays = []
        for text in types:
            dtype, shape = _parsed(text)
            size = dtype.itemsize * int(np.prod(shape, dtype=int))
            arrays.append(np.frombuffer(values[offset : offset + size], dtype).reshape(shape))
            offset += size
        answers[key] = Answer(tuple(types), tuple(arrays))
    return answers


_PYTHON = {"python int": "int64", "python float": "float64", "python bool": "bool"}


def _parsed(text: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    name, _, rest = text.rstrip("~").partition("[")
    dims = rest.rstrip("]")
    return np.dtype(_PYTHON.get(name, name)), tuple(int(d) for d in dims.split(",") if d)


def topics() -> dict[str, Topic]:
    """Return the topics of all test files in this folder and those of `ELSEWHERE`."""
    found = {}
    further = [path for folder in ELSEWHERE for path in HERE.parent.glob(f"{folder}/test_*.py")]
    for path in sorted([*HERE.glob("test_*.py"), *further]):
        module = importlib.import_module(f"tests.{path.parent.name}.{path.stem}")
        topic = getattr(module, "TOPIC", None)
        if isinstance(topic, Topic):
            found[topic.name] = topic
    return found


def _jax(with_linen: bool) -> Any:
    jax = importlib.import_module("jax")
    importlib.import_module("jax.numpy")
    jax.config.update("jax_platforms", "cpu")
    # Programs over several devices find eight, as those of kiln do in its tests.
    jax.config.update("jax_num_cpu_devices", 8)
    # The time goes into compiling a program per operation, shape and dtype: they are kept on disk.
    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # With all frames, `ask` sees whether jax or the case itself raised.
    jax.config.update("jax_traceback_filtering", "off")
    if with_linen:
        for name in ("linen", "serialization", "struct", "traverse_util"):
            setattr(jax, name, importlib.import_module(f"flax.{name}"))
    return jax


def _of_jax(
    jax: Any, cases: Sequence[Case], together: Together | None
) -> Iterable[tuple[str, Answer]]:
    known: dict[str, Answer] = {}
    for name, answer in together(jax, cases) if together else ():
        known[name] = answer
        print(f"{len(known)} of {len(cases)} cases together", end="\r", flush=True)
    yield from known.items()
    for i, case in enumerate([case for case in cases if case.id not in known], 1):
        yield case.id, ask(case, jax, own=True)
        if i % 250 == 0:
            # Thousands of small programs fill the memory.
            jax.clear_caches()
            print(f"{i} of {len(cases)} cases", flush=True)


def main(argv: Sequence[str] | None = None) -> None:
    """Ask jax and write the answers, or print them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="TOPIC")
    parser.add_argument("--missing", action="store_true", help="ask only what is not stored")
    parser.add_argument("--show", action="store_true", help="print what is stored")
    options = parser.parse_args(argv)
    known = topics()
    for name in options.names or known:
        topic = known[name]
        if options.show:
            for key, answer in topic.answers().items():
                print(key, answer.error or [*zip(answer.types, answer.arrays, strict=True)])
            continue
        # The topics of modules ask flax, under the name it has in kiln.
        jax = _jax(with_linen=name.startswith("linen"))
        # Operation by operation: far fewer programs to compile than one per case.
        with jax.disable_jit():
            kept = topic.answers() if options.missing else {}
            wanted = [case for case in topic.cases if case.id not in kept]
            found = dict(_of_jax(jax, wanted, topic.together))
        store(topic.path, {case.id: (found | kept)[case.id] for case in topic.cases})
        print(f"{name}: {len(topic.cases)} cases, {topic.path.stat().st_size} bytes")


if __name__ == "__main__":
    # Under its own name, so that the classes are those that the test files use.
    importlib.import_module("tests.differential.oracle").main()
