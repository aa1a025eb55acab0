"""Spans of a program's time, recorded in the format that Perfetto and chrome://tracing open.

Between `start_trace` and `stop_trace` each `TraceAnnotation` is one span of its thread. Programs
and operations are not recorded: KILN_DUMP and `kiln.explain_recompiles` say what is compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import gzip
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kiln.base.errors import three_lines
from kiln.base.files.writing import folder_for, replacing
from kiln.base.lazy import suggest_names as _suggest_names
from kiln.base.process.forks import new_lock
from kiln.base.source import current_source

__all__ = [
    "ProfileOptions",
    "StepTraceAnnotation",
    "TraceAnnotation",
    "annotate_function",
    "device_memory_profile",
    "save_device_memory_profile",
    "start_server",
    "start_trace",
    "stop_server",
    "stop_trace",
    "trace",
]


@dataclasses.dataclass
class ProfileOptions:
    """What is recorded, by JAX's names; only annotations are, whatever the levels."""

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    start_timestamp_ns: int = 0
    enable_hlo_proto: bool = True
    raise_error_on_start_failure: bool = False
    session_id: str = ""


class _Recording:
    """The trace that is being recorded, if one is."""

    def __init__(self) -> None:
        self.lock = new_lock()
        self.folder: Path | None = None
        self.spans: list[dict[str, Any]] = []


_recording = _Recording()


def start_trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> None:
    """Record annotations until `stop_trace`, which writes them below `log_dir`.

    Raises: RuntimeError if a trace is being recorded; NotImplementedError for
        `create_perfetto_link`.
    """
    if create_perfetto_link:
        raise NotImplementedError(
            three_lines(
                f"start_trace with create_perfetto_link=True at {current_source()}",
                "kiln serves no files to browsers",
                "open the file that stop_trace writes at https://ui.perfetto.dev",
            )
        )
    with _recording.lock:
        if _recording.folder is not None:
            raise RuntimeError(
                three_lines(
                    f"start_trace({str(log_dir)!r}) at {current_source()}",
                    "Profile has already been started. Only one profile may be run at a time.",
                    "call stop_trace() before",
                )
            )
        _recording.folder = Path(log_dir)
        _recording.spans = []


def stop_trace() -> None:
    """Write what was recorded to `log_dir`/plugins/profile/TIME/perfetto_trace.json.gz.

    Raises: RuntimeError if no trace is being recorded.
    """
    with _recording.lock:
        folder, spans = _recording.folder, _recording.spans
        if folder is None:
            raise RuntimeError(
                three_lines(
                    f"stop_trace at {current_source()}",
                    "No profile started",
                    "call start_trace(folder) before",
                )
            )
        _recording.folder = None
    place = folder / "plugins" / "profile" / time.strftime("%Y_%m_%d_%H_%M_%S")
    text = json.dumps({"displayTimeUnit": "ns", "traceEvents": spans})
    with folder_for(place), replacing(place / "perfetto_trace.json.gz") as file:
        file.write(gzip.compress(text.encode()))


@contextlib.contextmanager
def trace(
    log_dir: str | os.PathLike[str],
    create_perfetto_link: bool = False,
    create_perfetto_trace: bool = False,
    profiler_options: ProfileOptions | None = None,
) -> Iterator[None]:
    """Record annotations until the context ends; see `start_trace`.

    The arguments are those of `start_trace`.
    Raises: RuntimeError if a trace is being recorded; NotImplementedError for
        `create_perfetto_link`.
    """
    start_trace(log_dir, create_perfetto_link, create_perfetto_trace, profiler_options)
    try:
        yield
    finally:
        stop_trace()


class TraceAnnotation(contextlib.ContextDecorator):
    """A named span of the current thread, recorded if a trace is; keywords are shown with it."""

    def __init__(self, name: str, **kwargs: Any) -> None:
        self._name = name
        self._shown = kwargs
        self._started: list[int] = []

    def __enter__(self) -> TraceAnnotation:
        self._started.append(time.perf_counter_ns())
        return self

    def __exit__(self, *error: object) -> None:
        start = self._started.pop()
        if _recording.folder is None:
            return
        span = {
            "name": self._name,
            "ph": "X",
            "pid": os.getpid(),
            "tid": threading.get_ident(),
            "ts": start / 1e3,
            "dur": (time.perf_counter_ns() - start) / 1e3,
            "args": {key: str(value) for key, value in self._shown.items()},
        }
        with _recording.lock:
            _recording.spans.append(span)


class StepTraceAnnotation(TraceAnnotation):
    """The span of one step of a program; its number is the keyword `step_num`."""


def annotate_function(
    func: Callable[..., Any], name: str | None = None, **decorator_kwargs: Any
) -> Callable[..., Any]:
    """Return the function with a span for each call.

    The span of a call of `func` has its qualified name unless `name` is given; `decorator_kwargs`
    are metadata of the span.
    """
    shown = name or str(getattr(func, "__qualname__", type(func).__name__))

    @functools.wraps(func)
    def annotated(*args: Any, **kwargs: Any) -> Any:
        with TraceAnnotation(shown, **decorator_kwargs):
            return func(*args, **kwargs)

    return annotated


def _refused(asked: str, wrong: str, remedy: str) -> NotImplementedError:
    return NotImplementedError(three_lines(f"{asked} at {current_source()}", wrong, remedy))


_NO_MEMORY = ("kiln has no profile of memory by allocation", "sum x.nbytes over kiln.live_arrays()")


def device_memory_profile(backend: str | None = None) -> bytes:
    """Refuse: there is no profile of memory.

    Raises: NotImplementedError.
    """
    raise _refused("device_memory_profile", *_NO_MEMORY)


def save_device_memory_profile(
    filename: str | os.PathLike[str], backend: str | None = None
) -> None:
    """Refuse: there is no profile of memory.

    Raises: NotImplementedError.
    """
    raise _refused("save_device_memory_profile", *_NO_MEMORY)


def start_server(port: int) -> Any:
    """Refuse: profiles are not served.

    Raises: NotImplementedError.
    """
    raise _refused("start_server", "kiln serves no profiles", "use kiln.profiler.trace(folder)")


def stop_server() -> None:
    """Refuse: profiles are not served.

    Raises: NotImplementedError.
    """
    raise _refused("stop_server", "kiln serves no profiles", "use kiln.profiler.trace(folder)")


_suggest_names(globals())
