"""The threads of kiln as threadpoolctl sees them."""

from __future__ import annotations

import pytest

import kiln

threadpoolctl = pytest.importorskip("threadpoolctl")


def test_limits_hold_for_kiln() -> None:
    module = pytest.importorskip("kiln.threadpool")
    before = kiln.get_num_threads()
    (found,) = [x for x in threadpoolctl.threadpool_info() if x["user_api"] == "kiln"]
    assert found["num_threads"] == before and module.KilnController.user_api == "kiln"
    with threadpoolctl.threadpool_limits(before + 3, user_api="kiln"):
        assert kiln.get_num_threads() == before + 3
    assert kiln.get_num_threads() == before
    kiln.set_num_threads(None)
