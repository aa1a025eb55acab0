"""A pytest plugin under which `jax` is kiln, and nothing else is changed."""

from __future__ import annotations

import kiln.as_jax

kiln.as_jax.install()
