"""kiln.scipy: functions with scipy's names on arrays of kiln."""

from __future__ import annotations

from kiln.scipy import linalg as linalg
from kiln.scipy import special as special
