# The extension for Linux on ARM, by the compiler of the package ziglang (`make test-aarch64`). Its glibc
# is the oldest that a wheel for manylinux_2_28 may be installed beside; libc++ is linked statically.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES Python_EXECUTABLE)
set(
  CMAKE_CXX_COMPILER
  ${Python_EXECUTABLE}
  -m
  ziglang
  c++
  -target
  aarch64-linux-gnu.2.28
  -mno-outline-atomics
  -fno-sanitize=all
  -ffp-contract=fast
  -g0
)
