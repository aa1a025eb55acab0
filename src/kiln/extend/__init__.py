"""What libraries that extend kiln import: primitives, programs, wrapped functions, sources.

The names are those of `jax.extend`; see docs/extend.md.
"""

from kiln.extend import backend as backend
from kiln.extend import core as core
from kiln.extend import linear_util as linear_util
from kiln.extend import source_info_util as source_info_util
