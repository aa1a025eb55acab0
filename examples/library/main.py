"""Calls the library with Python's ctypes; kiln is not imported: `python main.py out`."""

import ctypes
import sys
from pathlib import Path

circle = ctypes.CDLL(str(Path(sys.argv[1]).resolve() / "libcircle.so"))
circle.circle_create.restype = ctypes.c_void_p
circle.circle_create.argtypes = [ctypes.c_int64]
circle.circle_workspace_size.restype = ctypes.c_int64
circle.circle_workspace_size.argtypes = [ctypes.c_int64]
circle.circle_error.restype = ctypes.c_char_p
circle.circle_destroy.argtypes = [ctypes.c_void_p]
floats = ctypes.POINTER(ctypes.c_float)
circle.circle.argtypes = [ctypes.c_void_p, ctypes.c_int64, floats, floats]

points = (ctypes.c_float * 6)(0, 0, 0.5, -0.5, 1.5, 1.5)
inside = (ctypes.c_float * 3)()
context = circle.circle_create(circle.circle_workspace_size(3))
status = circle.circle(context, 3, points, inside)
if status:
    sys.exit(circle.circle_error(status).decode())
print("\n".join(f"{probability:.4f}" for probability in inside))
circle.circle_destroy(context)
