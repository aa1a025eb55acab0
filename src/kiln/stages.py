"""The types of the stages of ahead-of-time compilation."""

from kiln.base.lazy import suggest_names as _suggest_names
from kiln.jit.function import JitFunction as Wrapped
from kiln.jit.stages.compiled import Compiled
from kiln.jit.stages.stage import ArgInfo
from kiln.jit.stages.traced import Lowered, Traced

CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]

_suggest_names(globals())
