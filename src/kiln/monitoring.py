"""Events that programs record, and the functions that are told of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kiln.base.lazy import suggest_names as _suggest_names

__all__ = [
    "clear_event_listeners",
    "record_event",
    "record_event_duration_secs",
    "record_event_time_span",
    "record_scalar",
    "register_event_duration_secs_listener",
    "register_event_listener",
    "register_event_time_span_listener",
    "register_scalar_listener",
    "unregister_event_duration_listener",
    "unregister_event_listener",
    "unregister_event_time_span_listener",
    "unregister_scalar_listener",
]

Listener = Callable[..., None]

_events: list[Listener] = []
_durations: list[Listener] = []
_spans: list[Listener] = []
_scalars: list[Listener] = []


def record_event(event: str, **kwargs: str | int) -> None:
    """Tell the listeners of events that `event` happened."""
    _tell(_events, event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: str | int) -> None:
    """Tell the listeners of durations how long `event` took, in seconds.

    Keyword arguments are passed on to them.
    Units: `duration` is in seconds.
    """
    _tell(_durations, event, duration, **kwargs)


def record_event_time_span(
    event: str, start_time: float, end_time: float, **kwargs: str | int
) -> None:
    """Tell the listeners of time spans when `event` began and ended, in seconds.

    `start_time` and `end_time` are those of one clock, such as `time.time`.
    """
    _tell(_spans, event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float | int, **kwargs: str | int) -> None:
    """Tell the listeners of scalars a value.

    `event` is its name; keyword arguments are passed on to them.
    """
    _tell(_scalars, event, value, **kwargs)


def _tell(listeners: list[Listener], *args: Any, **kwargs: Any) -> None:
    for listener in list(listeners):
        listener(*args, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Let `callback(event, **kwargs)` be called by `record_event`."""
    _events.append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Let `callback(event, duration, **kwargs)` be called by `record_event_duration_secs`."""
    _durations.append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Let `callback(event, start, end, **kwargs)` be called by `record_event_time_span`."""
    _spans.append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Let `callback(event, value, **kwargs)` be called by `record_scalar`."""
    _scalars.append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Undo `register_event_listener`.

    Raises: AssertionError for a function that is not registered.
    """
    _forget(_events, callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Undo `register_event_duration_secs_listener`.

    Raises: AssertionError for a function that is not registered.
    """
    _forget(_durations, callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Undo `register_event_time_span_listener`.

    Raises: AssertionError for a function that is not registered.
    """
    _forget(_spans, callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Undo `register_scalar_listener`.

    Raises: AssertionError for a function that is not registered.
    """
    _forget(_scalars, callback)


def _forget(listeners: list[Listener], callback: Listener) -> None:
    assert callback in listeners, f"{callback} is not registered"
    listeners.remove(callback)


def clear_event_listeners() -> None:
    """Forget all listeners."""
    for listeners in (_events, _durations, _spans, _scalars):
        listeners.clear()


_suggest_names(globals())
