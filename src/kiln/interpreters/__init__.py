"""The rules of primitives, for libraries that have primitives of their own; see docs/extend.md."""

from kiln.interpreters import ad as ad
from kiln.interpreters import batching as batching
from kiln.interpreters import mlir as mlir
from kiln.interpreters import partial_eval as partial_eval
from kiln.interpreters import xla as xla
