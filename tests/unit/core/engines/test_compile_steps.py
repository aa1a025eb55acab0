"""The step of compiling that each thread is in."""

from __future__ import annotations

import threading

from kiln.core.engines.compile_steps import begin, end, step_of


def test_each_thread_has_a_step_of_its_own() -> None:
    begin("fuse")
    found: list[str] = []

    def other() -> None:
        # A thread that has ended, and compiled, may have had the same number.
        end()
        found.append(step_of(threading.get_ident()))
        begin("hoist")
        found.append(step_of(threading.get_ident()))
        end()

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == ["", "hoist"]
    assert step_of(threading.get_ident()) == "fuse"
    end()
    assert step_of(threading.get_ident()) == ""
    end()
