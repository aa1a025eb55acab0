"""Every mistake has a class, and its message says where and what to do."""

from __future__ import annotations

import inspect

import pytest

from kiln.linen import errors

CLASSES = [
    cls
    for cls in vars(errors).values()
    if isinstance(cls, type) and issubclass(cls, errors.LinenError)
]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_messages_have_three_lines_and_the_place(cls):
    if cls is errors.PartitioningUnspecifiedError:
        return
    wanted = list(inspect.signature(cls.__init__).parameters.values())[1:]
    given = [["a"] if "list" in str(p.annotation) else "name" for p in wanted]
    if cls is errors.ApplyScopeInvalidVariablesStructureError:
        given = [{"params": {}}]
    lines = str(cls(*given)).splitlines()
    assert len(lines) == 3
    assert "test_errors.py:" in lines[0]


def test_one_class_catches_all():
    assert all(issubclass(cls, errors.FlaxError) for cls in CLASSES)
