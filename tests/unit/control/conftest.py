"""What the tests of prints read."""

import pytest

import kiln


@pytest.fixture
def printed(capsys):
    def read():
        kiln.effects_barrier()
        return capsys.readouterr().out

    return read
