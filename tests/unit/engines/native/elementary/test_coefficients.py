"""The file of coefficients is what its generator writes."""

from __future__ import annotations

from pathlib import Path

from kiln.engines.native.elementary import coefficients as stored
from tests.unit.engines.native.elementary import coefficients


def test_the_file_is_generated():
    assert Path(stored.__file__).read_text() == coefficients.text()


def test_sums_are_as_exact_as_they_claim():
    for name, exact in (("pi", coefficients.mp.pi), ("ln2", coefficients.LN2)):
        total = sum(map(coefficients.mp.mpf, stored.COEFFICIENTS[name]["f64"]))
        assert abs(total / exact - 1) < 2.0**-90
