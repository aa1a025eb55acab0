"""The types of the stages of ahead-of-time compilation."""

from kiln.jit.compiled import Compiled
from kiln.jit.function import JitFunction as Wrapped
from kiln.jit.stage import ArgInfo
from kiln.jit.stages import Lowered, Traced

CompilerOptions = dict[str, str | bool]

__all__ = ["ArgInfo", "Compiled", "CompilerOptions", "Lowered", "Traced", "Wrapped"]
