"""Cases of the number of the platform."""

from __future__ import annotations

from kiln.ops.platform import platform_index, platform_index_p
from tests.cases.case import Case

CASES = [Case(platform_index_p, lambda: platform_index(("tpu", "cpu")), ())]
